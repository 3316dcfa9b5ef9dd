"""Llama's attention: rotated, causal, with keys that several heads share."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Bool, Float, Int
from specdec_jax.kv_cache import KVCache
from specdec_jax.lm.llama import rope
from specdec_jax.lm.llama.config import LlamaConfig
from specdec_jax.t5 import blocked
from specdec_jax.t5.layers import Dense, product

MASKED = -1e10
"""In place of the logits of what must not be attended to."""


class Attention(nn.Module):
  """Grouped-query self-attention against a cache.

  Keys and values are stored and read once per head of theirs: the query heads
  that share one are rows of the same product.
  """

  config: LlamaConfig

  def setup(self):
    config = self.config
    axes = ("embed", "joined_kv")
    width = config.num_key_value_heads * config.head_dim
    self.query = Dense(config.num_heads * config.head_dim, axes, config.dtype)
    self.key = Dense(width, axes, config.dtype)
    self.value = Dense(width, axes, config.dtype)
    self.out = Dense(config.emb_dim, ("joined_kv", "embed"), config.dtype)

  def __call__(
    self,
    x: Float[Array, "B Q D"],
    positions: Int[Array, "*B"],
    cache: KVCache,
    rotation: rope.Rotation,
    is_visible: Bool[Array, "b Q L"],
  ) -> tuple[Float[Array, "B Q D"], KVCache]:
    """Writes the tokens' keys and values, then attends to the cache.

    Args:
      x: The tokens, normed.
      positions: int32[B] of each row's first token, or int32[] of all rows'.
      cache: What stands there already.
      rotation: Of the tokens' positions.
      is_visible: Which slots each token attends to; b is B, or 1 for all rows.
    """
    query, key, value = (
      each.reshape(*each.shape[:-1], -1, self.config.head_dim)
      for each in self._query_key_value(x)
    )
    key = rope.rotate(key, rotation)
    write = cache.write if positions.ndim else cache.write_aligned
    cache = write(key, value, positions)
    # Scaled while it is float32, so that it is rounded once.
    query = rope.rotate(query, rotation) * self.config.head_dim**-0.5
    y = self._attend(query.astype(self.config.dtype), cache, is_visible)
    return y, cache

  def _query_key_value(self, x: Float[Array, "B Q D"]):
    if not self.has_variable("params", blocked.QUERY_KEY_VALUE):
      return self.query(x), self.key(x), self.value(x)
    y = product(self, x, blocked.QUERY_KEY_VALUE, self.config.dtype)
    width = self.config.num_key_value_heads * self.config.head_dim
    return jnp.split(y, (y.shape[-1] - 2 * width, y.shape[-1] - width), axis=-1)

  def _attend(
    self,
    query: Float[Array, "B Q H K"],
    memory: KVCache,
    is_visible: Bool[Array, "b Q L"],
  ) -> Float[Array, "B Q D"]:
    batch, num_tokens = query.shape[:2]
    groups, width = self.config.num_key_value_heads, self.config.head_dim
    query = query.reshape(batch, num_tokens, groups, -1, width)
    query = query.transpose(0, 2, 3, 1, 4)
    logits = jnp.einsum(
      "bgmk,bgkl->bgml",
      query.reshape(batch, groups, -1, width),
      memory.key,
      preferred_element_type=jnp.float32,
    )
    logits = logits.reshape(*query.shape[:4], -1)
    logits = jnp.where(is_visible[:, None, None], logits, MASKED)
    weights = jax.nn.softmax(logits, axis=-1).astype(self.config.dtype)
    mixed = jnp.einsum(
      "bgml,bglk->bgmk",
      weights.reshape(batch, groups, -1, weights.shape[-1]),
      memory.value,
    )
    mixed = mixed.reshape(query.shape).transpose(0, 3, 1, 2, 4)
    return self.out(mixed.reshape(batch, num_tokens, -1))
