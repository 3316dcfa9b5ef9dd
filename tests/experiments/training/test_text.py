import gzip
import re

import pytest

from experiments.training import text as training_text
from specdec_jax.t5.vocabulary import SentencePieceVocabulary
from tests.experiments.tiny_pair import train_vocabulary

KNOWN = "the file\tthe window\ta:b\n"
UNKNOWN = "\u03b1\u03b2 \u03b3\u03b4\t\u03b5 \u03b6\ta:b\n"


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
  path = tmp_path_factory.mktemp("vocabulary") / "sentencepiece.model"
  train_vocabulary(path)
  return SentencePieceVocabulary(path)


def load(path, data: bytes, vocabulary):
  path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
  return training_text.load(str(path), vocabulary=vocabulary, max_tokens=99)


def test_a_vocabulary_of_another_text_is_refused(tmp_path, vocabulary):
  path = tmp_path / "a.tsv"
  text = KNOWN * 3 + UNKNOWN
  message = f"a.tsv:4: the vocabulary {vocabulary.path} does not know"
  with pytest.raises(ValueError, match=re.escape(message)):
    load(path, text.encode(), vocabulary)
  # A rare character is no sign of that.
  rows = load(path, (KNOWN * 50 + UNKNOWN).encode(), vocabulary)
  assert len(rows) == 51


@pytest.mark.parametrize(
  ("row", "message"),
  [
    (b"one\ttwo\n", "a.tsv.gz:4: 2 columns"),
    (b"\n", "a.tsv.gz:4: the row is empty"),
    (b"one\ttw\xf6\tx\n", "a.tsv.gz:4: byte 7 of the line, 0xf6, is not UTF-8"),
  ],
)
def test_bad_rows_are_named(tmp_path, vocabulary, row, message):
  data = KNOWN.encode() * 3 + row
  with pytest.raises(ValueError, match=re.escape(message)):
    load(tmp_path / "a.tsv.gz", data, vocabulary)


@pytest.mark.parametrize(
  ("line", "message"),
  [
    ("{}", "a.jsonl.gz:2: no JSON object with source and target"),
    ("[1]", "a.jsonl.gz:2: no JSON object"),
    ('{"source": [', "a.jsonl.gz:2: no JSON object"),
    (
      '{"source": [3, 1], "target": [70000, 1]}',
      "a.jsonl.gz:2: token 70000 is none of the",
    ),
  ],
)
def test_bad_generated_examples_are_named(tmp_path, vocabulary, line, message):
  good = '{"source": [3, 1], "target": [4, 1]}\n'
  path = tmp_path / "a.jsonl.gz"
  with pytest.raises(ValueError, match=re.escape(message)):
    load(path, f"{good}{line}\n".encode(), vocabulary)
  assert load(path, good.encode(), vocabulary) == [([3, 1], [4, 1])]
