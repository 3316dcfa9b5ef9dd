"""The decoder-only model as one flax module, of T5's layers.

Calling it scores whole sequences at once and is the oracle that the cached
`extend` is tested against. `start` is the same pass, of which it keeps the keys
and values.
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Float, Int
from specdec_jax.kv_cache import KVCache
from specdec_jax.lm.config import LMConfig
from specdec_jax.t5 import relative_bias
from specdec_jax.t5.layers import (
  Attention,
  Embed,
  LayerNorm,
  LogitsDense,
  MlpBlock,
  RelativeBiasTable,
)
from specdec_jax.tree import Tree


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LMCache:
  """What the decoder keeps between two calls.

  Attributes:
    layers: Keys and values of each layer, overwritten at each step.
    bias_line: float32[B, H, 2 L], which all layers share; see
      `relative_bias.line_of_biases`.
  """

  layers: tuple[KVCache, ...]
  bias_line: Float[Array, "B H LL"]


class DecoderLayer(nn.Module):
  """Self-attention, then the feed-forward block."""

  config: LMConfig

  def setup(self):
    config = self.config
    self.pre_self_attention_layer_norm = LayerNorm(config.dtype)
    self.self_attention = Attention(config)
    self.pre_mlp_layer_norm = LayerNorm(config.dtype)
    self.mlp = MlpBlock(config)
    self.dropout = nn.Dropout(config.dropout_rate, broadcast_dims=(-2,))

  def __call__(self, x, bias, deterministic):
    """Returns the output, and the keys and values of the whole sequence."""
    y = self.pre_self_attention_layer_norm(x)
    y, memory = self.self_attention.to_itself(y, bias, deterministic)
    x += self.dropout(y, deterministic=deterministic)
    y = self.mlp(self.pre_mlp_layer_norm(x), deterministic)
    return x + self.dropout(y, deterministic=deterministic), memory

  def step(self, x, positions, cache: KVCache, bias):
    """The same for Q tokens a row against the cache."""
    y, cache = self.self_attention.step(
      self.pre_self_attention_layer_norm(x), positions, cache, bias
    )
    x += y
    return x + self.mlp(self.pre_mlp_layer_norm(x)), cache


class Decoder(nn.Module):
  """The whole model, under the name that T5X gives it."""

  config: LMConfig

  def setup(self):
    config = self.config
    self.token_embedder = Embed(config)
    self.relpos_bias = RelativeBiasTable(config)
    self.layers = [DecoderLayer(config) for _ in range(config.num_layers)]
    self.decoder_norm = LayerNorm(config.dtype)
    self.dropout = nn.Dropout(config.dropout_rate, broadcast_dims=(-2,))
    if not config.logits_via_embedding:
      self.logits_dense = LogitsDense(config)

  def __call__(self, tokens, deterministic):
    y, _ = self._read(tokens, deterministic)
    y = self.dropout(self.decoder_norm(y), deterministic=deterministic)
    return self._logits(y)

  def start(self, tokens, length: int) -> LMCache:
    """Reads the tokens, and leaves room for more.

    Args:
      tokens: int32[B, S].
      length: L, slots of the cache in all, at least S.
    """
    _, memories = self._read(tokens, deterministic=True)
    room = (0, length - tokens.shape[1])
    layers = tuple(
      KVCache(
        jnp.pad(memory.key, ((0, 0), (0, 0), (0, 0), room)),
        jnp.pad(memory.value, ((0, 0), (0, 0), room, (0, 0))),
      )
      for memory in memories
    )
    line = relative_bias.line_of_biases(
      self.relpos_bias(),
      length,
      max_distance=self.config.relative_attention_max_distance,
    )
    return LMCache(
      layers, jnp.broadcast_to(line, (tokens.shape[0], *line.shape))
    )

  def step(self, tokens, positions, cache: LMCache, tree: Tree | None = None):
    """Advances by Q tokens a row, in a line or in a tree."""
    x = self.token_embedder(tokens)
    if tree is None:
      bias = relative_bias.step_bias(cache.bias_line, positions, x.shape[1])
    else:
      bias = relative_bias.tree_bias(cache.bias_line, positions, tree)
    layers = []
    for layer, layer_cache in zip(self.layers, cache.layers, strict=True):
      x, layer_cache = layer.step(x, positions, layer_cache, bias)
      layers.append(layer_cache)
    return self._logits(self.decoder_norm(x)), dataclasses.replace(
      cache, layers=tuple(layers)
    )

  def _read(self, tokens, deterministic):
    x = self.dropout(self.token_embedder(tokens), deterministic=deterministic)
    length = tokens.shape[1]
    # Padding needs no mask: it follows its row's tokens, which see the past.
    bias = relative_bias.causal_mask(length) + relative_bias.full_bias(
      self.relpos_bias(),
      length,
      bidirectional=False,
      max_distance=self.config.relative_attention_max_distance,
    )
    memories = []
    for layer in self.layers:
      x, memory = layer(x, bias, deterministic)
      memories.append(memory)
    return x, memories

  def _logits(self, y):
    if self.config.logits_via_embedding:
      return self.token_embedder.attend(y)
    return self.logits_dense(y)


class LM(nn.Module):
  """The scope "decoder". Its methods are what `lm.model` gives to the world."""

  config: LMConfig

  def setup(self):
    self.decoder = Decoder(self.config)

  def __call__(
    self,
    decoder_input_tokens: Int[Array, "B T"],
    deterministic: bool = True,
  ) -> Float[Array, "B T V"]:
    return self.decoder(decoder_input_tokens, deterministic)

  def start(self, tokens: Int[Array, "B S"], length: int) -> LMCache:
    return self.decoder.start(tokens, length)

  def extend(self, tokens, positions, cache: LMCache, tree: Tree | None = None):
    return self.decoder.step(tokens, positions, cache, tree)
