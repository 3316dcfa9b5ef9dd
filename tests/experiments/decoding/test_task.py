import gzip
import io
import types

import pytest

from experiments.decoding.task import Example, Task


def write(path, data: bytes):
  path.write_bytes(data)
  return str(path)


def test_whole_lines(tmp_path):
  # Only a line feed ends a line: not a form feed, nor U+2028.
  path = write(
    tmp_path / "a.txt", "eins\r\nzwei \x0c drei\nvier\u2028fünf".encode()
  )
  assert Task("a", path).read() == [
    Example(1, "eins"),
    Example(2, "zwei \x0c drei"),
    Example(3, "vier\u2028fünf"),
  ]


def test_columns_by_name_and_by_number(tmp_path):
  path = write(tmp_path / "a.tsv", b'\xef\xbb\xbfid\ttext\n1\t"one\n2\ttwo\n')
  assert Task("a", path, column="text").read() == [
    Example(2, '"one'),
    Example(3, "two"),
  ]
  assert Task("a", path, column=0, limit=2).read() == [
    Example(1, "id"),
    Example(2, "1"),
  ]


def test_kinds_of_origin(tmp_path):
  path = write(tmp_path / "a.tsv", b"text\torigin\none\tman:ls/1\ntwo\tddtp\n")
  kinds = [Example(2, "one", "man"), Example(3, "two", "ddtp")]
  assert Task("a", path, column="text", origin="origin").read() == kinds
  with pytest.raises(ValueError, match=r"a\.tsv:1: .*'kind'.*Task\.origin"):
    Task("a", path, column="text", origin="kind").read()
  path = write(tmp_path / "b.tsv", b"one\tman:ls/1\ntwo\n")
  with pytest.raises(ValueError, match=r"b\.tsv:2: there is no column 1"):
    Task("a", path, column=0, origin=1).read()
  assert Task("a", path, column=0, origin=1, limit=1).read()[0].kind == "man"
  path = write(tmp_path / "c.tsv", b"one\tman:ls/1\ntwo\tddtp\n")
  some = Task("a", path, column=0, origin=1, kinds=["ddtp"], limit=1)
  assert [each.text for each in some.read()] == ["two"]
  with pytest.raises(ValueError, match=r"'help', which no line .* ddtp, man"):
    Task("a", path, column=0, origin=1, kinds=("man", "help")).read()
  with pytest.raises(ValueError, match="Task.origin None; name the column"):
    Task("a", path, column=0, kinds=("man",))
  with pytest.raises(ValueError, match="Task.kinds is 'man'; give a list"):
    Task("a", path, column=0, origin=1, kinds="man")
  for column in (None, 0):
    with pytest.raises(ValueError, match=r"Task\.origin is 'origin' and"):
      Task("a", path, column=column, origin="origin")
  with pytest.raises(ValueError, match=r"Task\.origin is -1"):
    Task("a", path, column=0, origin=-1)


def test_gzip_and_standard_input(tmp_path, monkeypatch):
  path = write(tmp_path / "a.tsv.gz", gzip.compress(b"a\tb\nx\ty\n"))
  assert Task("a", path, column="b").read() == [Example(2, "y")]
  stdin = types.SimpleNamespace(buffer=io.BytesIO(b"eins\nzwei\n"))
  monkeypatch.setattr("sys.stdin", stdin)
  assert Task("a", "-").read() == [Example(1, "eins"), Example(2, "zwei")]


def test_empty_lines_are_left_out_only_on_demand(tmp_path):
  path = write(tmp_path / "a.tsv", b"a\tb\nx\t\n\nx\ty\n")
  assert Task("a", path, column="b", skip_empty=True).read() == [
    Example(4, "y")
  ]


def test_limit_stops_before_what_is_wrong_behind_it(tmp_path):
  path = write(tmp_path / "a.txt", b"one\ntwo\n\n")
  assert len(Task("a", path, limit=2).read()) == 2


@pytest.mark.parametrize(
  ("data", "column", "message"),
  [
    (b"one\n \nthree\n", None, r"a\.txt:2: the text is empty.*skip_empty"),
    (b"one\ntw\xf6\n", None, r"a\.txt:2: byte 3 .*0xf6.*UTF-8"),
    (b"", None, r"a\.txt holds no text"),
    (b"id\ttext\n", "text", r"a\.txt holds no text"),
    (b"", "text", r"a\.txt:1: there is no column 'text'"),
    (b"id\ttext\n1\tx\n", "txt", r"a\.txt:1: .*'txt'.*'id', 'text'"),
    (b"id\ttext\n1\n", "text", r"a\.txt:2: there is no column 1.*has 1\."),
    (b"1\tx\n", 2, r"a\.txt:1: there is no column 2"),
    (b"id\ttext\n1\t\n", "text", r"a\.txt:2: the text is empty"),
  ],
)
def test_bad_files_are_named_with_their_line(tmp_path, data, column, message):
  path = write(tmp_path / "a.txt", data)
  with pytest.raises(ValueError, match=message):
    Task("a", path, column=column).read()


def test_bad_settings(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"none\.txt.*Task\.path"):
    Task("a", str(tmp_path / "none.txt")).read()
  with pytest.raises(ValueError, match=r"b\.gz.*no complete gzip"):
    Task("a", write(tmp_path / "b.gz", b"plain")).read()
  half = gzip.compress(b"text\n" * 100)[:20]
  with pytest.raises(ValueError, match=r"c\.gz.*no complete gzip"):
    Task("a", write(tmp_path / "c.gz", half)).read()
  damaged = bytearray(gzip.compress(b"text\n" * 100))
  damaged[10] ^= 0xFF  # The first byte of the compressed text.
  with pytest.raises(ValueError, match=r"d\.gz.*no complete gzip"):
    Task("a", write(tmp_path / "d.gz", bytes(damaged))).read()
  with pytest.raises(ValueError, match="limit is 0"):
    Task("a", "x", limit=0)
  with pytest.raises(ValueError, match="column is -1"):
    Task("a", "x", column=-1)
