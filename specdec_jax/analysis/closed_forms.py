"""What speculation brings if acceptance is i.i.d. (sections 3.1 to 3.5).

All arguments may be arrays, which broadcast; `expected_rounds` says of its own.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from specdec_jax.analysis.arguments import (
  MOST_GUESSES,
  cost,
  guesses,
  positive,
  rate,
)
from specdec_jax.array_typing import Float, Int

Result: TypeAlias = float | Float[np.ndarray, "..."]
"""A number if all arguments are numbers, an array of their shape if not."""


def expected_tokens(alpha: ArrayLike, gamma: ArrayLike) -> Result:
  """Tokens per round, (1 - alpha^(gamma + 1)) / (1 - alpha) (Equation 1).

  The target's weights and cache are read this many times less often than in
  plain decoding. `statistics.block_efficiency` is the counted value.

  Args:
    alpha: The acceptance rate, in [0, 1].
    gamma: Guesses per round, a whole number from 0; or infinity, which gives
      1 / (1 - alpha).

  Returns:
    1 at gamma = 0 or alpha = 0, up to gamma + 1 at alpha = 1.

  Raises:
    ValueError: If a number is out of range.
  """
  return _expected_tokens(
    rate("alpha", alpha), guesses(gamma, allow_infinity=True)
  )[()]


def _expected_tokens(alpha, gamma):
  inside = np.where((alpha > 0) & (alpha < 1), alpha, 0.5)
  # By expm1: the difference itself would cancel where alpha is close to 1.
  accepted = alpha * -np.expm1(gamma * np.log(inside)) / (1 - inside)
  return np.where(alpha < 1, 1 + accepted, 1 + gamma)


def expected_rounds(alpha: float, gamma: int, num_tokens: ArrayLike) -> Result:
  """Rounds that texts of so many tokens take; Equation 1 is for endless ones.

  A text's last round may yield more than the text has room for, so there are
  more of them than num_tokens / `expected_tokens`: from each place on, one
  round, and as many as what it leaves takes.

  Args:
    alpha: The acceptance rate, in [0, 1]; one number.
    gamma: Guesses per round, a whole number from 0; one number.
    num_tokens: Of each text, whole numbers from 0.

  Raises:
    ValueError: If a number is out of range.
  """
  alpha, most = float(rate("alpha", alpha)), int(guesses(gamma))
  counts = guesses(num_tokens, name="num_tokens").astype(np.int64)
  # Of 1, 2 ... gamma + 1 tokens in a round.
  chances = alpha ** np.arange(most + 1.0)
  chances[:-1] *= 1 - alpha
  # Nothing left takes no round, nor does a surplus.
  rounds = np.zeros(most + 1 + int(counts.max(initial=0)))
  for left in range(most + 1, len(rounds)):
    rounds[left] = 1 + chances @ rounds[left - most - 1 : left][::-1]
  return rounds[most + counts]


def round_cost(
  gamma: ArrayLike,
  draft_step: ArrayLike,
  target_verify: ArrayLike = 1.0,
  draft_first: ArrayLike | None = None,
) -> Result:
  """What a round costs: gamma draft calls and one target call.

  The unit is the arguments': seconds, arithmetic operations, or target steps,
  of which Theorem 3.8 takes it to be gamma c + 1.

  Args:
    gamma: Guesses per round, a whole number from 0.
    draft_step: A draft call of one token, from 0.
    target_verify: The target call of gamma + 1 tokens, positive.
    draft_first: A round's first draft call, if that is another one; it may
      read two tokens.

  Raises:
    ValueError: If a number is out of range.
  """
  gamma, draft_step = guesses(gamma), cost("draft_step", draft_step)
  total = positive("target_verify", target_verify) + gamma * draft_step
  if draft_first is not None:
    extra = cost("draft_first", draft_first) - draft_step
    total = total + np.where(gamma > 0, extra, 0.0)
  return total[()]


def wall_time_improvement(
  alpha: ArrayLike,
  gamma: ArrayLike,
  cost_ratio: ArrayLike,
  verify_ratio: ArrayLike = 1.0,
) -> Result:
  """How many times faster than plain decoding (Theorem 3.8).

  That is (1 - alpha^(gamma + 1)) / ((1 - alpha) (gamma c + 1)), Equation 1
  over a round's cost in target steps. It is for long outputs: no factor is
  larger than the number of tokens.

  Args:
    alpha: The acceptance rate, in [0, 1].
    gamma: Guesses per round, a whole number from 0.
    cost_ratio: c, the time of a draft call over that of a target call of one
      token (Definition 3.7), from 0.
    verify_ratio: The time of a target call of gamma + 1 tokens over that of
      one token, positive. The theorem takes it to be 1.

  Raises:
    ValueError: If a number is out of range.
  """
  step = cost("cost_ratio", cost_ratio)
  verify = positive("verify_ratio", verify_ratio)
  # Of both, the cost demands more of gamma.
  total = round_cost(gamma, step, verify)
  return expected_tokens(alpha, gamma) / total


def operations_increase(
  alpha: ArrayLike, gamma: ArrayLike, operations_ratio: ArrayLike
) -> Result:
  """How many times more arithmetic operations a token takes (Theorem 3.11).

  That is (1 - alpha) (gamma ĉ + gamma + 1) / (1 - alpha^(gamma + 1)): the
  target reads gamma + 1 tokens a round, and Equation 1 says how many of them
  are of use.

  Args:
    alpha: The acceptance rate, in [0, 1].
    gamma: Guesses per round, a whole number from 0.
    operations_ratio: ĉ, the draft's operations per token over the target's
      (Definition 3.10), from 0.

  Raises:
    ValueError: If a number is out of range.
  """
  total = round_operations(gamma, operations_ratio)
  return total / expected_tokens(alpha, gamma)


def round_operations(gamma: ArrayLike, operations_ratio: ArrayLike) -> Result:
  """A round's arithmetic operations, gamma ĉ + gamma + 1 (Theorem 3.11).

  The unit is what the target needs for a token.

  Args:
    gamma: Guesses per round, a whole number from 0.
    operations_ratio: ĉ, from 0.

  Raises:
    ValueError: If a number is out of range.
  """
  step = cost("operations_ratio", operations_ratio)
  return round_cost(gamma, step, guesses(gamma) + 1)


def optimal_gamma(
  alpha: ArrayLike, cost_ratio: ArrayLike, max_gamma: int | None = None
) -> int | Int[np.ndarray, "..."]:
  """The gamma of the largest `wall_time_improvement` (section 3.5).

  One more guess pays as long as it brings more tokens for its cost than the
  round has so far: alpha^(gamma + 1) (gamma c + 1) > c * Equation 1. The
  more guesses, the less of that is left, so bisection finds the first gamma
  at which one more does not pay.

  Args:
    alpha: The acceptance rate, in [0, 1].
    cost_ratio: c, from 0.
    max_gamma: The most guesses to consider; None for any number.

  Returns:
    An int, or int64 of the arguments' shape.

  Raises:
    ValueError: If a number is out of range, or if one more guess always pays
      (alpha > 0 and c = 0, or alpha = 1 and c < 1) and there is no `max_gamma`.
  """
  # From c = 1 on nothing pays; the cut keeps the products finite.
  alpha, step = np.broadcast_arrays(
    rate("alpha", alpha), np.minimum(cost("cost_ratio", cost_ratio), 1.0)
  )
  always = ((alpha > 0) & (step == 0)) | ((alpha == 1) & (step < 1))
  if max_gamma is None and np.any(always):
    where = np.argmax(always)
    raise ValueError(
      f"With alpha {alpha.flat[where]} and cost_ratio {step.flat[where]} one"
      " more guess always pays; give max_gamma."
    )
  most = MOST_GUESSES
  if max_gamma is not None:
    most = int(guesses(max_gamma, name="max_gamma"))
  low = np.zeros(alpha.shape, np.int64)
  high = np.full(alpha.shape, most, np.int64)
  while np.any(low < high):
    middle = low + (high - low) // 2
    gain = alpha ** (middle + 1.0) * (middle * step + 1)
    pays = always | (gain > step * _expected_tokens(alpha, middle))
    pays &= low < high
    low, high = np.where(pays, middle + 1, low), np.where(pays, high, middle)
  return low if low.ndim else int(low)


def guaranteed_improvement(alpha: ArrayLike, cost_ratio: ArrayLike) -> Result:
  """What the best gamma brings at least (Corollary 3.9).

  If alpha > c, gamma = 1 alone brings (1 + alpha) / (1 + c). If not, no guess
  pays, and gamma = 0 brings 1.

  Args:
    alpha: The acceptance rate, in [0, 1].
    cost_ratio: c, from 0.

  Raises:
    ValueError: If a number is out of range.
  """
  alpha, step = rate("alpha", alpha), cost("cost_ratio", cost_ratio)
  return np.maximum(1.0, (1 + alpha) / (1 + step))


def oracle_improvement(alpha: ArrayLike, cost_ratio: ArrayLike) -> Result:
  """What no choice of gamma, round by round, surpasses (section 3.5).

  An oracle knows how many guesses will hold and drafts just these, or none if
  a draft call costs more than a target call: a token then costs
  1 - alpha + alpha min(1, c) target steps. The target still verifies.

  Args:
    alpha: The acceptance rate, in [0, 1].
    cost_ratio: c, from 0.

  Returns:
    The factor over plain decoding; infinity at alpha = 1 and c = 0.

  Raises:
    ValueError: If a number is out of range.
  """
  alpha, step = rate("alpha", alpha), cost("cost_ratio", cost_ratio)
  with np.errstate(divide="ignore"):
    return np.divide(1.0, 1 - alpha + alpha * np.minimum(1.0, step))
