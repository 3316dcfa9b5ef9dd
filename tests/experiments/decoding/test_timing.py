import dataclasses

import numpy as np
import pytest

from experiments.decoding.batching import Batch
from experiments.decoding.timing import (
  Costs,
  Timing,
  Work,
  _mean,
  _sampled,
  predicted_speedup,
)
from specdec_jax.statistics import zero_stats

COSTS = [
  Costs(
    target_prefill=10.0,
    target_step=4.0,
    target_verify=6.0,
    draft_prefill=2.0,
    draft_step=0.5,
    draft_first=0.75,
  ),
  Costs(20.0, 8.0, 8.0, 3.0, 1.0, 1.5),
]
WORK = [Work(baseline_calls=20, rounds=8), Work(10, 3)]


def test_predicted_speedup_by_hand():
  # Baseline: 10 + 20 * 4 = 90.
  # Speculative: 12 + 8 * (6 + 0.75 + 3 * 0.5) = 78.
  assert predicted_speedup(COSTS[:1], WORK[:1], 4) == 90 / 78
  # And 20 + 10 * 8 = 100; 23 + 3 * (8 + 1.5 + 3 * 1) = 60.5.
  assert predicted_speedup(COSTS, WORK, 4) == 190 / 138.5
  # 12 + 8 * (6 + 0.75) = 66.
  assert predicted_speedup(COSTS[:1], WORK[:1], 1) == 90 / 66


def test_a_mean_number_of_guesses():
  # 12 + 8 * (6 + 0.75 + 1.5 * 0.5) = 72.
  assert predicted_speedup(COSTS[:1], WORK[:1], 2.5) == 90 / 72


def test_nothing_drafted_and_nothing_to_read_is_no_speedup():
  costs = [Costs(5.0, 2.0, 2.0, 0.0, 0.0, 0.0)]
  assert predicted_speedup(costs, [Work(7, 7)], 0) == 1


def make_timing(costs):
  """Two texts alone, of 10 tokens in all and of 20 speculatively."""
  stats = zero_stats(2, gamma=4)
  return Timing(
    gamma=4,
    indices=[(0,), (1,)],
    baseline_lengths=[7, 3],
    stats=dataclasses.replace(
      stats,
      emitted=np.array([15, 5]),
      scored_histogram=np.array([[0, 0, 0, 0, 8], [0, 0, 0, 0, 3]]),
    ),
    same_tokens=False,
    baseline_seconds=np.array([[0.25, 0.75], [1.0, 3.0]]),
    speculative_seconds=np.array([[0.25, 0.25], [0.5, 0.5]]),
    costs=costs,
    work=WORK,
  )


def test_ratios_are_formed_per_repeat():
  timing = make_timing([COSTS, COSTS])
  assert timing.examples == 2
  assert timing.baseline_ms_per_token == [100, 400]
  assert timing.speculative_ms_per_token == [25, 50]
  assert timing.speedup == [4, 8]
  assert timing.cost_ratio == pytest.approx(1.5 / 12)
  assert timing.verify_ratio == pytest.approx(14 / 12)


def test_samples_are_predicted_per_token():
  timing = make_timing([COSTS, COSTS])
  # As above, for twice as many tokens.
  assert timing.predicted_speedup == pytest.approx(2 * 190 / 138.5)
  assert timing.predicted_speedups == [timing.predicted_speedup] * 2


def test_a_slow_repeat_does_not_move_the_typical_costs():
  slow = [Costs(*(9 * each for each in cost)) for cost in COSTS]
  timing = make_timing([COSTS, slow, COSTS])
  assert timing.typical_costs == COSTS
  assert timing.parts == Costs(15, 6, 7, 2.5, 0.75, 1.125)
  # Slow in all parts alike, it is no other ratio.
  assert timing.predicted_speedups == pytest.approx(
    [timing.predicted_speedup] * 3
  )


def test_a_first_call_that_is_lost_in_noise_costs_nothing():
  costs = _mean([COSTS[0]._replace(draft_first=each) for each in (-3.0, 1.0)])
  assert costs == COSTS[0]._replace(draft_first=0)


def test_each_shape_is_sampled():
  def batches(widths):
    return [Batch(np.zeros((1, width)), (i,)) for i, width in enumerate(widths)]

  assert _sampled(batches([8])) == {0}
  assert _sampled(batches([8] * 20)) == {0, 5, 10, 15}
  assert _sampled(batches([8, 16, 8, 8, 24])) == {0, 1, 2, 3, 4}
