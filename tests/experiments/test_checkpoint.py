import dataclasses

import jax
import pytest

from experiments import checkpoint
from specdec_jax import lm, t5
from specdec_jax.t5.vocabulary import SentencePieceVocabulary


@pytest.fixture(scope="module")
def lm_folder(pair_folder):
  size = SentencePieceVocabulary(pair_folder / "sentencepiece.model").vocab_size
  config = lm.LMConfig(
    vocab_size=size,
    emb_dim=16,
    num_heads=2,
    num_layers=1,
    head_dim=8,
    mlp_dim=16,
  )
  model = lm.LMModel(config)
  lm.save(pair_folder / "lm", model, model.init(jax.random.key(0)))
  return pair_folder / "lm"


def test_the_folder_says_which_kind(pair_folder, lm_folder):
  model, _ = checkpoint.load(str(pair_folder / "target"), dtype="bfloat16")
  assert isinstance(model, t5.T5Model)
  assert model.config.dtype == "bfloat16"
  assert isinstance(checkpoint.load(str(lm_folder))[0], lm.LMModel)


def test_a_size_names_a_kind(pair_folder, lm_folder):
  with pytest.raises(ValueError, match="emb_dim: 16 in the checkpoint, 256"):
    checkpoint.load(str(lm_folder), "gpt_6m")
  with pytest.raises(ValueError, match="emb_dim: 32 in the checkpoint, 512"):
    checkpoint.load(str(pair_folder / "target"), "t5_1_1_small")


def test_what_is_not_there_is_named():
  with pytest.raises(FileNotFoundError, match="/no/such"):
    checkpoint.load("/no/such")


def test_a_pair_is_of_one_kind(pair_config, lm_folder):
  pair = dataclasses.replace(
    pair_config, target=str(lm_folder), draft=str(lm_folder)
  ).load()
  assert isinstance(pair.target, lm.LMModel)
  mixed = dataclasses.replace(pair_config, draft=str(lm_folder))
  with pytest.raises(ValueError, match="is a T5Model, the draft .* a LMModel"):
    mixed.load()
