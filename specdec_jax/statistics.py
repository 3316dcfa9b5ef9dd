"""Counting a round, and the rates that the counters give (host side)."""

import jax.numpy as jnp
import numpy as np

from specdec_jax.array_typing import Array, Bool, Int
from specdec_jax.base import SpeculationStats


def zero_stats(batch: int, gamma: int) -> SpeculationStats:
  """Returns counters of nothing."""
  zeros = jnp.zeros((batch,), jnp.int32)
  return SpeculationStats(
    target_calls=zeros,
    drafted=zeros,
    examined=zeros,
    accepted=zeros,
    corrected=zeros,
    bonus=zeros,
    emitted=zeros,
    accepted_histogram=jnp.zeros((batch, gamma + 1), jnp.int32),
    scored_histogram=jnp.zeros((batch, gamma + 1), jnp.int32),
  )


def count_round(
  stats: SpeculationStats,
  *,
  is_live: Bool[Array, "B"],
  num_drafted: Int[Array, "B"],
  num_scored: Int[Array, ""],
  num_accepted: Int[Array, "B"],
  num_emitted: Int[Array, "B"],
) -> SpeculationStats:
  """Adds a round.

  Args:
    stats: The counters so far.
    is_live: bool[B], False for rows that had ended before the round.
    num_drafted: int32[B], guesses made.
    num_scored: int32[], guesses that the target read.
    num_accepted: int32[B], guesses that verification kept.
    num_emitted: int32[B], tokens that reached the output, after the cut at
      EOS and budget.
  """
  live = is_live.astype(jnp.int32)
  accepted = live * jnp.minimum(num_accepted, num_emitted)
  is_next_emitted = is_live & (num_emitted > num_accepted)
  held = num_accepted == num_drafted
  corrected = (is_next_emitted & ~held).astype(jnp.int32)
  bonus = (is_next_emitted & held).astype(jnp.int32)
  bins = jnp.arange(stats.accepted_histogram.shape[1])
  in_bin = is_live[:, None] & (bins == accepted[:, None])
  in_scored_bin = is_live[:, None] & (bins == num_scored)
  return SpeculationStats(
    target_calls=stats.target_calls + live,
    drafted=stats.drafted + live * num_drafted,
    examined=stats.examined + accepted + corrected,
    accepted=stats.accepted + accepted,
    corrected=stats.corrected + corrected,
    bonus=stats.bonus + bonus,
    emitted=stats.emitted + live * num_emitted,
    accepted_histogram=stats.accepted_histogram + in_bin.astype(jnp.int32),
    scored_histogram=stats.scored_histogram + in_scored_bin.astype(jnp.int32),
  )


def acceptance_rate(stats: SpeculationStats) -> float | None:
  """The estimate of the paper's alpha: accepted / examined guesses.

  Guesses behind the first rejected one were never judged and do not count, so
  this is the maximum likelihood of Definition 3.1's i.i.d. acceptance, not
  the lower ratio of accepted to drafted. With block verification, which judges
  guesses together, it is a count and estimates no alpha.

  Args:
    stats: The counters; all rows are taken together.

  Returns:
    The rate, or None if no guess was examined.
  """
  examined = _total(stats.examined)
  return _total(stats.accepted) / examined if examined else None


def block_efficiency(stats: SpeculationStats) -> float | None:
  """Tokens emitted per target call, tau (the paper's Equation 1 predicts it).

  Args:
    stats: The counters; all rows are taken together.

  Returns:
    The ratio, or None if the target was never called.
  """
  calls = _total(stats.target_calls)
  return _total(stats.emitted) / calls if calls else None


def _total(counts: Int[Array | np.ndarray, "..."]) -> int:
  # In NumPy, and wide: JAX would add in the counters' own 32 bits.
  return int(np.sum(np.asarray(counts), dtype=np.int64))
