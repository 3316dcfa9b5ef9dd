"""Rows of text and translation or summary: TSV of source, target and origin."""

import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

COLUMNS = ("source", "target", "origin")


class Row(NamedTuple):
  """A text, its translation or summary, and where they come from.

  Attributes:
    source: The text.
    target: Its translation or summary.
    origin: Kind and place: "man:manpages-l10n/ls".
    line: Where it stands in its file, counted from 1.
  """

  source: str
  target: str
  origin: str
  line: int


def has_origin(origin: str, wanted: Sequence[str]) -> bool:
  """Whether `origin` is one of `wanted`, or lies below one of them."""
  return any(
    origin == each or origin.startswith((f"{each}:", f"{each}/"))
    for each in wanted
  )


def kind_of(origin: str) -> str:
  """Returns an origin's first part: "man" of "man:manpages-l10n/ls"."""
  return origin.partition(":")[0]


def decode_line(line: bytes, place: str) -> str:
  """Returns a line's text, without its end.

  Args:
    line: Bytes up to and with a line feed.
    place: What to call it in the error, "file:line".

  Raises:
    ValueError: If it is not UTF-8; names the byte.
  """
  try:
    return line.decode().rstrip("\r\n")
  except UnicodeDecodeError as error:
    raise ValueError(
      f"{place}: byte {error.start + 1} of the line, 0x{line[error.start]:02x},"
      " is not UTF-8. Convert the file, for example: iconv -f latin1 -t utf-8"
    ) from error


def read(path: str, origins: Sequence[str] = ()) -> Iterator[Row]:
  """Yields the rows of a TSV, gzipped if its name ends in ".gz".

  All rows are checked, also those that `origins` leaves out.

  Args:
    path: The file; three columns (source, target, origin), no header.
    origins: Keeps rows of these origins and what lies below them ("man" keeps
      "man:manpages-l10n/ls"); empty keeps all.

  Raises:
    FileNotFoundError: If there is no such file.
    ValueError: If a row is not UTF-8, does not have three columns, or has an
      empty one; names file and line.
  """
  if not os.path.isfile(path):
    raise FileNotFoundError(
      f"There is no parallel text at {path!r}; give a TSV (.tsv or .tsv.gz)"
      " with the columns source, target and origin. Some are built by: python"
      " -m experiments.corpora.build --out FOLDER"
    )
  for number, line in enumerate(_lines(path), 1):
    row = _row(line, number, f"{path}:{number}")
    if not origins or has_origin(row.origin, origins):
      yield row


def _lines(path: str) -> Iterator[bytes]:
  """Yields lines, split at line feeds alone."""
  opener = gzip.open if path.endswith(".gz") else open
  try:
    with opener(path, "rb") as lines:
      yield from lines
  except (gzip.BadGzipFile, EOFError, zlib.error) as error:
    raise ValueError(
      f"{path} ends in .gz but is no complete gzip file ({error}); fetch it"
      " again, or rename it if it is not compressed."
    ) from error


def _row(line: bytes, number: int, place: str) -> Row:
  text = decode_line(line, place)
  if not text.strip():
    raise ValueError(f"{place}: the row is empty; remove it.")
  cells = text.split("\t")
  if len(cells) != len(COLUMNS):
    raise ValueError(
      f"{place}: {len(cells)} columns; there must be {len(COLUMNS)}"
      f" ({', '.join(COLUMNS)}), separated by tabs."
    )
  for name, cell in zip(COLUMNS, cells, strict=True):
    if not cell.strip():
      raise ValueError(
        f"{place}: the column {name} is empty; fill it, or remove the row."
      )
  source, target, origin = cells
  return Row(source, target, origin, number)
