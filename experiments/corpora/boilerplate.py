"""Caps texts that differ in a name only."""

import collections
import re
from collections.abc import Callable, Sequence

from experiments.corpora.item import Item


def cap(
  items: Sequence[Item],
  side: Callable[[Item], str],
  most: int = 12,
  common: int = 60,
) -> list[Item]:
  """Keeps the first few items of each template.

  Args:
    items: What to choose from.
    side: The text to look at.
    most: How many items of a template to keep.
    common: A word in fewer items than this is what a template leaves open.
  """
  frequency = collections.Counter(
    word for item in items for word in set(side(item).lower().split())
  )
  seen, kept = collections.Counter(), []
  for item in items:
    text = side(item)
    template = " ".join(
      word if frequency[word] >= common else "_"
      for word in text.lower().split()
    )
    template = re.sub(r"(?:_ ?)+", "_ ", template)
    fixed = len(re.sub(r"[_ ]", "", template))
    if fixed > 0.55 * len(re.sub(r"\s", "", text)):
      seen[template] += 1
      if seen[template] > most:
        continue
    kept.append(item)
  return kept
