"""Rows of a parallel corpus: gzipped TSV of source, target and origin."""

import gzip
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Row(NamedTuple):
  """A sentence or paragraph, its translation, and where they come from."""

  source: str
  target: str
  origin: str


def has_origin(origin: str, wanted: Sequence[str]) -> bool:
  """Whether `origin` is one of `wanted`, or lies below one of them."""
  return any(
    origin == each or origin.startswith((f"{each}:", f"{each}/"))
    for each in wanted
  )


def read(path: str, origins: Sequence[str] = ()) -> Iterator[Row]:
  """Yields the rows of a TSV, gzipped if its name ends in ".gz".

  Args:
    path: The file; three columns (source, target, origin), no header.
    origins: Keeps rows of these origins and what lies below them ("man" keeps
      "man:manpages-l10n/ls"); empty keeps all.

  Raises:
    FileNotFoundError: If there is no such file.
    ValueError: If a row does not have three columns.
  """
  if not os.path.isfile(path):
    raise FileNotFoundError(
      f"There is no parallel text at {path!r}; give a TSV (.tsv or .tsv.gz)"
      " with the columns source, target and origin."
    )
  opener = gzip.open if path.endswith(".gz") else open
  with opener(path, "rt", encoding="utf-8", newline="\n") as lines:
    for number, line in enumerate(lines, 1):
      cells = line.rstrip("\n").split("\t")
      if len(cells) != 3:
        raise ValueError(
          f"{path}, line {number}: {len(cells)} columns; there must be 3"
          " (source, target, origin), separated by tabs."
        )
      if not origins or has_origin(cells[2], origins):
        yield Row(*cells)
