"""Two drafters in one: the second guesses where the first abstains.

Which of them guesses for a row follows from what is committed, before anything
is drawn, so the law that is handed over is the one that was drawn from. Both
draft in every round, because a model's cache must not miss a token: beside a
model, a first drafter that costs nothing adds no time, and beside a table
neither does the second.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp

from specdec_jax.array_typing import Array, Cache, Int, Key, Params
from specdec_jax.base import Context, Draft, Drafter, Prefill
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.keys import split_rows
from specdec_jax.sampling import Sampler


@dataclasses.dataclass(frozen=True)
class FallbackDrafter:
  """Guesses as `first` where it has a guess, as `second` elsewhere.

  Its parameters are a pair: the first's and the second's.

  Attributes:
    first: Abstains in some rows, such as `PromptLookupDrafter`.
    second: Any drafter of the same vocabulary.
  """

  first: Drafter
  second: Drafter

  @property
  def vocab_size(self) -> int:
    """Width of the guesses' laws."""
    return self.first.vocab_size

  def sizes(self, gamma: int) -> tuple[int, ...]:
    """Those of both; see `Drafter.sizes`."""
    return tuple(sorted({*self.first.sizes(gamma), *self.second.sizes(gamma)}))

  def prefill(
    self,
    params: Params,
    inputs: Int[Array, "B S"],
    length: int,
    target: Prefill,
  ) -> Cache:
    """Lets both read the inputs; see `Drafter.prefill`."""
    return tuple(
      drafter.prefill(own, inputs, length, target)
      for drafter, own in zip(self._both, params, strict=True)
    )

  def draft(
    self,
    params: Params,
    context: Context,
    cache: Cache,
    keys: Key[Array, "B"],
    sampler: Sampler,
    gamma: int,
  ) -> tuple[Draft, Cache]:
    """Guesses with both and takes one's a row; see `Drafter.draft`."""
    (one, first_cache), (other, second_cache) = (
      drafter.draft(own, context, own_cache, own_keys, sampler, gamma)
      for drafter, own, own_cache, own_keys in zip(
        self._both, params, cache, split_rows(keys, 2), strict=True
      )
    )
    has_guess = one.num_guesses > 0
    draft = Draft(
      jnp.where(has_guess[:, None], one.tokens, other.tokens),
      jnp.where(has_guess[:, None, None], one.probs, other.probs),
      jnp.where(has_guess, one.num_guesses, other.num_guesses),
    )
    return draft, (first_cache, second_cache)

  @property
  def _both(self) -> tuple[Any, Any]:
    return self.first, self.second


def fallback_drafter(first: Drafter, second: Drafter) -> FallbackDrafter:
  """Makes one drafter of two; its `draft_params` are the pair of theirs.

  Args:
    first: Whose guesses are preferred, for example `prompt_lookup_drafter`.
    second: Who guesses where the first has nothing to say.

  Raises:
    TypeError: If one is no drafter.
    ValueError: If their vocabularies differ, or one is an early exit of the
      target.
  """
  for name, drafter in (("first", first), ("second", second)):
    if not isinstance(drafter, Drafter):
      raise TypeError(
        f"{name} is {type(drafter).__name__}; give a Drafter, such as"
        " sd.prompt_lookup_drafter(vocab_size) or sd.model_drafter(draft)."
      )
    if getattr(drafter, "shared_layers", 0):
      raise ValueError(
        f"{name} is an {type(drafter).__name__}, which drafts for all rows, in"
        " the target's cache; give sd.model_drafter of t5.self_draft with the"
        " same layers."
      )
  if first.vocab_size != second.vocab_size:
    raise ValueError(
      f"The first drafter's vocabulary has {first.vocab_size} entries and the"
      f" second's {second.vocab_size}; make both with the target's."
    )
  if isinstance(second, ModelDrafter):
    second = dataclasses.replace(second, rereads=True)
  return FallbackDrafter(first, second)
