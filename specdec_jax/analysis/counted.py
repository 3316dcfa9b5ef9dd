"""What counted rounds bring, for any number of guesses up to theirs.

The theorems take acceptance to be i.i.d. and a verification to cost a target
step. Here acceptance is counted and costs are measured. The histogram of
rounds of G guesses also says what rounds of fewer would have kept, had they
begun where these did.
"""

import numpy as np
from numpy.typing import ArrayLike

from specdec_jax.analysis.arguments import checked, cost, positive
from specdec_jax.analysis.closed_forms import round_cost, round_operations
from specdec_jax.array_typing import Float


def counted_tokens(histogram: ArrayLike) -> Float[np.ndarray, "G1"]:
  """Tokens per round: Equation 1 without its assumption.

  That is 1 + the sum over i = 1 .. gamma of how often the first i guesses all
  held.

  Args:
    histogram: [..., G + 1], rounds by the number of guesses kept, as in
      `SpeculationStats.accepted_histogram`; all rows are taken together. Every
      round must have made all G guesses. One that EOS or a budget cut counts
      as if what was left of it and one token more had been emitted, so each
      text counts at most one token too many.

  Returns:
    float64[G + 1]; entry g is for g guesses per round.

  Raises:
    ValueError: If a count is negative, or there is no round.
  """
  counts = checked(
    "histogram",
    histogram,
    lambda x: (x >= 0) & (x < np.inf),
    "hold counts, 0 or more",
  )
  if not counts.ndim or not counts.sum():
    raise ValueError(
      f"histogram has shape {counts.shape} and {counts.sum():g} rounds; it must"
      " be [..., G + 1], with at least one round."
    )
  counts = counts.reshape(-1, counts.shape[-1]).sum(axis=0)
  at_least = np.cumsum(counts[::-1])[::-1]
  return np.cumsum(at_least) / counts.sum()


def counted_wall_time_improvement(
  histogram: ArrayLike,
  cost_ratio: float,
  verify_ratio: ArrayLike = 1.0,
  first_cost_ratio: float | None = None,
) -> Float[np.ndarray, "G1"]:
  """Theorem 3.8 without its assumptions; its argmax is the best gamma.

  Args:
    histogram: As in `counted_tokens`.
    cost_ratio: c, from 0.
    verify_ratio: The time of a target call of g + 1 tokens over that of one
      token: [G + 1], where entry 0 is 1 by this definition, or one number.
    first_cost_ratio: `cost_ratio` of a round's first draft call, if that is
      another one; it may read two tokens.

  Returns:
    float64[G + 1]; entry g is for g guesses per round.

  Raises:
    ValueError: If a number is out of range, or `verify_ratio` has another
      length.
  """
  tokens = counted_tokens(histogram)
  verify = positive("verify_ratio", verify_ratio)
  if verify.shape not in ((), tokens.shape):
    raise ValueError(
      f"verify_ratio has shape {verify.shape}; give one number, or one for each"
      f" gamma from 0 to {len(tokens) - 1}."
    )
  total = round_cost(
    np.arange(len(tokens)),
    cost("cost_ratio", cost_ratio),
    verify,
    None
    if first_cost_ratio is None
    else cost("first_cost_ratio", first_cost_ratio),
  )
  return tokens / total


def counted_operations_increase(
  histogram: ArrayLike, operations_ratio: float
) -> Float[np.ndarray, "G1"]:
  """Theorem 3.11 without its assumption.

  Args:
    histogram: As in `counted_tokens`.
    operations_ratio: ĉ, from 0.

  Returns:
    float64[G + 1]; entry g is for g guesses per round.

  Raises:
    ValueError: If a number is out of range.
  """
  tokens = counted_tokens(histogram)
  return round_operations(np.arange(len(tokens)), operations_ratio) / tokens
