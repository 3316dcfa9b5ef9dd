"""Examples to train on: pairs of token ids, from text or from a target."""

import gzip
import json
import logging
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from experiments.paths import resolve
from specdec_jax.tasks import parallel_text

log = logging.getLogger(__name__)

TokenPair = tuple[list[int], list[int]]
"""Source and target ids of an example, each with its EOS."""

GENERATED = ".jsonl.gz"
"""How the name of a file of `write_generated` ends."""

# A vocabulary that was made for a text knows nearly all of it.
_MOST_UNKNOWN = 0.05


class EncodedRow(NamedTuple):
  """An example, and what is known of it besides its ids.

  Attributes:
    source: Source ids with their EOS; none if the target alone is the text.
    target: Target ids with their EOS.
    reference: The target's text; None if only its ids are known.
    origin: Kind and place, as in `parallel_text.Row`; empty if not known.
  """

  source: list[int]
  target: list[int]
  reference: str | None = None
  origin: str = ""

  @property
  def kind(self) -> str:
    """The origin's first part: "man" of "man:manpages-l10n/ls"."""
    return parallel_text.kind_of(self.origin)

  @property
  def longest(self) -> int:
    """Tokens of the longer side."""
    return max(len(self.source), len(self.target))


def load(
  path: str,
  *,
  vocabulary: Any,
  max_tokens: int,
  origins: Sequence[str] = (),
  limit: int | None = None,
  only_source: bool = False,
) -> list[TokenPair]:
  """Reads examples; logs how many rows are too long and left out.

  Args:
    path: A TSV of `parallel_text`, or a file of `write_generated`
      (.jsonl.gz).
    vocabulary: Encodes the text.
    max_tokens: Rows with a longer side, EOS included, are left out.
    origins: As in `parallel_text.read`; for text only.
    limit: Keeps only the first so many.
    only_source: Whether the sources alone are the texts: as targets, with
      nothing for an encoder to read. For text only.

  Raises:
    FileNotFoundError: If there is no such file.
    ValueError: If a row is bad, the vocabulary is not that of the text, or
      nothing is left.
  """
  path = resolve(path)
  rows = read(
    path, vocabulary=vocabulary, origins=origins, only_source=only_source
  )
  kept = [row[:2] for row in rows if row.longest <= max_tokens]
  log.info(
    "%s: %d rows, %d left out for a side of more than %d tokens",
    path,
    len(rows),
    len(rows) - len(kept),
    max_tokens,
  )
  if not kept:
    raise ValueError(
      f"{path} holds no row of the origins {tuple(origins)} with at most"
      f" {max_tokens} tokens a side; name origins that its third column has,"
      " or none for all."
    )
  return kept[:limit]


def read(
  path: str,
  *,
  vocabulary: Any,
  origins: Sequence[str] = (),
  only_source: bool = False,
) -> list[EncodedRow]:
  """Reads all examples of a file, whatever their length.

  Args:
    path: As in `load`.
    vocabulary: As in `load`.
    origins: As in `load`.
    only_source: As in `load`.

  Raises:
    FileNotFoundError: If there is no such file.
    ValueError: If a row is bad, or the vocabulary is not that of the text.
  """
  path = resolve(path)
  if path.endswith(GENERATED):
    pairs = read_generated(path)
    _check_ids(pairs, path, vocabulary)
    return [EncodedRow(*pair) for pair in pairs]
  rows = list(parallel_text.read(path, origins))
  if only_source:
    encoded = [
      EncodedRow([], vocabulary.encode(row.source), row.source, row.origin)
      for row in rows
    ]
  else:
    encoded = [
      EncodedRow(
        vocabulary.encode(row.source),
        vocabulary.encode(row.target),
        row.target,
        row.origin,
      )
      for row in rows
    ]
  check_known(encoded, [row.line for row in rows], path, vocabulary)
  return encoded


def check_known(
  rows: Sequence[EncodedRow],
  lines: Sequence[int],
  path: str,
  vocabulary: Any,
) -> None:
  """Checks that a vocabulary knows a text.

  Args:
    rows: The encoded rows.
    lines: Where each stands in its file.
    path: The file.
    vocabulary: What they were encoded with.

  Raises:
    ValueError: If more than a twentieth of all tokens are unknown; names the
      first line that has one.
  """
  unknown = [
    sum(side.count(vocabulary.unk_id) for side in row[:2]) for row in rows
  ]
  total = sum(len(side) for row in rows for side in row[:2])
  if sum(unknown) > _MOST_UNKNOWN * total:
    first = next(
      line for line, each in zip(lines, unknown, strict=True) if each
    )
    raise ValueError(
      f"{path}:{first}: the vocabulary {vocabulary.path} does not know this"
      f" row, and {sum(unknown)} of {total} tokens of the file are unknown to"
      " it. Give the vocabulary that the model was, or is to be, trained with."
    )


def write_generated(path: str, pairs: Sequence[TokenPair]) -> None:
  """Writes token ids, a JSON line per example; the file whole or not at all."""
  unfinished = path + ".unfinished"
  with gzip.open(unfinished, "wt", encoding="utf-8") as file:
    for source, target in pairs:
      file.write(json.dumps({"source": source, "target": target}) + "\n")
  os.replace(unfinished, path)


def read_generated(path: str) -> list[TokenPair]:
  """Reads what `write_generated` wrote.

  Raises:
    FileNotFoundError: If there is no such file.
    ValueError: If a line is no such example; names file and line.
  """
  if not os.path.isfile(path):
    raise FileNotFoundError(
      f"There are no generated examples at {path!r}; write them with"
      " experiments.generate_text."
    )
  with gzip.open(path, "rt", encoding="utf-8") as file:
    return [_example(line, f"{path}:{i}") for i, line in enumerate(file, 1)]


def _example(line: str, place: str) -> TokenPair:
  try:
    row = json.loads(line)
    return row["source"], row["target"]
  except (json.JSONDecodeError, KeyError, TypeError) as error:
    raise ValueError(
      f"{place}: no JSON object with source and target ({error!r}); write the"
      " file anew with experiments.generate_text."
    ) from error


def _check_ids(pairs: Sequence[TokenPair], path: str, vocabulary: Any) -> None:
  for number, pair in enumerate(pairs, 1):
    largest = max((token for side in pair for token in side), default=0)
    if largest >= vocabulary.vocab_size:
      raise ValueError(
        f"{path}:{number}: token {largest} is none of the"
        f" {vocabulary.vocab_size} of the vocabulary {vocabulary.path}. Give"
        " the vocabulary that the examples were generated with."
      )
