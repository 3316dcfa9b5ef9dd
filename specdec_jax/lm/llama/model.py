"""Llama behind the seam: the pure functions that others call."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Float, Int, Params
from specdec_jax.base import Prefill
from specdec_jax.lm.llama.config import LlamaConfig
from specdec_jax.lm.llama.network import Llama, LlamaCache, empty_cache
from specdec_jax.t5.flax_model import FlaxModel


@dataclasses.dataclass(frozen=True)
class LlamaModel(FlaxModel):
  """A Llama, whose inputs are prompts that it continues.

  A prompt is what its tokenizer wrote, BOS included: nothing is put in front.
  On the right it is filled up with `config.pad_id`, and ends where nothing
  else follows; `pad_prompts` does so. A row of padding alone is the prompt of
  one such token, with BOS a text from its beginning.

  Attributes:
    config: The shape and the compute dtype.
    prefill_chunk: Most tokens of a prompt that are read in one pass. The
      scores of attention take as much memory as a pass has tokens, times the
      length of the cache; what is read does not depend on it.
  """

  config: LlamaConfig
  prefill_chunk: int = 512

  def __post_init__(self):
    if self.prefill_chunk < 1:
      raise ValueError(
        f"LlamaModel.prefill_chunk is {self.prefill_chunk}; it must be at"
        " least 1."
      )

  @property
  def module(self) -> Llama:
    """The flax module."""
    return Llama(self.config)

  def decode(
    self, params: Params, decoder_input_tokens: Int[Array, "B T"]
  ) -> Float[Array, "B T V"]:
    """Scores whole sequences (teacher forcing), without a cache to keep.

    Args:
      params: The parameters.
      decoder_input_tokens: int32[B, T], texts with BOS.

    Returns:
      float32[B, T, V]; row t is for the token after `[:, t]`.
    """
    return self._apply(Llama.__call__, params, decoder_input_tokens)

  def prefill(
    self, params: Params, inputs: Int[Array, "B S"], length: int
  ) -> Prefill:
    """Reads the prompts chunk by chunk; each row goes on from its own end.

    What padding left in the cache lies after the row's end: it is invisible,
    and overwritten before its position is reached.

    See `DecoderModel.prefill`.

    Raises:
      ValueError: If prompts and `length` are more than the model's positions.
    """
    config = self.config
    tokens = inputs.astype(jnp.int32)
    batch, width = tokens.shape
    # The longest row writes from its last token on.
    slots = width - 1 + length
    if slots > config.max_positions:
      raise ValueError(
        f"inputs are {width} tokens wide, and {length} positions are written"
        f" from a prompt's last token on (what may be emitted, and a round's"
        f" guesses): more than the model's {config.max_positions} positions"
        " in all (max_positions). Shorten the prompts or max_new_tokens."
      )
    is_token = tokens != config.pad_id
    position = jnp.max(jnp.where(is_token, jnp.arange(width), 0), axis=1)
    token = jnp.take_along_axis(tokens, position[:, None], axis=1)[:, 0]

    # Of equal size, so that as little as possible is read in vain.
    num_chunks = -(-width // self.prefill_chunk)
    size = -(-width // num_chunks)
    chunks = jnp.pad(tokens, ((0, 0), (0, num_chunks * size - width)))
    chunks = chunks.reshape(batch, num_chunks, size).swapaxes(0, 1)

    def read(cache, chunk):
      return self._apply(Llama.read, params, *chunk, cache), None

    cache, _ = jax.lax.scan(
      read,
      empty_cache(config, batch, max(slots, num_chunks * size)),
      (chunks, jnp.arange(num_chunks, dtype=jnp.int32) * size),
    )
    return Prefill(cache, token, position.astype(jnp.int32))

  def extend(
    self,
    params: Params,
    tokens: Int[Array, "B Q"],
    positions: Int[Array, "B"],
    cache: LlamaCache,
  ) -> tuple[Float[Array, "B Q V"], LlamaCache]:
    """Scores Q tokens a row; see `DecoderModel.extend`."""
    return self._apply(Llama.extend, params, tokens, positions, cache)

  @functools.partial(jax.jit, static_argnums=0)
  def _init(self, key):
    return self.module.init(key, jnp.zeros((1, 1), jnp.int32))["params"]
