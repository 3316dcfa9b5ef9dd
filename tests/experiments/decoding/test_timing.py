import numpy as np
import pytest

from experiments.decoding.batching import Batch
from experiments.decoding.timing import (
  Costs,
  Timing,
  Work,
  _sampled,
  predicted_speedup,
)

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
  assert predicted_speedup(COSTS[:1], WORK[:1], gamma=4) == 90 / 78
  # And 20 + 10 * 8 = 100; 23 + 3 * (8 + 1.5 + 3 * 1) = 60.5.
  assert predicted_speedup(COSTS, WORK, gamma=4) == 190 / 138.5
  # 12 + 8 * (6 + 0.75) = 66.
  assert predicted_speedup(COSTS[:1], WORK[:1], gamma=1) == 90 / 66


def test_nothing_drafted_and_nothing_to_read_is_no_speedup():
  costs = [Costs(5.0, 2.0, 2.0, 0.0, 0.0, 0.0)]
  assert predicted_speedup(costs, [Work(7, 7)], gamma=0) == 1


def test_ratios_are_formed_per_repeat():
  timing = Timing(
    gamma=4,
    examples=2,
    baseline_seconds=[1.0, 4.0],
    speculative_seconds=[0.5, 1.0],
    baseline_tokens=10,
    speculative_tokens=20,
    costs=COSTS,
    work=WORK,
  )
  assert timing.baseline_ms_per_token == [100, 400]
  assert timing.speculative_ms_per_token == [25, 50]
  assert timing.speedup == [4, 8]
  assert timing.cost_ratio == pytest.approx(1.5 / 12)
  assert timing.verify_ratio == pytest.approx(14 / 12)
  assert timing.predicted_speedup == 190 / 138.5


def test_each_shape_is_sampled():
  def batches(widths):
    return [Batch(np.zeros((1, width)), (i,)) for i, width in enumerate(widths)]

  assert _sampled(batches([8])) == {0}
  assert _sampled(batches([8] * 20)) == {0, 5, 10, 15}
  assert _sampled(batches([8, 16, 8, 8, 24])) == {0, 1, 2, 3, 4}
