import pytest

from specdec_jax.t5.vocabulary import (
  SentencePieceVocabulary,
  check_model_size,
  check_same_tokens,
)
from tests.experiments.tiny_pair import TEXTS, train_vocabulary


@pytest.fixture(scope="module")
def path(tmp_path_factory):
  path = tmp_path_factory.mktemp("vocabulary") / "sentencepiece.model"
  train_vocabulary(path)
  return path


@pytest.fixture(scope="module")
def vocabulary(path):
  return SentencePieceVocabulary(path)


def test_there_and_back(vocabulary):
  for text in TEXTS:
    ids = vocabulary.encode(text)
    assert ids[-1] == 1
    assert 1 not in ids[:-1]
    assert vocabulary.decode(ids) == text
    assert vocabulary.decode([*ids, 0, 5, 1, 7]) == text
    assert vocabulary.decode([0, *ids[:-1]]) == text
    assert "".join(map(vocabulary.token_text, ids[:-1])) == f" {text}"


def test_ids_of_padding_decode_as_unknown(vocabulary):
  size = vocabulary.vocab_size
  assert vocabulary.decode([2]).strip() == "\u2047"
  for token in (size, size + 27, 10**6):
    assert vocabulary.decode([token]) == vocabulary.decode([2])
    assert vocabulary.token_text(token) == vocabulary.token_text(2)
  assert vocabulary.decode([size - 1]) != vocabulary.decode([2])


def test_sentinels_count_down_from_the_end(path, vocabulary):
  more = SentencePieceVocabulary(path, extra_ids=100)
  size = vocabulary.vocab_size
  assert more.vocab_size == size + 100
  assert more.encode("hello <extra_id_0> world <extra_id_99>") == [
    *vocabulary.encode("hello")[:-1],
    size + 99,
    *vocabulary.encode("world")[:-1],
    size,
    1,
  ]
  assert more.decode([size + 99, size + 98]).split() == [
      "<extra_id_0>", "<extra_id_1>",
  ]  # fmt: skip
  assert more.pieces[:size] == vocabulary.pieces


def test_bad_files_are_named(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"no vocabulary at .*none"):
    SentencePieceVocabulary(tmp_path / "none")
  pointer = tmp_path / "pointer"
  pointer.write_text("version https://git-lfs.github.com/spec/v1\n")
  with pytest.raises(ValueError, match=r"pointer .*is no SentencePiece model"):
    SentencePieceVocabulary(pointer)


def test_special_ids_must_be_those_of_t5(tmp_path):
  import sentencepiece

  path = tmp_path / "other.model"
  with open(path, "wb") as f:
    sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=iter(TEXTS * 10),
      model_writer=f,
      vocab_size=64,
      hard_vocab_limit=False,
      minloglevel=2,
    )
  with pytest.raises(ValueError, match=r"other\.model has .*\(-1, 2, 0\)"):
    SentencePieceVocabulary(path)


def test_sizes_must_fit(vocabulary):
  size = vocabulary.vocab_size
  check_model_size(vocabulary, size, "a/target")
  with pytest.raises(ValueError, match=f"{size} ids.*a/target.* {size - 1}"):
    check_model_size(vocabulary, size - 1, "a/target")


def test_tokenizers_must_agree(path, vocabulary, tmp_path):
  check_same_tokens(vocabulary, SentencePieceVocabulary(path))
  more = SentencePieceVocabulary(path, extra_ids=2)
  size = vocabulary.vocab_size
  with pytest.raises(ValueError, match=f"{size} ids, .* {size + 2}"):
    check_same_tokens(vocabulary, more)
