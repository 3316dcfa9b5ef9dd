"""A decoder-only model behind the seam: the pure functions that others call."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Float, Int, Params
from specdec_jax.base import Prefill
from specdec_jax.lm.config import LMConfig
from specdec_jax.lm.network import LM, LMCache
from specdec_jax.t5.flax_model import FlaxModel
from specdec_jax.tree import Tree

START_TOKEN = 0
"""What every sequence begins with, as in T5X: the pad token."""


@dataclasses.dataclass(frozen=True)
class LMModel(FlaxModel):
  """A decoder-only model, whose inputs are prompts that it continues.

  A prompt is padded with 0 on the right, and has no EOS at its end nor the
  start token before it: `prefill` puts that in front, where training has it
  too. So an empty row is a prompt as well, for a text from its beginning. A 0
  that has other tokens after it is a token, not padding.

  Attributes:
    config: The shape and the compute dtype.
  """

  config: LMConfig

  @property
  def module(self) -> LM:
    """The flax module."""
    return LM(self.config)

  def decode(
    self, params: Params, decoder_input_tokens: Int[Array, "B T"]
  ) -> Float[Array, "B T V"]:
    """Scores whole sequences (teacher forcing), without a cache.

    Args:
      params: The parameters.
      decoder_input_tokens: int32[B, T], texts shifted right by the start
        token.

    Returns:
      float32[B, T, V]; row t is for the token after `[:, t]`.
    """
    return self._apply(LM.__call__, params, decoder_input_tokens)

  def prefill(
    self, params: Params, inputs: Int[Array, "B S"], length: int
  ) -> Prefill:
    """Reads the prompts in one call; each row goes on from its own end.

    What padding left in the cache lies after the row's end: it is invisible,
    and overwritten before its position is reached.

    See `DecoderModel.prefill`.
    """
    tokens = jnp.pad(
      inputs.astype(jnp.int32), ((0, 0), (1, 0)), constant_values=START_TOKEN
    )
    slots = jnp.arange(tokens.shape[1], dtype=jnp.int32)
    position = jnp.max(jnp.where(tokens > 0, slots, 0), axis=1)
    # The longest row writes from its last token on, in slot S at most.
    cache = self._apply(LM.start, params, tokens, inputs.shape[1] + length)
    token = jnp.take_along_axis(tokens, position[:, None], axis=1)[:, 0]
    return Prefill(cache, token, position)

  def extend(
    self,
    params: Params,
    tokens: Int[Array, "B Q"],
    positions: Int[Array, "B"],
    cache: LMCache,
  ) -> tuple[Float[Array, "B Q V"], LMCache]:
    """Scores Q tokens a row; see `DecoderModel.extend`."""
    return self._apply(LM.extend, params, tokens, positions, cache)

  def extend_tree(
    self,
    params: Params,
    tokens: Int[Array, "B M"],
    positions: Int[Array, "B"],
    cache: LMCache,
    tree: Tree,
  ) -> tuple[Float[Array, "B M V"], LMCache]:
    """Scores the nodes of a tree; see `TreeModel.extend_tree`."""
    return self._apply(LM.extend, params, tokens, positions, cache, tree)

  def keep(
    self,
    cache: LMCache,
    positions: Int[Array, "B"],
    nodes: Int[Array, "B G"],
  ) -> LMCache:
    """Puts a draft's entries in order; see `TreeModel.keep`."""
    sources = positions[:, None] + nodes
    layers = tuple(each.move(sources, positions + 1) for each in cache.layers)
    return dataclasses.replace(cache, layers=layers)

  @functools.partial(jax.jit, static_argnums=0)
  def _init(self, key):
    return self.module.init(key, jnp.zeros((1, 1), jnp.int32))["params"]
