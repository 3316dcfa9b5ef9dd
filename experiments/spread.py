"""How repeats of one measurement differ."""

import statistics
from collections.abc import Iterable


def spread(values: Iterable[float]) -> dict[str, float]:
  """Returns "min", "median" and "max" of values, of which there is one."""
  found = sorted(map(float, values))
  return {
    "min": found[0],
    "median": statistics.median(found),
    "max": found[-1],
  }
