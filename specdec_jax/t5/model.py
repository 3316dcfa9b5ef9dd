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

START_TOKEN = 0
"""T5's first decoder input is its pad token."""


@dataclasses.dataclass(frozen=True)
class T5Model(FlaxModel):
  """An encoder-decoder.

  Attributes:
    config: The shape and the compute dtype.
  """

  config: T5Config

  @property
  def module(self) -> T5:
    """The flax module."""
    return T5(self.config)

  def encode(
    self, params: Params, inputs: Int[Array, "B S"]
  ) -> Float[Array, "B S D"]:
    """Encodes int32[B, S], padded with 0."""
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
      encoded: From `encode`.
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
    cache = self._apply(T5.start, params, inputs, length)
    batch = inputs.shape[0]
    return Prefill(
      cache,
      jnp.full((batch,), START_TOKEN, jnp.int32),
      jnp.zeros((batch,), jnp.int32),
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

  @functools.partial(jax.jit, static_argnums=0)
  def _init(self, key):
    tokens = jnp.zeros((1, 1), jnp.int32)
    return self.module.init(key, tokens, tokens)["params"]
