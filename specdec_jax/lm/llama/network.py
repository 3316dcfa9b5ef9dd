"""Llama as one flax module; what it keeps is passed, not owned.

There is one pass, against a cache. A whole sequence is its first step, against
a cache that holds nothing else, and a prompt is read in as many steps as
`llama.model` makes of it.
"""

import flax.linen as nn
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Float, Int
from specdec_jax.kv_cache import KVCache
from specdec_jax.lm.llama import rope
from specdec_jax.lm.llama.attention import Attention
from specdec_jax.lm.llama.config import LlamaConfig
from specdec_jax.t5.layers import Embed, LayerNorm, LogitsDense, MlpBlock

LlamaCache = tuple[KVCache, ...]
"""Keys, rotated, and values of each layer, overwritten at each step."""


def empty_cache(config: LlamaConfig, batch: int, length: int) -> LlamaCache:
  """Returns a cache of zeros.

  Args:
    config: The model's.
    batch: B.
    length: L, slots of each row.
  """
  return tuple(
    KVCache.create(
      batch, config.num_key_value_heads, length, config.head_dim, config.dtype
    )
    for _ in range(config.num_layers)
  )


class DecoderLayer(nn.Module):
  """Self-attention, then the feed-forward block."""

  config: LlamaConfig

  def setup(self):
    config = self.config
    self.pre_self_attention_layer_norm = LayerNorm(
      config.dtype, config.norm_epsilon
    )
    self.self_attention = Attention(config)
    self.pre_mlp_layer_norm = LayerNorm(config.dtype, config.norm_epsilon)
    self.mlp = MlpBlock(config)

  def __call__(
    self, x, positions, cache: KVCache, rotation, is_visible, deterministic
  ):
    y, cache = self.self_attention(
      self.pre_self_attention_layer_norm(x),
      positions,
      cache,
      rotation,
      is_visible,
    )
    x += y
    return x + self.mlp(self.pre_mlp_layer_norm(x), deterministic), cache


class Decoder(nn.Module):
  """The whole model, under the name that T5X gives it."""

  config: LlamaConfig

  def setup(self):
    config = self.config
    self.token_embedder = Embed(config, logits_scale=1.0)
    self.layers = [DecoderLayer(config) for _ in range(config.num_layers)]
    self.decoder_norm = LayerNorm(config.dtype, config.norm_epsilon)
    if not config.logits_via_embedding:
      self.logits_dense = LogitsDense(config)

  def __call__(
    self, tokens, positions, cache: LlamaCache, deterministic: bool = True
  ) -> tuple[Float[Array, "B Q D"], LlamaCache]:
    """Advances by Q tokens a row, or by as many at one position in all rows."""
    config = self.config
    offsets = jnp.arange(tokens.shape[1], dtype=jnp.int32)
    queries = jnp.atleast_1d(positions)[:, None] + offsets
    rotation = rope.rotation(
      rope.frequencies(config.rope_theta, config.head_dim, config.rope_scaling),
      queries,
    )
    is_visible = jnp.arange(cache[0].value.shape[2]) <= queries[..., None]
    x = self.token_embedder(tokens)
    layers = []
    for layer, layer_cache in zip(self.layers, cache, strict=True):
      x, layer_cache = layer(
        x, positions, layer_cache, rotation, is_visible, deterministic
      )
      layers.append(layer_cache)
    return x, tuple(layers)

  def logits(self, x: Float[Array, "B Q D"]) -> Float[Array, "B Q V"]:
    """Scores what the layers returned."""
    y = self.decoder_norm(x)
    if self.config.logits_via_embedding:
      return self.token_embedder.attend(y)
    return self.logits_dense(y)


class Llama(nn.Module):
  """The scope "decoder". Its methods are what `llama.model` gives on."""

  config: LlamaConfig

  def setup(self):
    self.decoder = Decoder(self.config)

  def __call__(
    self,
    decoder_input_tokens: Int[Array, "B T"],
    deterministic: bool = True,
  ) -> Float[Array, "B T V"]:
    tokens = decoder_input_tokens
    cache = empty_cache(self.config, *tokens.shape)
    start = jnp.zeros((), jnp.int32)
    x, _ = self.decoder(tokens, start, cache, deterministic)
    return self.decoder.logits(x)

  def read(self, tokens, position, cache: LlamaCache) -> LlamaCache:
    """Reads tokens that stand at the same position in all rows."""
    _, cache = self.decoder(tokens, position, cache)
    return cache

  def extend(self, tokens, positions, cache: LlamaCache):
    x, cache = self.decoder(tokens, positions, cache)
    return self.decoder.logits(x), cache
