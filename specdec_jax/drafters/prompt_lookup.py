"""Guesses copied from what is there: prompt lookup, without a draft model.

The last committed tokens are looked for in the inputs and in what has been
written; the guesses are what followed there. An encoder-decoder's inputs are
the encoder's, so that summaries, edits and names are copied from their source.
Where nothing matches a row abstains, and if none of a batch has a guess the
target is called with one token a row: a plain step.

A guess is certain, so its law is one-hot: it is kept with the target's own
probability of it, at any temperature.
"""

import dataclasses

import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Cache, Int, Key, Params
from specdec_jax.base import Context, Draft, Prefill
from specdec_jax.sampling import Sampler


@dataclasses.dataclass(frozen=True)
class PromptLookupDrafter:
  """Copies what followed the longest match; has no parameters.

  Attributes:
    vocab_size: The target's.
    max_ngram: The longest match that counts for more than a shorter one.
    min_ngram: The shortest match that is copied from.
    pad_id: What fills up the inputs' rows.
  """

  vocab_size: int
  max_ngram: int = 8
  min_ngram: int = 1
  pad_id: int = 0

  def sizes(self, gamma: int) -> tuple[int, ...]:
    """None or gamma; see `Drafter.sizes`."""
    return 0, gamma

  def prefill(
    self,
    params: Params,
    inputs: Int[Array, "B S"],
    length: int,
    target: Prefill,
  ) -> Cache:
    """Keeps the inputs; see `Drafter.prefill`."""
    del params, length, target
    return inputs

  def draft(
    self,
    params: Params,
    context: Context,
    cache: Cache,
    keys: Key[Array, "B"],
    sampler: Sampler,
    gamma: int,
  ) -> tuple[Draft, Cache]:
    """Copies up to `gamma` tokens; see `Drafter.draft`."""
    del params, keys, sampler
    inputs = cache
    index = jnp.arange(inputs.shape[1])
    num_inputs = jnp.max(jnp.where(inputs != self.pad_id, index + 1, 0), axis=1)
    texts = ((inputs, num_inputs), (context.tokens, context.lengths))
    matched = jnp.concatenate(
      [self._matched(context, *text) for text in texts], axis=1
    )
    # Of equal matches the first: the inputs' before what has been written.
    best = jnp.argmax(matched, axis=1)
    length = jnp.take_along_axis(matched, best[:, None], axis=1)[:, 0]

    source = inputs.shape[1]
    is_input = best < source
    start = jnp.where(is_input, best, best - source) + 1
    slots = start[:, None] + jnp.arange(gamma)
    copied, written = (
      jnp.take_along_axis(text, slots, axis=1, mode="clip") for text, _ in texts
    )
    tokens = jnp.where(is_input[:, None], copied, written)
    followers = jnp.where(is_input, num_inputs, context.lengths) - start
    lengths = jnp.where(
      length >= self.min_ngram, jnp.minimum(followers, gamma), 0
    )
    return (
      Draft(
        tokens,
        jax.nn.one_hot(tokens, self.vocab_size),
        lengths.astype(jnp.int32),
      ),
      cache,
    )

  def _matched(
    self,
    context: Context,
    text: Int[Array, "B T"],
    lengths: Int[Array, "B"],
  ) -> Int[Array, "B T"]:
    """How many tokens up to each of a text's are the last committed ones.

    0 where no token of the text follows.
    """
    index = jnp.arange(text.shape[1])
    matched = jnp.zeros(text.shape, jnp.int32)
    is_match = index < lengths[:, None] - 1
    for back in range(self.max_ngram):
      place = context.lengths - 1 - back
      wanted = jnp.take_along_axis(
        context.tokens, jnp.maximum(place, 0)[:, None], axis=1
      )
      found = jnp.roll(text, back, axis=1)
      is_match &= (found == wanted) & (index >= back) & (place >= 0)[:, None]
      matched += is_match
    return matched


def prompt_lookup_drafter(
  vocab_size: int, *, max_ngram: int = 8, min_ngram: int = 1, pad_id: int = 0
) -> PromptLookupDrafter:
  """Makes a drafter that copies; its `draft_params` are None.

  Args:
    vocab_size: The target's vocabulary size, padding included.
    max_ngram: Matches are compared up to this many tokens.
    min_ngram: Shorter matches are not copied from.
    pad_id: What the target's inputs are filled up with (a Llama's
      `config.pad_id`).

  Raises:
    TypeError: If a number is no integer.
    ValueError: If one is out of range.
  """
  for name, value, least in (
    ("vocab_size", vocab_size, 1),
    ("max_ngram", max_ngram, 1),
    ("min_ngram", min_ngram, 1),
    ("pad_id", pad_id, 0),
  ):
    if isinstance(value, bool) or not isinstance(value, int):
      raise TypeError(f"{name} is {value!r}; it must be an integer.")
    if value < least:
      raise ValueError(f"{name} is {value}; it must be at least {least}.")
  if min_ngram > max_ngram:
    raise ValueError(
      f"min_ngram is {min_ngram} and max_ngram {max_ngram}: no match could be"
      " long enough; set min_ngram to max_ngram or less."
    )
  return PromptLookupDrafter(vocab_size, max_ngram, min_ngram, pad_id)
