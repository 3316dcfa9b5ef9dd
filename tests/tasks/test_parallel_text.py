import gzip
import re

import pytest

from specdec_jax.tasks import parallel_text
from specdec_jax.tasks.parallel_text import Row

GOOD = b"a file\teine Datei\tman:pages/ls\nb\tc\tmanual:x\n"


def write(path, data: bytes) -> str:
  path.write_bytes(data)
  return str(path)


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_rows_and_their_lines(tmp_path, name):
  data = gzip.compress(GOOD) if name.endswith(".gz") else GOOD
  path = write(tmp_path / name, data)
  one = Row("a file", "eine Datei", "man:pages/ls", 1)
  other = Row("b", "c", "manual:x", 2)
  assert list(parallel_text.read(path)) == [one, other]
  assert list(parallel_text.read(path, ("man",))) == [one]
  assert list(parallel_text.read(path, ("man:pages",))) == [one]
  assert list(parallel_text.read(path, ("manual:x", "dict"))) == [other]


def test_only_a_line_feed_ends_a_row(tmp_path):
  data = "a\u2028b \x0c c\td\te\r\n".encode()
  path = write(tmp_path / "a.tsv", data)
  assert list(parallel_text.read(path)) == [Row("a\u2028b \x0c c", "d", "e", 1)]


@pytest.mark.parametrize(
  ("row", "message"),
  [
    (b"a\tb\n", "2 columns; there must be 3 (source, target, origin)"),
    (b"a\tb\tc\td\n", "4 columns"),
    (b"a b c\n", "1 columns"),
    (b"a\tb\xe4\tc\n", "byte 4 of the line, 0xe4, is not UTF-8"),
    (b"\n", "the row is empty; remove it"),
    (b" \t \t\n", "the row is empty"),
    (b"\tb\tc\n", "the column source is empty"),
    (b"a\t \tc\n", "the column target is empty"),
    (b"a\tb\t\n", "the column origin is empty"),
  ],
)
def test_a_bad_row_is_named_with_its_line(tmp_path, row, message):
  path = write(tmp_path / "bad.tsv", GOOD + row + GOOD)
  # Also where the row would not be used.
  with pytest.raises(ValueError, match=re.escape(f"{path}:3: {message}")):
    list(parallel_text.read(path, ("man",)))


def test_bad_files_are_named(tmp_path):
  with pytest.raises(
    FileNotFoundError, match=r"none\.tsv.*corpora\.build --out"
  ):
    list(parallel_text.read(str(tmp_path / "none.tsv")))
  half = gzip.compress(GOOD * 1000)[:60]
  for name, data in (("plain.tsv.gz", GOOD), ("half.tsv.gz", half)):
    path = write(tmp_path / name, data)
    with pytest.raises(ValueError, match=f"{name} .*no complete gzip"):
      list(parallel_text.read(path))
