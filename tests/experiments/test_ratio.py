import numpy as np
import pytest

from experiments.ratio import quotient_interval, ratio_interval


def test_equal_weights_are_the_textbooks_interval():
  parts = [0.2, 0.5, 0.9, 0.4]
  found = ratio_interval(parts, [1, 1, 1, 1])
  error = np.std(parts, ddof=1) / 2
  assert found["mean"] == pytest.approx(0.5)
  assert found["low"] == pytest.approx(0.5 - 1.96 * error, abs=1e-4)
  assert found["high"] == pytest.approx(0.5 + 1.96 * error, abs=1e-4)


def test_it_covers_the_true_ratio_where_texts_differ():
  """In 95% of experiments; tokens taken as independent would not."""
  random = np.random.default_rng(0)
  covered = naive = 0
  trials, texts = 1000, 60
  for _ in range(trials):
    wholes = random.integers(5, 40, texts)
    rates = random.beta(3.5, 1.5, texts)  # Of each text; 0.7 on average.
    parts = random.binomial(wholes, rates)
    found = ratio_interval(parts, wholes)
    covered += found["low"] <= 0.7 <= found["high"]
    mean, tokens = found["mean"], wholes.sum()
    naive += abs(mean - 0.7) <= 1.96 * np.sqrt(mean * (1 - mean) / tokens)
  assert 0.92 < covered / trials < 0.97
  assert naive / trials < 0.8


def test_texts_without_anything_to_judge_say_nothing():
  assert ratio_interval([1, 0, 3], [2, 0, 4]) == ratio_interval([1, 3], [2, 4])


def test_what_is_undefined_is_none():
  nothing = {"mean": None, "low": None, "high": None}
  assert ratio_interval([], []) == nothing
  assert ratio_interval([0], [0]) == nothing
  assert ratio_interval([1], [4]) == {"mean": 0.25, "low": None, "high": None}


def test_the_ends_stay_inside_the_possible():
  found = ratio_interval([5, 0, 5, 5], [5, 5, 5, 5])
  assert found["high"] == 1.0
  assert found["low"] > 0.0


def test_a_rate_may_have_another_limit():
  found = ratio_interval([9, 1, 9, 9], [2, 2, 2, 2], most=4)
  assert found["high"] == 4
  assert found["mean"] == 3.5


def test_a_quotient_of_one_ratio_is_that_ratio():
  parts, wholes = [0.2, 0.5, 0.9, 0.4], [1, 2, 1, 3]
  assert quotient_interval([parts], [wholes]) == pytest.approx(
    ratio_interval(parts, wholes)
  )
  # What is the same above and below the line says nothing.
  tokens = [4, 9, 2, 7]
  assert quotient_interval([parts, tokens], [tokens, wholes]) == pytest.approx(
    ratio_interval(parts, wholes)
  )
  alone = quotient_interval([[6], [5]], [[3], [2]])
  assert alone == {"mean": 5.0, "low": None, "high": None}


def test_a_quotients_interval_covers_the_true_one():
  """Time per token over time per token, with samples of unequal lengths."""
  random = np.random.default_rng(0)
  covered = 0
  trials, texts = 1000, 60
  for _ in range(trials):
    one, other = random.integers(5, 40, (2, texts))
    seconds = one * random.gamma(20, 3 / 20, texts)
    faster = other * random.gamma(5, 1.5 / 5, texts)
    found = quotient_interval([seconds, other], [faster, one])
    covered += found["low"] <= 2 <= found["high"]
  assert 0.92 < covered / trials < 0.97
