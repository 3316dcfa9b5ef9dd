"""The encoder-decoder as one flax module; what it keeps is passed, not owned.

`decode` scores a whole target sequence at once and is the oracle that the
cached `extend` is tested against.
"""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Bool, Float, Int
from specdec_jax.kv_cache import KVCache
from specdec_jax.t5 import relative_bias
from specdec_jax.t5.config import T5Config
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
class LayerCache:
  """What one decoder layer keeps.

  Attributes:
    self_attention: Overwritten at each step.
    cross_attention: Keys and values of the encoded inputs; never written.
    bias_line: float32[B, H, 2 L] if the layer has biases of its own, the
      stack's where layers share them. See `relative_bias.line_of_biases`.
  """

  self_attention: KVCache
  cross_attention: KVCache
  bias_line: Float[Array, "B H LL"] | None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class T5Cache:
  """What the decoder keeps between two calls.

  Attributes:
    layers: One entry per decoder layer.
    bias_line: As in `LayerCache`, where all layers share it.
    encoder_mask: bool[B, S], True at input tokens that are not padding.
  """

  layers: tuple[LayerCache, ...]
  bias_line: Float[Array, "B H LL"] | None
  encoder_mask: Bool[Array, "B S"]


def _mask_bias(mask: Bool[Array, "B S"]) -> Float[Array, "B 1 1 S"]:
  return jnp.where(mask, 0.0, relative_bias.MASKED)[:, None, None, :]


class _Stack(nn.Module):
  """What encoder and decoder have in common: biases and dropout."""

  config: T5Config

  def _table(self, layer: Any = None):
    owner = layer if self.config.relative_bias_per_layer else self
    return owner.relpos_bias()


class EncoderLayer(nn.Module):
  """Self-attention, then the feed-forward block."""

  config: T5Config

  def setup(self):
    config = self.config
    if config.relative_bias_per_layer:
      self.relpos_bias = RelativeBiasTable(config)
    self.pre_attention_layer_norm = LayerNorm(config.dtype)
    self.attention = Attention(config)
    self.pre_mlp_layer_norm = LayerNorm(config.dtype)
    self.mlp = MlpBlock(config)
    self.dropout = nn.Dropout(config.dropout_rate, broadcast_dims=(-2,))

  def __call__(self, x, bias, deterministic):
    y = self.pre_attention_layer_norm(x)
    y, _ = self.attention.to_itself(y, bias, deterministic)
    x += self.dropout(y, deterministic=deterministic)
    y = self.mlp(self.pre_mlp_layer_norm(x), deterministic)
    return x + self.dropout(y, deterministic=deterministic)


class Encoder(_Stack):
  """The stack that reads the inputs."""

  def setup(self):
    config = self.config
    if not config.relative_bias_per_layer:
      self.relpos_bias = RelativeBiasTable(config)
    self.layers = [
      EncoderLayer(config) for _ in range(config.num_encoder_layers)
    ]
    self.encoder_norm = LayerNorm(config.dtype)
    self.dropout = nn.Dropout(config.dropout_rate, broadcast_dims=(-2,))

  def __call__(self, x, mask, deterministic=True):
    x = self.dropout(x, deterministic=deterministic)
    padding = _mask_bias(mask)
    for layer in self.layers:
      bias = relative_bias.full_bias(
        self._table(layer),
        x.shape[1],
        bidirectional=True,
        max_distance=self.config.relative_attention_max_distance,
      )
      x = layer(x, bias + padding, deterministic)
    return self.dropout(self.encoder_norm(x), deterministic=deterministic)


class DecoderLayer(nn.Module):
  """Self-attention, attention to the inputs, then the feed-forward block."""

  config: T5Config

  def setup(self):
    config = self.config
    if config.relative_bias_per_layer:
      self.relpos_bias = RelativeBiasTable(config)
    self.pre_self_attention_layer_norm = LayerNorm(config.dtype)
    self.self_attention = Attention(config)
    self.pre_cross_attention_layer_norm = LayerNorm(config.dtype)
    self.encoder_decoder_attention = Attention(config)
    self.pre_mlp_layer_norm = LayerNorm(config.dtype)
    self.mlp = MlpBlock(config)
    self.dropout = nn.Dropout(config.dropout_rate, broadcast_dims=(-2,))

  def __call__(self, x, encoded, bias, cross_bias, deterministic):
    y = self.pre_self_attention_layer_norm(x)
    y, _ = self.self_attention.to_itself(y, bias, deterministic)
    x += self.dropout(y, deterministic=deterministic)
    y = self.pre_cross_attention_layer_norm(x)
    y = self.encoder_decoder_attention.to_fixed(
      y,
      self.encoder_decoder_attention.fixed(encoded),
      cross_bias,
      deterministic,
    )
    x += self.dropout(y, deterministic=deterministic)
    y = self.mlp(self.pre_mlp_layer_norm(x), deterministic)
    return x + self.dropout(y, deterministic=deterministic)

  def step(self, x, positions, cache: LayerCache, bias, cross_bias):
    """The same for Q tokens a row against the cache."""
    y, self_attention = self.self_attention.step(
      self.pre_self_attention_layer_norm(x),
      positions,
      cache.self_attention,
      bias,
    )
    x += y
    x += self.encoder_decoder_attention.to_fixed(
      self.pre_cross_attention_layer_norm(x),
      cache.cross_attention,
      cross_bias,
    )
    x += self.mlp(self.pre_mlp_layer_norm(x))
    return x, dataclasses.replace(cache, self_attention=self_attention)


class Decoder(_Stack):
  """The stack that writes the outputs, without embedding and logits."""

  def setup(self):
    config = self.config
    if not config.relative_bias_per_layer:
      self.relpos_bias = RelativeBiasTable(config)
    self.layers = [
      DecoderLayer(config) for _ in range(config.num_decoder_layers)
    ]
    self.decoder_norm = LayerNorm(config.dtype)
    self.dropout = nn.Dropout(config.dropout_rate, broadcast_dims=(-2,))
    if not config.logits_via_embedding:
      self.logits_dense = LogitsDense(config)

  def __call__(self, x, encoded, encoder_mask, deterministic=True):
    x = self.dropout(x, deterministic=deterministic)
    length = x.shape[1]
    causal = relative_bias.causal_mask(length)
    cross_bias = _mask_bias(encoder_mask)
    for layer in self.layers:
      bias = relative_bias.full_bias(
        self._table(layer),
        length,
        bidirectional=False,
        max_distance=self.config.relative_attention_max_distance,
      )
      x = layer(x, encoded, bias + causal, cross_bias, deterministic)
    return self.dropout(self.decoder_norm(x), deterministic=deterministic)

  def start(self, encoded, encoder_mask, length: int) -> T5Cache:
    """Returns the cache of a decoder that has not read a token yet."""
    config = self.config
    batch = encoded.shape[0]

    def line(layer=None):
      biases = relative_bias.line_of_biases(
        self._table(layer),
        length,
        max_distance=config.relative_attention_max_distance,
      )
      return jnp.broadcast_to(biases, (batch, *biases.shape))

    layers = tuple(
      LayerCache(
        KVCache.create(
          batch, config.num_heads, length, config.head_dim, config.dtype
        ),
        layer.encoder_decoder_attention.fixed(encoded),
        line(layer) if config.relative_bias_per_layer else None,
      )
      for layer in self.layers
    )
    shared = None if config.relative_bias_per_layer else line()
    return T5Cache(layers, shared, encoder_mask)

  def step(self, x, positions, cache: T5Cache, tree: Tree | None = None):
    """Advances by Q tokens a row, in a line or in a tree."""
    cross_bias = _mask_bias(cache.encoder_mask)

    def bias_of(line):
      if tree is not None:
        return relative_bias.tree_bias(line, positions, tree)
      return relative_bias.step_bias(line, positions, x.shape[1])

    shared = None if cache.bias_line is None else bias_of(cache.bias_line)
    layers = []
    for layer, layer_cache in zip(self.layers, cache.layers, strict=True):
      own = layer_cache.bias_line
      bias = shared if own is None else bias_of(own)
      x, layer_cache = layer.step(x, positions, layer_cache, bias, cross_bias)
      layers.append(layer_cache)
    return self.decoder_norm(x), dataclasses.replace(
      cache, layers=tuple(layers)
    )


class T5(nn.Module):
  """The whole model. Its methods are what `t5.model` gives to the world."""

  config: T5Config

  def setup(self):
    self.token_embedder = Embed(self.config)
    if self.config.has_encoder:
      self.encoder = Encoder(self.config)
    self.decoder = Decoder(self.config)

  def encode(self, inputs: Int[Array, "B S"], deterministic: bool = True):
    return self.encoder(self.token_embedder(inputs), inputs > 0, deterministic)

  def decode(
    self,
    encoded: Float[Array, "B S D"],
    inputs: Int[Array, "B S"],
    decoder_input_tokens: Int[Array, "B T"],
    deterministic: bool = True,
  ) -> Float[Array, "B T V"]:
    y = self.decoder(
      self.token_embedder(decoder_input_tokens),
      encoded,
      inputs > 0,
      deterministic,
    )
    return self._logits(y)

  def __call__(self, inputs, decoder_input_tokens, deterministic=True):
    encoded = self.encode(inputs, deterministic)
    return self.decode(encoded, inputs, decoder_input_tokens, deterministic)

  def start(
    self, encoded: Float[Array, "B S D"], inputs: Int[Array, "B S"], length: int
  ) -> T5Cache:
    return self.decoder.start(encoded, inputs > 0, length)

  def extend(self, tokens, positions, cache: T5Cache, tree: Tree | None = None):
    y, cache = self.decoder.step(
      self.token_embedder(tokens), positions, cache, tree
    )
    return self._logits(y), cache

  def _logits(self, y):
    if self.config.logits_via_embedding:
      return self.token_embedder.attend(y)
    return self.decoder.logits_dense(y)
