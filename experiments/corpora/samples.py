"""Random rows to read, of every source."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from experiments.corpora.item import Item

PER_SOURCE = 30
_LONGEST_TEXT = 1500


def draw(
  items: Mapping[str, Sequence[Item]], order: random.Random
) -> Iterator[Item]:
  """Yields some items of each source."""
  for _, found in sorted(items.items()):
    yield from order.sample(found, min(PER_SOURCE, len(found)))


def write_pair(file: TextIO, item: Item, remark: str = "") -> None:
  """Writes a text and its translation."""
  file.write(f"[{remark}{item.origin}]\n")
  file.write(f"  EN {item.source}\n  DE {item.target}\n")


def write_summary(file: TextIO, item: Item) -> None:
  """Writes the beginning of a text and its summary."""
  file.write(f"[SUMM {item.origin}]\n")
  file.write(f"  TXT {item.source[:_LONGEST_TEXT]}\n  SUM {item.target}\n")
