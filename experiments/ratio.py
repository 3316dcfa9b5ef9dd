"""A mean over tokens, and how far it may be off, since texts differ."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

_DEVIATIONS_95 = 1.959964


def ratio_interval(
  parts: ArrayLike, wholes: ArrayLike, most: float = 1.0
) -> dict[str, float | None]:
  """Returns sum(parts) / sum(wholes) and its 95% confidence interval.

  Tokens of a text hang together, and texts do not: the deviation is that of
  texts, by the linearised ratio estimator (Cochran 1977, section 2.11).

  Args:
    parts: Of each text, for example guesses accepted.
    wholes: Of each text, for example guesses examined.
    most: What the ratio cannot exceed.

  Returns:
    "mean", "low", "high"; None where nothing gives them: the mean of
    nothing, the ends from a single text.
  """
  part, whole = np.asarray(parts, float), np.asarray(wholes, float)
  # A text without anything to judge says nothing.
  part, whole = part[whole > 0], whole[whole > 0]
  if not len(part):
    return {"mean": None, "low": None, "high": None}
  mean = part.sum() / whole.sum()
  if len(part) == 1:
    return {"mean": float(mean), "low": None, "high": None}
  variance = np.sum((part - mean * whole) ** 2) * len(part) / (len(part) - 1)
  margin = _DEVIATIONS_95 * math.sqrt(variance) / whole.sum()
  return {
    "mean": float(mean),
    "low": float(max(mean - margin, 0.0)),
    "high": float(min(mean + margin, most)),
  }


def quotient_interval(
  numerators: Sequence[ArrayLike], denominators: Sequence[ArrayLike]
) -> dict[str, float | None]:
  """Returns a quotient of products of sums, and its 95% confidence interval.

  As `ratio_interval`, for as many factors above the line as below it: seconds
  of one way of decoding times tokens of the other, over the reverse.

  Args:
    numerators: Each of all texts; with a positive sum.
    denominators: Likewise, as many.

  Returns:
    "mean", "low", "high"; the ends None from a single text.
  """
  above, below = np.asarray(numerators, float), np.asarray(denominators, float)
  mean = np.prod(above.sum(axis=1)) / np.prod(below.sum(axis=1))
  texts = above.shape[1]
  if texts == 1:
    return {"mean": float(mean), "low": None, "high": None}
  shares = [each / each.sum(axis=1, keepdims=True) for each in (above, below)]
  deviations = shares[0].sum(axis=0) - shares[1].sum(axis=0)
  variance = np.sum(deviations**2) * texts / (texts - 1)
  margin = _DEVIATIONS_95 * math.sqrt(variance) * mean
  return {
    "mean": float(mean),
    "low": float(max(mean - margin, 0.0)),
    "high": float(mean + margin),
  }
