"""What to decode: texts from a file, a TSV column, or standard input."""

import dataclasses
import gzip
import io
import os
import sys
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from experiments.paths import resolve
from specdec_jax.tasks.parallel_text import decode_line, kind_of

_STDIN = "-"


class Example(NamedTuple):
  """A text to decode.

  Attributes:
    line: Where it stands in its file, counted from 1.
    text: The text.
    kind: The first part of its origin, such as "man"; "" if it is not known.
  """

  line: int
  text: str
  kind: str = ""


@dataclasses.dataclass(frozen=True)
class Task:
  """Texts, one a line, in UTF-8.

  Attributes:
    name: What to call it in reports.
    path: A file, also gzipped (.gz); "-" for standard input.
    column: None takes whole lines. A name takes that column of a
      tab-separated file whose first line holds the names; an integer, counted
      from 0, takes that column of a file without such a line. Fields are
      split at tabs alone: quotes have no meaning.
    origin: The column of the texts' origins, such as "man:coreutils/ls", for
      results by kind of origin; named or counted as `column` is.
    kinds: Takes texts of these kinds of origin alone; empty takes all.
    limit: Takes the first so many texts; None takes all.
    skip_empty: Whether to leave out empty texts, instead of refusing them.
  """

  name: str
  path: str
  column: str | int | None = None
  origin: str | int | None = None
  kinds: Sequence[str] = ()
  limit: int | None = None
  skip_empty: bool = False

  def __post_init__(self):
    if self.limit is not None and self.limit < 1:
      raise ValueError(
        f"Task.limit is {self.limit}; take at least 1 text, or None for all."
      )
    if isinstance(self.column, int) and self.column < 0:
      raise ValueError(f"Task.column is {self.column}; columns count from 0.")
    if self.origin is not None and type(self.origin) is not type(self.column):
      raise ValueError(
        f"Task.origin is {self.origin!r} and Task.column {self.column!r}; give"
        " the names of two columns, or the numbers of two."
      )
    if isinstance(self.origin, int) and self.origin < 0:
      raise ValueError(f"Task.origin is {self.origin}; columns count from 0.")
    if isinstance(self.kinds, str):
      raise ValueError(f"Task.kinds is {self.kinds!r}; give a list of kinds.")
    object.__setattr__(self, "kinds", tuple(self.kinds))
    if self.kinds and self.origin is None:
      raise ValueError(
        f"Task.kinds is {self.kinds} and Task.origin None; name the column that"
        " kinds are read from."
      )

  @property
  def source(self) -> str:
    """What to call the file in a message."""
    return "standard input" if self.path == _STDIN else self.path

  def read(self) -> list[Example]:
    """Reads the texts.

    Raises:
      FileNotFoundError: If there is no such file.
      ValueError: If a line is not UTF-8, a column is missing or a text is
        empty; names file and line.
    """
    shown = self.source
    lines = _decoded(_read_bytes(self.path), shown)
    column, origin = self.column, self.origin
    if isinstance(column, str):
      _, header = next(lines, (1, ""))
      column = _column_of(header, column, shown, "column")
      if isinstance(origin, str):
        origin = _column_of(header, origin, shown, "origin")
    examples = []
    found = set()
    for number, line in lines:
      if len(examples) == self.limit:
        break
      text, kind = line, ""
      if column is not None and not (self.skip_empty and not line.strip()):
        text = _field(line, column, f"{shown}:{number}")
        if isinstance(origin, int):
          kind = kind_of(_field(line, origin, f"{shown}:{number}"))
          found.add(kind)
          if self.kinds and kind not in self.kinds:
            continue
      if text.strip():
        examples.append(Example(number, text, kind))
      elif not self.skip_empty:
        raise ValueError(
          f"{shown}:{number}: the text is empty. Remove the line, or set"
          " Task.skip_empty=True to leave such lines out."
        )
    for kind in self.kinds:
      if kind not in found and len(examples) != self.limit:
        raise ValueError(
          f"Task.kinds names {kind!r}, which no line of {shown} has; there are"
          f" {', '.join(sorted(found))}."
        )
    if not examples:
      raise ValueError(f"{shown} holds no text; give at least one line.")
    return examples


def _read_bytes(path: str) -> bytes:
  if path == _STDIN:
    return sys.stdin.buffer.read()
  file = resolve(path)
  if not os.path.isfile(file):
    raise FileNotFoundError(
      f"There is no file {path}; set Task.path to a file of texts, or to"
      f" {_STDIN!r} for standard input."
    )
  with open(file, "rb") as f:
    data = f.read()
  if not path.endswith(".gz"):
    return data
  try:
    return gzip.decompress(data)
  except (OSError, EOFError, zlib.error) as error:
    raise ValueError(
      f"{path} ends in .gz but is no complete gzip file ({error}); fetch it"
      " again, or rename it if it is not compressed."
    ) from error


def _decoded(data: bytes, shown: str):
  """Yields (line number, line), split at line feeds alone."""
  data = data.removeprefix(b"\xef\xbb\xbf")
  for number, line in enumerate(io.BytesIO(data), start=1):
    yield number, decode_line(line, f"{shown}:{number}")


def _column_of(header: str, name: str, shown: str, role: str) -> int:
  names = header.split("\t")
  if name not in names:
    raise ValueError(
      f"{shown}:1: there is no column {name!r}; the first line names"
      f" {', '.join(map(repr, names))}. Set Task.{role} to one of them, or"
      " to a number, counted from 0, if the file has no line of names."
    )
  return names.index(name)


def _field(line: str, column: int, place: str) -> str:
  fields = line.split("\t")
  if column >= len(fields):
    raise ValueError(
      f"{place}: there is no column {column}, counted from 0; the line has"
      f" {len(fields)}. Separate columns with tabs."
    )
  return fields[column]
