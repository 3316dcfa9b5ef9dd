import pytest

from experiments.training.data import TextFiles, check_kind, checksum
from experiments.training.text import EncodedRow, write_generated
from specdec_jax.t5.vocabulary import SentencePieceVocabulary
from tests.experiments.tiny_pair import train_vocabulary


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("text")
  for name, text in (
    ("train", "hello\tworld\tman:a/b\n"),
    ("validation", "a file\tthe file\thelp:c\n"),
    ("test", "the window\tworld\thelp:c\nhow\tgoing\tmanual:d\n"),
  ):
    (folder / f"{name}.tsv").write_text(text)
  train_vocabulary(folder / "sentencepiece.model")
  return folder


def files(folder, **changes):
  fields = {
    "vocabulary": str(folder / "sentencepiece.model"),
    **{
      split: str(folder / f"{split}.tsv")
      for split in ("train", "validation", "test")
    },
  }
  return TextFiles(**{**fields, **changes})


def test_each_split_has_its_own_files(folder):
  data = files(folder)
  encode = SentencePieceVocabulary(data.vocabulary).encode
  for split, row in (
    ("train", ("hello", "world", "man:a/b")),
    ("validation", ("a file", "the file", "help:c")),
    ("test", ("the window", "world", "help:c")),
  ):
    source, target, origin = row
    found = EncodedRow(encode(source), encode(target), target, origin)
    assert data.load_rows(split)[0] == found
    assert data.load(split, max_tokens=99)[0] == found[:2]
  kinds = [row.kind for row in data.load_rows("test")]
  assert kinds == ["help", "manual"]
  # Whatever their length.
  with pytest.raises(ValueError, match="with at most 1 tokens a side"):
    data.load("test", max_tokens=1)
  assert all(row.longest > 1 for row in data.load_rows("test"))


def test_of_text_alone_the_source_is_the_target(folder):
  (row,) = files(folder, only_source=True).load_rows("train")
  assert (row.source, row.reference, row.kind) == ([], "hello", "man")


def test_generated_rows_have_no_text_and_no_origin(folder, tmp_path):
  path = str(tmp_path / "a.jsonl.gz")
  write_generated(path, [([5, 1], [6, 7, 1])])
  data = files(folder, test=path, origins=("help",))
  assert data.load_rows("test") == [EncodedRow([5, 1], [6, 7, 1], None, "")]


def test_a_split_that_is_not_there_is_told(folder):
  with pytest.raises(ValueError, match="no split 'dev'; there are train, val"):
    files(folder).load("dev", max_tokens=9)
  for load in (
    lambda data: data.load("test", max_tokens=9),
    lambda data: data.load_rows("test"),
  ):
    with pytest.raises(ValueError, match=r"TextFiles\.test names no file"):
      load(files(folder, test=()))


def test_each_origin_has_rows(folder):
  def origins(*names):
    rows = files(folder, origins=names).load_rows("test")
    return [row.origin for row in rows]

  assert origins("help") == origins("help:c") == ["help:c"]
  assert origins("manual", "help") == ["help:c", "manual:d"]
  with pytest.raises(
    ValueError,
    match=r"names 'man', which no row of .*test\.tsv has; there are"
    " help, manual",
  ):
    origins("help", "man")


def test_a_checksum_names_ids_and_where_they_are():
  pairs = [([5, 1], [7, 8, 1]), ([6, 1], [9, 1])]
  others = [
    pairs[::-1],
    pairs[:1],
    [([5], [1, 7, 8, 1]), ([6, 1], [9, 1])],
    [([5, 1], [7, 8]), ([6, 1], [1, 9, 1])],
    [([5, 1], [7, 8, 1]), ([6, 1], [9, 2])],
  ]
  assert len({checksum(each) for each in (pairs, *others)}) == 6
  assert checksum([(list(s), list(t)) for s, t in pairs]) == checksum(pairs)


def test_an_encoder_needs_something_to_read():
  pairs = [([5, 1], [7, 1]), ([], [9, 1])]
  check_kind(pairs, decoder_only=True, split="train")
  check_kind(pairs[:1], decoder_only=False, split="train")
  with pytest.raises(ValueError, match="Example 1 of the train split has no"):
    check_kind(pairs, decoder_only=False, split="train")
