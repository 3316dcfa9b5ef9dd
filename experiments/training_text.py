"""Examples to train on: pairs of token ids, from text or from a target."""

import gzip
import json
import logging
import os
from collections.abc import Sequence
from typing import Any

from experiments import parallel_text
from experiments.paths import resolve

log = logging.getLogger(__name__)

TokenPair = tuple[list[int], list[int]]
"""Source and target ids of an example, each with its EOS."""


def load(
  path: str,
  *,
  vocabulary: Any,
  max_tokens: int,
  origins: Sequence[str] = (),
  limit: int | None = None,
) -> list[TokenPair]:
  """Reads examples; logs how many rows are too long and left out.

  Args:
    path: A TSV of `parallel_text`, or a file of `write_generated`
      (.jsonl.gz).
    vocabulary: Encodes the text.
    max_tokens: Rows with a longer side, EOS included, are left out.
    origins: As in `parallel_text.read`; for text only.
    limit: Keeps only the first so many.

  Raises:
    ValueError: If nothing is left.
  """
  path = resolve(path)
  if path.endswith(".jsonl.gz"):
    pairs = read_generated(path)
  else:
    pairs = [
      (vocabulary.encode(row.source), vocabulary.encode(row.target))
      for row in parallel_text.read(path, origins)
    ]
  kept = [pair for pair in pairs if max(map(len, pair)) <= max_tokens]
  log.info(
    "%s: %d rows, %d left out for a side of more than %d tokens",
    path,
    len(pairs),
    len(pairs) - len(kept),
    max_tokens,
  )
  if not kept:
    raise ValueError(
      f"{path} holds no row of the origins {tuple(origins)} with at most"
      f" {max_tokens} tokens a side; name origins that its third column has,"
      " or none for all."
    )
  return kept[:limit]


def write_generated(path: str, pairs: Sequence[TokenPair]) -> None:
  """Writes token ids, a JSON line per example."""
  with gzip.open(path, "wt", encoding="utf-8") as file:
    for source, target in pairs:
      file.write(json.dumps({"source": source, "target": target}) + "\n")


def read_generated(path: str) -> list[TokenPair]:
  """Reads what `write_generated` wrote.

  Raises:
    FileNotFoundError: If there is no such file.
  """
  if not os.path.isfile(path):
    raise FileNotFoundError(
      f"There are no generated examples at {path!r}; write them with"
      " experiments.generate_targets."
    )
  with gzip.open(path, "rt", encoding="utf-8") as file:
    rows = [json.loads(line) for line in file]
  return [(row["source"], row["target"]) for row in rows]
