"""A draft that is the target has every guess accepted, in every round.

A hole in the draft's cache behind a fully accepted block, a position that is
one off, or laws that are shifted against the guesses leave the output right,
and show here.
"""

import numpy as np
import pytest

import specdec_jax as sd
from tests import toy

# One row for each remainder of a budget by gamma + 1, up to gamma = 6.
BUDGETS = tuple(range(14, 21))
TEMPERATURES = (0.0, 1.0, 0.5, 1.0, 0.0, 2.0, 1.0)
PAIRS = {
  "table": toy.table_pair(order=3),
  "prompted table": toy.table_pair(order=3, prompted=True),
  "t5": toy.Pair(toy.T5_TARGET, toy.t5_params(toy.T5_TARGET, 0), None, None),
}


def _check(pair, gamma, seed):
  inputs = toy.inputs(len(BUDGETS), 6, seed=seed, vocab_size=5)
  output = pair.same.speculative(
    inputs,
    key=seed,
    gamma=gamma,
    temperature=TEMPERATURES,
    max_new_tokens=BUDGETS,
    eos_id=-1,
  )
  stats, budgets = output.stats, np.array(BUDGETS)
  np.testing.assert_array_equal(output.lengths, budgets)
  assert sd.acceptance_rate(stats) == 1
  assert not np.any(stats.corrected)
  np.testing.assert_array_equal(stats.target_calls, -(-budgets // (gamma + 1)))
  # Every round but a last one, cut by the budget, keeps all guesses.
  histogram = np.asarray(stats.accepted_histogram)
  rest = budgets % (gamma + 1)
  expected = np.zeros_like(histogram)
  expected[:, gamma] = budgets // (gamma + 1)
  expected[np.arange(len(rest)), rest] += rest > 0
  np.testing.assert_array_equal(histogram, expected)
  return output.tokens


@pytest.mark.parametrize("gamma", range(1, 7))
def test_tables(gamma):
  outputs = [_check(PAIRS["table"], gamma, seed) for seed in range(4)]
  # Rows are sampled, and so differ from seed to seed.
  assert np.any(np.asarray(outputs[0]) != np.asarray(outputs[1]))


def test_rows_that_begin_at_positions_of_their_own():
  for seed in range(4):
    _check(PAIRS["prompted table"], 3, seed)


def test_t5():
  for seed in range(6):
    _check(PAIRS["t5"], 4, seed)


def test_an_eos_does_not_count_against_the_draft():
  output = PAIRS["table"].same.speculative(
    np.ones((64, 1), np.int32), gamma=4, max_new_tokens=20
  )
  assert np.any(np.asarray(output.lengths) < 20)
  assert sd.acceptance_rate(output.stats) == 1
