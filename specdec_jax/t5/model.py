"""T5 behind the seam: the pure functions that the algorithm and tests call."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Float, Int, Params
from specdec_jax.base import Prefill
from specdec_jax.t5.config import T5Config
from specdec_jax.t5.flax_model import FlaxModel
from specdec_jax.t5.network import T5, T5Cache
from specdec_jax.tree import Tree

START_TOKEN = 0
"""T5's first decoder input is its pad token."""


@dataclasses.dataclass(frozen=True)
class T5Model(FlaxModel):
  """An encoder-decoder, or a decoder that shares another one's encoder.

  The latter (`shares_encoder`) can do nothing alone: it drafts for the model
  whose encoder it shares, `sd.model_drafter(draft)`.

  Attributes:
    config: The shape and the compute dtype.
  """

  config: T5Config

  @property
  def module(self) -> T5:
    """The flax module."""
    return T5(self.config)

  @property
  def shares_encoder(self) -> bool:
    """Whether it has no encoder, but reads what its target's returns."""
    return not self.config.has_encoder

  def encode(
    self, params: Params, inputs: Int[Array, "B S"]
  ) -> Float[Array, "B S D"]:
    """Encodes int32[B, S], padded with 0.

    Raises:
      ValueError: If the model has no encoder of its own.
    """
    if self.shares_encoder:
      raise ValueError(
        "This T5 has no encoder of its own (num_encoder_layers is 0). It can"
        " draft for the model whose encoder it shares,"
        " sd.model_drafter(draft); alone give decode or prefill_encoded what"
        " that encoder returns."
      )
    return self._apply(T5.encode, params, inputs)

  def decode(
    self,
    params: Params,
    encoded: Float[Array, "B S D"],
    inputs: Int[Array, "B S"],
    decoder_input_tokens: Int[Array, "B T"],
  ) -> Float[Array, "B T V"]:
    """Scores whole target sequences (teacher forcing), without a cache.

    Args:
      params: The parameters.
      encoded: From `encode`, of the model whose encoder this is.
      inputs: int32[B, S], what was encoded; 0 is padding.
      decoder_input_tokens: int32[B, T], the target shifted right by the start
        token.

    Returns:
      float32[B, T, V]; row t is for the token after `[:, t]`.
    """
    return self._apply(T5.decode, params, encoded, inputs, decoder_input_tokens)

  def prefill(
    self, params: Params, inputs: Int[Array, "B S"], length: int
  ) -> Prefill:
    """Encodes, and computes the cross-attention's keys and values once.

    See `DecoderModel.prefill`.
    """
    return self.prefill_encoded(
      params, self.encode(params, inputs), inputs, length
    )

  def prefill_encoded(
    self,
    params: Params,
    encoded: Float[Array, "B S D"] | None,
    inputs: Int[Array, "B S"],
    length: int,
  ) -> Prefill:
    """Does the same with inputs that are encoded already.

    Args:
      params: The parameters.
      encoded: As in `decode`.
      inputs: int32[B, S], what was encoded; 0 is padding.
      length: As in `DecoderModel.prefill`.

    Raises:
      ValueError: If `encoded` is not as wide as the model reads it.
    """
    width = self.config.encoded_dim or self.config.emb_dim
    found = None if encoded is None else encoded.shape[-1]
    if found != width:
      raise ValueError(
        f"The model reads an encoding of width {width}, and is given"
        f" {'none' if found is None else f'one of {found}'}; a draft without"
        " an encoder drafts for the target whose encoder it was trained with."
      )
    batch = inputs.shape[0]
    return Prefill(
      self._apply(T5.start, params, encoded, inputs, length),
      jnp.full((batch,), START_TOKEN, jnp.int32),
      jnp.zeros((batch,), jnp.int32),
      encoded,
    )

  def extend(
    self,
    params: Params,
    tokens: Int[Array, "B Q"],
    positions: Int[Array, "B"],
    cache: T5Cache,
  ) -> tuple[Float[Array, "B Q V"], T5Cache]:
    """Scores Q tokens a row; see `DecoderModel.extend`."""
    return self._apply(T5.extend, params, tokens, positions, cache)

  def extend_tree(
    self,
    params: Params,
    tokens: Int[Array, "B M"],
    positions: Int[Array, "B"],
    cache: T5Cache,
    tree: Tree,
  ) -> tuple[Float[Array, "B M V"], T5Cache]:
    """Scores the nodes of a tree; see `TreeModel.extend_tree`."""
    return self._apply(T5.extend, params, tokens, positions, cache, tree)

  def keep(
    self,
    cache: T5Cache,
    positions: Int[Array, "B"],
    nodes: Int[Array, "B G"],
  ) -> T5Cache:
    """Puts a draft's entries in order; see `TreeModel.keep`."""
    sources = positions[:, None] + nodes
    layers = tuple(
      dataclasses.replace(
        each, self_attention=each.self_attention.move(sources, positions + 1)
      )
      for each in cache.layers
    )
    return dataclasses.replace(cache, layers=layers)

  @functools.partial(jax.jit, static_argnums=0)
  def _init(self, key):
    tokens = jnp.zeros((1, 1), jnp.int32)
    if not self.shares_encoder:
      return self.module.init(key, tokens, tokens)["params"]
    encoded = jnp.zeros((1, 1, self.config.encoded_dim), jnp.float32)
    arguments = (encoded, tokens, tokens)
    return self.module.init(key, *arguments, method=T5.decode)["params"]
