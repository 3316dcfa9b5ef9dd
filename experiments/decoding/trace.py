"""Decodes one text round by round, for those who want to watch."""

import dataclasses

import jax
import numpy as np

from experiments.decoding.pair import Pair
from specdec_jax import speculative
from specdec_jax.array_typing import Array, Int, Key
from specdec_jax.config import SpeculativeConfig

_start = jax.jit(speculative.start)
_step = jax.jit(speculative.step)


@dataclasses.dataclass(frozen=True)
class TracedRound:
  """What a round did.

  Attributes:
    accepted: Guesses that were kept.
    rejected: The first guess that was not; None if all were kept, or the
      output ended before it. Those behind it were never judged.
    added: The target's own token after them; None if the output ended before
      it.
  """

  accepted: tuple[int, ...]
  rejected: int | None
  added: int | None


def trace(
  key: Key[Array, "B"],
  inputs: Int[Array, "B S"],
  *,
  pair: Pair,
  config: SpeculativeConfig,
) -> list[TracedRound]:
  """Decodes a batch of one text with a loop on the host.

  Args:
    key: As in `speculative_generate`; the result is the same.
    inputs: int32[1, S].
    pair: Who decodes.
    config: How.
  """
  run, inputs = speculative.prepare(
    key,
    inputs,
    target=pair.target,
    target_params=pair.target_params,
    drafter=pair.drafter,
    draft_params=pair.drafter_params,
    config=config,
  )
  state = _start(run, inputs)
  rounds = []
  while not np.all(state.is_done):
    state, each = _step(run, state)
    count = int(each.draft.num_guesses[0])
    guesses = [int(token) for token in each.draft.tokens[0, :count]]
    held = int(each.verification.num_accepted[0])
    emitted = int(each.num_emitted[0])
    is_added = emitted > held
    is_rejected = is_added and held < len(guesses)
    rounds.append(
      TracedRound(
        accepted=tuple(guesses[: min(held, emitted)]),
        rejected=guesses[held] if is_rejected else None,
        added=int(each.verification.next_token[0]) if is_added else None,
      )
    )
  return rounds
