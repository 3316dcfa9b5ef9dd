import fractions
import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from specdec_jax import analysis
from specdec_jax.analysis import round_cost

rates = st.floats(0, 1)
ratios = st.floats(0, 2)
guesses = st.integers(0, 40)

exampled = settings(deadline=None, max_examples=25, derandomize=True)


def geometric_sum(alpha, gamma):
  """Equation 1 as the sum that it is, without rounding."""
  exact = fractions.Fraction(alpha)
  return sum(exact**i for i in range(gamma + 1))


@exampled
@given(rates, guesses)
@example(1 - 2**-53, 40)
@example(1 - 1e-9, 40)
@example(1e-300, 40)
@example(5e-324, 3)
def test_equation_1_is_the_sum(alpha, gamma):
  exact = float(geometric_sum(alpha, gamma))
  assert analysis.expected_tokens(alpha, gamma) == pytest.approx(
    exact, rel=1e-14
  )


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("gamma", [0, 1, 4])
def test_equation_1_is_the_mean_over_all_outcomes(alpha, gamma):
  """Over what may happen to each guess: kept or not, independently."""
  mean = 0.0
  for kept in itertools.product([True, False], repeat=gamma):
    chance = math.prod(alpha if each else 1 - alpha for each in kept)
    mean += chance * (1 + len(list(itertools.takewhile(bool, kept))))
  assert analysis.expected_tokens(alpha, gamma) == pytest.approx(mean)


def test_rounds_of_a_text_are_the_mean_over_all_outcomes():
  """Over what each round may yield, down to the text's end."""

  def rounds(alpha, gamma, left):
    if left <= 0:
      return 0.0
    return 1 + sum(
      alpha**kept
      * (1 if kept == gamma else 1 - alpha)
      * rounds(alpha, gamma, left - kept - 1)
      for kept in range(gamma + 1)
    )

  for alpha, gamma in itertools.product([0.0, 0.3, 0.8, 1.0], [0, 1, 4]):
    found = analysis.expected_rounds(alpha, gamma, [0, 1, 2, 7])
    assert found == pytest.approx(
      [rounds(alpha, gamma, left) for left in (0, 1, 2, 7)]
    )
  assert analysis.expected_rounds(1, 4, 11) == 3
  assert analysis.expected_rounds(0.7, 0, 9) == 9
  # The end of a long text hardly counts.
  assert 5000 / analysis.expected_rounds(0.7, 5, 5000) == pytest.approx(
    analysis.expected_tokens(0.7, 5), rel=1e-3
  )
  for bad in ((1.2, 3, 5), (0.5, -1, 5), (0.5, 3, 2.5)):
    with pytest.raises(ValueError, match="must"):
      analysis.expected_rounds(*bad)


def test_limits():
  assert analysis.expected_tokens(0, [0, 1, 7, np.inf]).tolist() == [1] * 4
  assert analysis.expected_tokens(1, [0, 1, 7, np.inf]).tolist() == [
    1,
    2,
    8,
    np.inf,
  ]
  assert analysis.expected_tokens([0.0, 0.3, 1.0], 0).tolist() == [1] * 3
  assert analysis.expected_tokens(0.5, np.inf) == 2
  # Of no guess no more is left than plain decoding, whatever a guess costs.
  assert analysis.wall_time_improvement([0, 0.7, 1], 0, 9.0).tolist() == [1] * 3
  assert analysis.operations_increase([0, 0.7, 1], 0, 9.0).tolist() == [1] * 3
  # Guesses that never hold cost all that they cost.
  assert analysis.wall_time_improvement(0, 4, 0.25) == 1 / 2
  assert analysis.operations_increase(0, 4, 0.25) == 6
  # And of guesses that always hold none is in vain.
  assert analysis.wall_time_improvement(1, 4, 0.25) == 5 / 2
  assert analysis.operations_increase(1, 4, 0.25) == 6 / 5


def test_numbers_give_numbers_and_arrays_arrays():
  assert isinstance(analysis.expected_tokens(0.5, 3), float)
  assert isinstance(analysis.wall_time_improvement(0.5, 3, 0.1), float)
  assert isinstance(analysis.operations_increase(0.5, 3, 0.1), float)
  assert isinstance(analysis.guaranteed_improvement(0.5, 0.1), float)
  assert isinstance(analysis.oracle_improvement(0.5, 0.1), float)
  assert isinstance(analysis.optimal_gamma(0.5, 0.1), int)
  alpha, gamma = np.full((3, 1, 1), 0.5), np.arange(4)[:, None]
  speed = analysis.wall_time_improvement(alpha, gamma, [0.1, 0.2], [1.0, 1.5])
  assert speed.shape == (3, 4, 2)
  assert speed[1, 3, 1] == analysis.wall_time_improvement(0.5, 3, 0.2, 1.5)
  assert analysis.optimal_gamma(np.full((3, 1), 0.5), [0.1, 0.2]).shape == (
    3,
    2,
  )


def test_a_round_by_hand():
  # 3 draft calls of 0.5, the first of 0.75, and a target call of 6.
  assert round_cost(3, 0.5, 6, 0.75) == 7.75
  assert round_cost(3, 0.5, 6) == 7.5
  assert round_cost(3, 0.5) == 2.5
  assert round_cost([0, 1, 2], 0.5, [4, 5, 6], 0.75).tolist() == [4, 5.75, 7.25]
  # Theorem 3.8 with its verification at 3 target steps: 1.75 tokens for 3.5.
  assert analysis.wall_time_improvement(0.5, 2, 0.25, 3) == 0.5
  # Theorem 3.11: 2 drafts of 0.25 and 3 tokens of the target for 1.75 tokens.
  assert analysis.operations_increase(0.5, 2, 0.25) == 2


@exampled
@given(rates, rates, guesses, ratios)
def test_a_better_draft_helps(one, other, gamma, ratio):
  low, high = sorted([one, other])
  for function in (
    lambda alpha: analysis.expected_tokens(alpha, gamma),
    lambda alpha: analysis.wall_time_improvement(alpha, gamma, ratio),
    lambda alpha: 1 / analysis.operations_increase(alpha, gamma, ratio),
    lambda alpha: analysis.guaranteed_improvement(alpha, ratio),
    lambda alpha: analysis.oracle_improvement(alpha, min(ratio + 1e-3, 1.0)),
  ):
    assert function(low) <= function(high) * (1 + 1e-13)


@exampled
@given(rates, guesses, ratios)
def test_bounds(alpha, gamma, ratio):
  close = 1 + 1e-13
  tokens = analysis.expected_tokens(alpha, gamma)
  assert 1 <= tokens <= (gamma + 1) * close
  assert tokens <= analysis.expected_tokens(alpha, np.inf) * close
  assert analysis.operations_increase(alpha, gamma, ratio) * close >= 1
  speed = analysis.wall_time_improvement(alpha, gamma, ratio)
  assert speed <= tokens
  assert speed <= analysis.oracle_improvement(alpha, ratio) * close
  assert analysis.guaranteed_improvement(alpha, ratio) <= (
    analysis.oracle_improvement(alpha, ratio) * close
  )


# Every pair of an alpha and a c, the best gammas of which are below 400.
ALPHAS = np.array([*np.linspace(0, 0.99, 34), 0.25, 0.997])[:, None, None]
COSTS = np.array([[0.005], [0.01], [0.04], [0.1], [0.25], [0.65], [1], [1.5]])


def test_the_best_gamma_is_the_best_of_all():
  speed = analysis.wall_time_improvement(ALPHAS, np.arange(1000), COSTS)
  best = analysis.optimal_gamma(ALPHAS, COSTS)[..., 0]
  # Where alpha is c, gamma 0 and 1 are as good but for rounding.
  is_tie = (ALPHAS == COSTS)[..., 0]
  assert np.any(is_tie)
  expected = np.where(is_tie, 0, speed.argmax(axis=-1))
  assert np.array_equal(best, expected)
  assert best.min() == 0
  assert 300 < best.max() < 400


def test_the_best_gamma_may_be_far():
  alpha, c = 1 - 1e-12, 1e-4
  best = analysis.optimal_gamma(alpha, c)
  assert best > 1e7
  near = best + np.array([-(10**6), 0, 10**6])
  low, top, high = analysis.wall_time_improvement(alpha, near, c)
  assert low < top > high


def test_the_best_gamma_of_two_is_the_smaller():
  # (1 + 0.5) / (1 + 0.5) = 1: a guess that costs what it brings.
  assert analysis.optimal_gamma(0.5, 0.5) == 0
  assert analysis.optimal_gamma(1.0, 1.0) == 0
  assert analysis.optimal_gamma([0.0, 0.0], [0.0, 1.0]).tolist() == [0, 0]
  assert analysis.optimal_gamma(0.9, 1e300) == 0


def test_the_best_gamma_may_be_bounded():
  assert analysis.optimal_gamma(0.9, 0.01) == 24
  assert analysis.optimal_gamma(0.9, 0.01, max_gamma=10) == 10
  assert analysis.optimal_gamma(0.9, 0.01, max_gamma=30) == 24
  assert analysis.optimal_gamma(0.9, 0.01, max_gamma=0) == 0
  # Without a bound there is none, however small the last gains are.
  assert (
    analysis.optimal_gamma([0.5, 1.0], [0.0, 0.9], 4096).tolist() == [4096] * 2
  )
  for alpha, c in [(0.5, 0.0), (1.0, 0.9), (1.0, 1 - 2**-53)]:
    with pytest.raises(ValueError, match=f"alpha {alpha} and .*; give max_g"):
      analysis.optimal_gamma([0.5, alpha], [0.5, c])


def test_corollary_3_9():
  """A gamma helps if and only if alpha > c, by a search among 1000."""
  speed = analysis.wall_time_improvement(ALPHAS, np.arange(1000), COSTS)
  most, one = speed.max(axis=-1), speed[..., 1]
  least = analysis.guaranteed_improvement(ALPHAS, COSTS)[..., 0]
  alpha, c = np.broadcast_arrays(ALPHAS[..., 0], COSTS[..., 0])
  helps = alpha > c
  assert 0.3 < helps.mean() < 0.9
  assert np.all(most[helps] > 1)
  assert np.any(alpha == c)
  assert np.all(most[~helps] <= 1 + 1e-13)
  np.testing.assert_allclose(least, np.where(helps, one, 1.0))
  assert np.all(least <= most * (1 + 1e-13))


def test_the_oracle_drafts_what_will_hold():
  """Its rounds, by enumeration: n guesses hold with chance a^n (1 - a)."""
  alpha, c = 0.6, 0.3
  n = np.arange(400)
  chance = alpha**n * (1 - alpha)
  speed = np.sum(chance * (n + 1)) / np.sum(chance * (n * c + 1))
  assert analysis.oracle_improvement(alpha, c) == pytest.approx(speed)
  # Where a draft call costs a target call and more, it drafts nothing.
  assert analysis.oracle_improvement([0.0, 0.6, 1.0], 1.7).tolist() == [1] * 3
  assert analysis.oracle_improvement(1, 0) == np.inf
  assert analysis.oracle_improvement(1, 0.25) == 4


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, math.inf])
def test_an_alpha_out_of_range_is_refused(bad):
  for function, arguments in (
    (analysis.expected_tokens, (2,)),
    (analysis.wall_time_improvement, (2, 0.1)),
    (analysis.operations_increase, (2, 0.1)),
    (analysis.optimal_gamma, (0.1,)),
    (analysis.guaranteed_improvement, (0.1,)),
    (analysis.oracle_improvement, (0.1,)),
  ):
    for alpha in (bad, [0.5, bad]):
      with pytest.raises(ValueError, match=rf"alpha is {bad}.*lie in \[0, 1\]"):
        function(alpha, *arguments)


@pytest.mark.parametrize("bad", [-1, 2.5, math.nan])
def test_a_gamma_that_is_no_count_is_refused(bad, unchecked):
  message = f"gamma is {float(bad)}; it must be a whole number, 0 or more"
  with pytest.raises(ValueError, match=f"{message}, or infinity"):
    analysis.expected_tokens(0.5, bad)
  for function in (
    analysis.wall_time_improvement,
    analysis.operations_increase,
  ):
    for gamma in (bad, math.inf):
      with pytest.raises(ValueError, match=f"gamma is {float(gamma)}; .*more."):
        function(0.5, gamma, 0.1)
  with pytest.raises(ValueError, match=f"max_{message}"):
    analysis.optimal_gamma(0.5, 0.1, max_gamma=bad)


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf])
def test_a_cost_out_of_range_is_refused(bad):
  for name, call in {
    "cost_ratio": lambda: analysis.wall_time_improvement(0.5, 2, bad),
    "operations_ratio": lambda: analysis.operations_increase(0.5, 2, bad),
    "verify_ratio": lambda: analysis.wall_time_improvement(0.5, 2, 0.1, bad),
    "draft_step": lambda: round_cost(2, bad),
    "target_verify": lambda: round_cost(2, 0.1, bad),
    "draft_first": lambda: round_cost(2, 0.1, 1.0, bad),
  }.items():
    with pytest.raises(ValueError, match=f"^{name} is {bad}; it must be"):
      call()
  for function in (
    analysis.optimal_gamma,
    analysis.guaranteed_improvement,
    analysis.oracle_improvement,
  ):
    with pytest.raises(ValueError, match=f"^cost_ratio is {bad}; it must be 0"):
      function(0.5, [0.1, bad])


def test_a_verification_that_costs_nothing_is_refused():
  with pytest.raises(ValueError, match="verify_ratio is 0.0; it must be pos"):
    analysis.wall_time_improvement(0.5, 2, 0.1, 0.0)
