"""A draft with another tokenizer is refused before any weights are read."""

import json
import shutil

import pytest

from specdec_jax.lm import llama
from specdec_jax.lm.llama import checkpoints
from specdec_jax.lm.llama.tokenizer import read_tokens
from tests.experiments.tiny_pair import train_vocabulary

VOCAB = {"<unk>": 0, "!": 3, "a": 4, "b": 5}
ADDED = [{"id": 1, "content": "<s>"}, {"id": 2, "content": "</s>"}]


def write(folder, vocab=VOCAB, added=ADDED, **others):
  folder.mkdir(exist_ok=True)
  model = {"type": "BPE", "vocab": vocab, "merges": []}
  contents = {"model": model, "added_tokens": added, **others}
  (folder / "tokenizer.json").write_text(json.dumps(contents))
  return folder


@pytest.fixture
def target(tmp_path):
  return write(tmp_path / "target")


def test_pieces_in_order_of_their_ids(target):
  found = read_tokens(target)
  assert found.path.endswith("target/tokenizer.json")
  assert found.pieces == ("<unk>", "<s>", "</s>", "!", "a", "b")


def test_how_the_file_is_laid_out_does_not_matter(target, tmp_path):
  vocab = dict(reversed(VOCAB.items())) | {"<s>": 1, "</s>": 2}
  draft = write(tmp_path / "draft", vocab, added=[], truncation={"length": 9})
  llama.check_same_tokenizer(target, draft)


@pytest.mark.parametrize(
  ("vocab", "added", "match"),
  [
    (
      {**VOCAB, "a": 5, "b": 4},
      ADDED,
      "target/tokenizer.json has 6 ids.*draft/tokenizer.json has 6"
      ".*Id 4 is 'a' in one and 'b' in the other",
    ),
    ({**VOCAB, "c": 6}, ADDED, "has 6 ids, the draft's.* has 7.*one tokenizer"),
    (
      VOCAB,
      [ADDED[0], {"id": 2, "content": "<eot>"}],
      "Id 2 is '</s>' in one and '<eot>' in the other",
    ),
  ],
)
def test_another_tokenizer_is_refused(target, tmp_path, vocab, added, match):
  draft = write(tmp_path / "draft", vocab, added)
  with pytest.raises(ValueError, match=match):
    llama.check_same_tokenizer(target, draft)


@pytest.mark.parametrize(
  "contents", ['{"model": {}}', '{"model": {"vocab": {}}}', "[]", '{"model"']
)
def test_a_damaged_file_is_named(target, tmp_path, contents):
  draft = tmp_path / "draft"
  draft.mkdir()
  (draft / "tokenizer.json").write_text(contents)
  with pytest.raises(ValueError, match=r"draft/tokenizer.json.*damaged"):
    llama.check_same_tokenizer(target, draft)


def test_a_folder_without_a_tokenizer_is_named(target, tmp_path):
  (tmp_path / "draft").mkdir()
  with pytest.raises(ValueError, match=r"draft holds neither tokenizer.json"):
    llama.check_same_tokenizer(target, tmp_path / "draft")
  with pytest.raises(FileNotFoundError, match="nowhere"):
    llama.check_same_tokenizer(target, tmp_path / "nowhere")


def test_sentencepiece_and_its_json_are_one_tokenizer(tmp_path):
  old, new = tmp_path / "old", tmp_path / "new"
  old.mkdir()
  train_vocabulary(old / "tokenizer.model")
  pieces = read_tokens(old).pieces
  write(new, {piece: i for i, piece in enumerate(pieces)}, added=[])
  llama.check_same_tokenizer(old, new)
  llama.check_same_tokenizer(new, old)
  write(new, {piece: i for i, piece in enumerate(pieces[::-1])}, added=[])
  with pytest.raises(ValueError, match=r"old/tokenizer.model .*new/tokenizer"):
    llama.check_same_tokenizer(old, new)
  # Llama 3's own file of that name is none of SentencePiece.
  (old / "tokenizer.model").write_text("IQ== 0\nIg== 1\n")
  with pytest.raises(ValueError, match=r"old/tokenizer.model.*damaged"):
    read_tokens(old)


def test_a_pair_is_loaded_if_it_has_one_tokenizer(
  golden, tmp_path, monkeypatch
):
  target, draft = (
    shutil.copytree(golden / name, tmp_path / name)
    for name in ("gqa", "llama3")
  )
  write(target)
  write(draft)
  (model, params), (other, others) = llama.load_pair(target, draft)
  assert (model.config.emb_dim, other.config.emb_dim) == (24, 32)
  assert params["decoder"].keys() - others["decoder"].keys() == {"logits_dense"}
  write(draft, {**VOCAB, "c": 6})
  monkeypatch.setattr(checkpoints, "load", None)  # Nothing is to be read.
  with pytest.raises(ValueError, match=r"gqa/tokenizer.*llama3/tokenizer"):
    llama.load_pair(target, draft)
