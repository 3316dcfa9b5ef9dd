import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import specdec_jax as sd
from specdec_jax import analysis
from specdec_jax.statistics import count_round, zero_stats

# Of 10 rounds of 3 guesses: 4 kept none, 3 one, 1 two and 2 all.
HISTOGRAM = [4, 3, 1, 2]

histograms = st.lists(st.integers(0, 1000), min_size=1, max_size=9).filter(any)


def geometric_histogram(alpha, gamma):
  """How often a round of i.i.d. guesses keeps each number of them."""
  n = np.arange(gamma + 1)
  return np.where(n < gamma, alpha**n * (1 - alpha), alpha**n)


def test_tokens_by_hand():
  # One guess holds in 6 of 10 rounds, two in 3, three in 2.
  assert analysis.counted_tokens(HISTOGRAM) == pytest.approx([1, 1.6, 1.9, 2.1])
  assert analysis.counted_tokens([7]).tolist() == [1]
  # Rows are taken together, however many dimensions they have.
  rows = np.array([[[4, 0, 1, 0]], [[0, 3, 0, 2]]])
  assert analysis.counted_tokens(rows) == pytest.approx([1, 1.6, 1.9, 2.1])


def test_times_and_operations_by_hand():
  assert analysis.counted_wall_time_improvement(
    HISTOGRAM, 0.1
  ) == pytest.approx([1, 1.6 / 1.1, 1.9 / 1.2, 2.1 / 1.3])
  speed = analysis.counted_wall_time_improvement(
    HISTOGRAM, 0.1, verify_ratio=[1, 1.5, 1.5, 2], first_cost_ratio=0.3
  )
  assert speed == pytest.approx([1, 1.6 / 1.8, 1.9 / 1.9, 2.1 / 2.5])
  assert analysis.counted_operations_increase(HISTOGRAM, 0.1) == pytest.approx(
    [1, 2.1 / 1.6, 3.2 / 1.9, 4.3 / 2.1]
  )


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
def test_of_guesses_that_are_independent_it_is_the_closed_form(alpha):
  counts, gamma = geometric_histogram(alpha, 6), np.arange(7)
  np.testing.assert_allclose(
    analysis.counted_tokens(counts), analysis.expected_tokens(alpha, gamma)
  )
  np.testing.assert_allclose(
    analysis.counted_wall_time_improvement(counts, 0.05, 1.25),
    analysis.wall_time_improvement(alpha, gamma, 0.05, 1.25),
  )
  np.testing.assert_allclose(
    analysis.counted_operations_increase(counts, 0.05),
    analysis.operations_increase(alpha, gamma, 0.05),
  )


def test_guesses_that_hang_together_are_not_the_closed_form():
  """Half of the rounds keep all and half none: alpha is 9/10 of those that
  were examined, and Equation 1 promises far more than is counted."""
  counts = np.zeros(10)
  counts[[0, 9]] = 1
  assert analysis.counted_tokens(counts)[-1] == 5.5
  assert analysis.expected_tokens(0.9, 9) > 6.5


@settings(deadline=None, max_examples=25, derandomize=True)
@given(histograms)
def test_each_further_guess_brings_less(histogram):
  tokens = analysis.counted_tokens(histogram)
  gains = np.diff(tokens, prepend=0)
  assert gains[0] == 1
  assert np.all(gains >= -1e-12)
  assert np.all(np.diff(gains) <= 1e-12)
  mean = np.average(np.arange(len(histogram)), weights=histogram)
  assert tokens[-1] == pytest.approx(1 + mean)


def test_it_is_the_block_efficiency_but_for_cut_rounds():
  """A round that is cut has neither a corrected nor a bonus token."""
  stats = zero_stats(2, 3)
  for accepted, emitted in [
    ([3, 0], [4, 1]),
    ([1, 2], [2, 3]),
    ([3, 2], [2, 1]),
  ]:
    stats = count_round(
      stats,
      is_live=jnp.ones(2, bool),
      num_drafted=jnp.array([3, 3]),
      num_scored=jnp.array(3),
      num_accepted=jnp.array(accepted),
      num_emitted=jnp.array(emitted),
    )
  rounds, last = np.sum(stats.target_calls), stats.corrected + stats.bonus
  cut = int(rounds - np.sum(last))
  assert (rounds, cut) == (6, 2)
  tokens = analysis.counted_tokens(stats.accepted_histogram)
  assert tokens[-1] - cut / rounds == pytest.approx(sd.block_efficiency(stats))


@pytest.mark.parametrize(
  ("histogram", "message"),
  [
    ([3, -1], "histogram is -1.0; it must hold counts, 0 or more"),
    ([3, np.nan], "histogram is nan; it must hold counts"),
    ([0, 0], r"histogram has shape \(2,\) and 0 rounds"),
    (5, r"histogram has shape \(\) and 5 rounds; it must be \[..., G \+ 1\]"),
    ([], r"histogram has shape \(0,\) and 0 rounds"),
  ],
)
def test_a_histogram_that_is_none_is_refused(histogram, message):
  for call in (
    lambda: analysis.counted_tokens(histogram),
    lambda: analysis.counted_wall_time_improvement(histogram, 0.1),
    lambda: analysis.counted_operations_increase(histogram, 0.1),
  ):
    with pytest.raises(ValueError, match=message):
      call()


def test_a_cost_out_of_range_is_refused():
  for name, arguments in {
    "cost_ratio": (-1.0,),
    "verify_ratio": (0.1, [1, -1.0, 1, 1]),
    "first_cost_ratio": (0.1, 1.0, -1.0),
  }.items():
    with pytest.raises(ValueError, match=f"^{name} is -1.0; it must be"):
      analysis.counted_wall_time_improvement(HISTOGRAM, *arguments)
  with pytest.raises(ValueError, match="^operations_ratio is -1.0; it must be"):
    analysis.counted_operations_increase(HISTOGRAM, -1.0)
  with pytest.raises(ValueError, match=r"has shape \(3,\).*from 0 to 3"):
    analysis.counted_wall_time_improvement(HISTOGRAM, 0.1, [1, 2, 3])
