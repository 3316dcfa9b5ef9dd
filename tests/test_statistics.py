import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.speculative import commit
from specdec_jax.statistics import count_round, zero_stats
from specdec_jax.verification import Verification
from tests import toy

GAMMA = 4
EOS = 1
NAMES = [field.name for field in dataclasses.fields(sd.SpeculationStats)]


@jax.jit
def _round(tokens, lengths, is_done, stats, guesses, verdict, made, budgets):
  after = commit(tokens, lengths, is_done, guesses, verdict, budgets, EOS)
  stats = count_round(
    stats,
    is_live=~is_done,
    num_drafted=made,
    num_scored=jnp.max(made),
    num_accepted=verdict.num_accepted,
    num_emitted=after.num_emitted,
  )
  return after.tokens, after.lengths, after.is_done, stats


def play(rounds, budget=20, gamma=GAMMA):
  """Counts scripted rounds of one row.

  Args:
    rounds: Of each: the guesses, how many are kept, the token after them,
      and, if it is not gamma, how many are guesses at all.
    budget: The row's.
    gamma: Guesses per round.

  Returns:
    The counters as plain numbers, and the emitted tokens.
  """
  state = (
    np.zeros((1, 21), np.int32),
    np.ones(1, np.int32),
    np.zeros(1, bool),
    zero_stats(1, gamma),
  )
  for guesses, kept, following, *made in rounds:
    state = _round(
      *state,
      np.array([guesses], np.int32),
      Verification(np.array([kept]), np.array([following])),
      np.array(made or [gamma]),
      np.array([budget]),
    )
  tokens, lengths, _, stats = state
  counts = {name: np.asarray(getattr(stats, name))[0] for name in NAMES}
  for name in ("accepted_histogram", "scored_histogram"):
    counts[name] = counts[name].tolist()
  return counts, tokens[0, 1 : int(lengths[0])].tolist()


def counters(
  calls, drafted, examined, accepted, corrected, bonus, emitted, hist, scored=4
):
  return dict(
    zip(
      NAMES,
      (
        calls,
        drafted,
        examined,
        accepted,
        corrected,
        bonus,
        emitted,
        hist,
        np.where(np.arange(len(hist)) == scored, calls, 0).tolist(),
      ),
      strict=True,
    )
  )


GUESSES = [5, 6, 7, 8]

SCRIPTS = {
  "four of four": (
    [(GUESSES, 4, 9)],
    {},
    counters(1, 4, 4, 4, 0, 1, 5, [0, 0, 0, 0, 1]),
    [5, 6, 7, 8, 9],
  ),
  "none of four": (
    [(GUESSES, 0, 9)],
    {},
    counters(1, 4, 1, 0, 1, 0, 1, [1, 0, 0, 0, 0]),
    [9],
  ),
  "two of four": (
    [(GUESSES, 2, 9)],
    {},
    counters(1, 4, 3, 2, 1, 0, 3, [0, 0, 1, 0, 0]),
    [5, 6, 9],
  ),
  "a guess is EOS": (
    [([5, EOS, 7, 8], 4, 9)],
    {},
    counters(1, 4, 2, 2, 0, 0, 2, [0, 0, 1, 0, 0]),
    [5, EOS],
  ),
  "the first guess is EOS": (
    [([EOS, 6, 7, 8], 4, 9)],
    {},
    counters(1, 4, 1, 1, 0, 0, 1, [0, 1, 0, 0, 0]),
    [EOS],
  ),
  "a rejected guess is EOS": (
    [([5, EOS, 7, 8], 1, 9)],
    {},
    counters(1, 4, 2, 1, 1, 0, 2, [0, 1, 0, 0, 0]),
    [5, 9],
  ),
  "the bonus is EOS": (
    [(GUESSES, 4, EOS)],
    {},
    counters(1, 4, 4, 4, 0, 1, 5, [0, 0, 0, 0, 1]),
    [5, 6, 7, 8, EOS],
  ),
  "EOS just where the budget ends": (
    [([5, EOS, 7, 8], 4, 9)],
    {"budget": 2},
    counters(1, 4, 2, 2, 0, 0, 2, [0, 0, 1, 0, 0]),
    [5, EOS],
  ),
  "EOS one token behind the budget": (
    [([5, 6, EOS, 8], 4, 9)],
    {"budget": 2},
    counters(1, 4, 2, 2, 0, 0, 2, [0, 0, 1, 0, 0]),
    [5, 6],
  ),
  "a budget of two": (
    [(GUESSES, 4, 9)],
    {"budget": 2},
    counters(1, 4, 2, 2, 0, 0, 2, [0, 0, 1, 0, 0]),
    [5, 6],
  ),
  "the budget cuts the token after the guesses": (
    [(GUESSES, 2, 9)],
    {"budget": 2},
    counters(1, 4, 2, 2, 0, 0, 2, [0, 0, 1, 0, 0]),
    [5, 6],
  ),
  "the budget just holds a round": (
    [(GUESSES, 4, 9)],
    {"budget": 5},
    counters(1, 4, 4, 4, 0, 1, 5, [0, 0, 0, 0, 1]),
    [5, 6, 7, 8, 9],
  ),
  "rounds add up, and none counts behind the end": (
    [
      (GUESSES, 4, 9),
      (GUESSES, 0, 4),
      (GUESSES, 3, EOS),
      (GUESSES, 4, 9),
    ],
    {},
    counters(3, 12, 9, 7, 2, 1, 10, [1, 0, 0, 1, 1]),
    [5, 6, 7, 8, 9, 4, 5, 6, 7, EOS],
  ),
  "fewer guesses than gamma, all kept": (
    [([5, 6, 0, 0], 2, 9, 2)],
    {},
    counters(1, 2, 2, 2, 0, 1, 3, [0, 0, 1, 0, 0], scored=2),
    [5, 6, 9],
  ),
  "no guess at all": (
    [([0, 0, 0, 0], 0, 9, 0)],
    {},
    counters(1, 0, 0, 0, 0, 1, 1, [1, 0, 0, 0, 0], scored=0),
    [9],
  ),
  "no speculation": (
    [([], 0, 9), ([], 0, EOS)],
    {"gamma": 0},
    counters(2, 0, 0, 0, 0, 2, 2, [2], scored=0),
    [9, EOS],
  ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripted_rounds(name):
  rounds, options, expected, emitted = SCRIPTS[name]
  counts, tokens = play(rounds, **options)
  assert tokens == emitted
  assert counts == expected


@pytest.mark.parametrize("make_pair", [toy.table_pair, toy.ngram_pair])
def test_identities_hold_in_real_runs(make_pair):
  pair = make_pair()
  budgets = tuple(np.arange(64) % 9 + 1)
  output = pair.speculative(
    np.arange(64)[:, None], gamma=3, max_new_tokens=budgets
  )
  stats = output.stats
  emitted = np.asarray(output.lengths)
  np.testing.assert_array_equal(stats.emitted, emitted)
  np.testing.assert_array_equal(
    emitted, stats.accepted + stats.corrected + stats.bonus
  )
  np.testing.assert_array_equal(
    stats.examined, stats.accepted + stats.corrected
  )
  np.testing.assert_array_equal(
    np.sum(stats.accepted_histogram, axis=1), stats.target_calls
  )
  np.testing.assert_array_equal(
    np.asarray(stats.accepted_histogram) @ np.arange(4), stats.accepted
  )
  np.testing.assert_array_equal(stats.drafted, 3 * stats.target_calls)
  np.testing.assert_array_equal(
    stats.scored_histogram[:, 3], stats.target_calls
  )
  # Nothing behind the end, and an end for everybody.
  tokens = np.asarray(output.tokens)
  is_emitted = np.arange(tokens.shape[1]) < emitted[:, None]
  assert np.all(tokens[~is_emitted] == 0)
  is_eos = (tokens == EOS) & is_emitted
  last = np.take_along_axis(tokens, emitted[:, None] - 1, axis=1)[:, 0]
  assert np.all(is_eos.sum(axis=1) == (last == EOS))
  assert np.all((last == EOS) | (emitted == budgets))
  assert 0 < np.mean(last == EOS) < 1


def test_rates():
  counts = zero_stats(2, GAMMA)
  stats = dataclasses.replace(
    counts,
    target_calls=jnp.array([3, 1]),
    examined=jnp.array([9, 1]),
    accepted=jnp.array([7, 0]),
    emitted=jnp.array([10, 1]),
  )
  assert sd.acceptance_rate(stats) == 7 / 10
  assert sd.block_efficiency(stats) == 11 / 4


def test_rates_of_nothing_are_none():
  assert sd.acceptance_rate(zero_stats(2, GAMMA)) is None
  assert sd.block_efficiency(zero_stats(2, GAMMA)) is None


def test_the_baseline_has_no_acceptance_rate():
  baseline = toy.table_pair().baseline(np.ones((2, 1), np.int32))
  assert sd.acceptance_rate(baseline.stats) is None
  assert sd.block_efficiency(baseline.stats) == 1


def test_rates_of_long_runs_do_not_overflow():
  many = jnp.full((4,), 2**30, jnp.int32)
  stats = dataclasses.replace(
    zero_stats(4, GAMMA),
    examined=many,
    accepted=many // 2,
    target_calls=many,
    emitted=many,
  )
  assert sd.acceptance_rate(stats) == 0.5
  assert sd.block_efficiency(stats) == 1
