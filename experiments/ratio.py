"""A mean over tokens, and how far it may be off, since texts differ."""

import math
from collections.abc import Sequence

import numpy as np

_DEVIATIONS_95 = 1.959964


def ratio_interval(
  parts: Sequence[float], wholes: Sequence[float]
) -> dict[str, float | None]:
  """Returns sum(parts) / sum(wholes) and its 95% confidence interval.

  Tokens of a text hang together, and texts do not: the deviation is that of
  texts, by the linearised ratio estimator (Cochran 1977, section 2.11).

  Args:
    parts: Of each text, for example guesses accepted.
    wholes: Of each text, for example guesses examined.

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
    "high": float(min(mean + margin, 1.0)),
  }
