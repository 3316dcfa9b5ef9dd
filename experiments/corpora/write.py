"""Files of rows, and tables of how many there are."""

import collections
import gzip
from collections.abc import Iterable, Sequence

from experiments.corpora.item import Item
from experiments.corpora.text import words

# Of these, one table for all packages.
_MANY_PACKAGES = ("ddtp", "synopsis", "lead", "digest", "man", "roundup")


def write(path: str, items: Iterable[Item]) -> None:
  """Writes source, target and origin, gzipped; equal items, equal bytes."""
  with gzip.GzipFile(path, "wb", mtime=0) as file:
    for item in items:
      cells = item.source, item.target, item.origin
      row = "\t".join(_one_line(each) for each in cells)
      file.write(row.encode() + b"\n")


def statistics(items: Sequence[Item]) -> dict[str, float]:
  """Numbers of pairs and words, and how long the targets are."""
  if not items:
    return {"pairs": 0}
  number = len(items)
  sources = [len(words(item.source)) for item in items]
  targets = sorted(len(words(item.target)) for item in items)
  return {
    "pairs": number,
    "source_words": sum(sources),
    "target_words": sum(targets),
    "source_mean": round(sum(sources) / number, 1),
    "target_mean": round(sum(targets) / number, 1),
    "target_median": targets[number // 2],
    "target_p90": targets[int(number * 0.9)],
    **{
      f"target>{length}": sum(each > length for each in targets)
      for length in (24, 48, 96)
    },
  }


def by_source(items: Iterable[Item]) -> dict[str, list[Item]]:
  """Items by kind and package; by kind alone where packages are many."""
  found = collections.defaultdict(list)
  for item in items:
    is_one = item.kind in _MANY_PACKAGES
    found[item.kind if is_one else f"{item.kind}:{item.package}"].append(item)
  return found


def _one_line(text: str) -> str:
  return text.replace("\t", " ").replace("\n", " ")
