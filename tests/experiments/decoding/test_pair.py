import dataclasses
import shutil

import jax
import pytest

import specdec_jax as sd
from experiments.decoding.drafts import load_drafts
from experiments.decoding.pair import Pair
from specdec_jax import t5
from specdec_jax.drafters import (
  AdaptiveDrafter,
  FallbackDrafter,
  PromptLookupDrafter,
)
from tests.experiments import tiny_pair


def test_other_tokenizers_are_refused_with_sizes_and_paths(
  pair_config, pair, tmp_path
):
  other = tmp_path / "other.model"
  size = tiny_pair.train_vocabulary(other, ["quite another text altogether"])
  config = dataclasses.replace(pair_config, draft_vocabulary=str(other))
  with pytest.raises(ValueError, match="different tokenizers") as error:
    config.load()
  for each in (other, size, pair_config.vocabulary, pair.vocabulary.vocab_size):
    assert str(each) in str(error.value)


def test_vocabularies_in_the_models_folders_are_found(pair_config, tmp_path):
  folders = [tmp_path / name for name in ("target", "draft")]
  for folder in folders:
    folder.mkdir()
    shutil.copy(pair_config.vocabulary, folder / "spiece.model")
  config = dataclasses.replace(
    pair_config,
    target=str(folders[0]),
    draft=f"{folders[1]}/",
    vocabulary=None,
  )
  assert config.load_vocabulary().path == str(folders[0] / "spiece.model")
  tiny_pair.train_vocabulary(folders[1] / "spiece.model", ["something else"])
  with pytest.raises(ValueError, match=r"draft/spiece\.model"):
    config.load_vocabulary()


def test_padding_may_differ_and_no_more(pair_config, pair, tmp_path):
  size = pair.vocabulary.vocab_size
  wider = tiny_pair.save_zeros(tmp_path / "wider", vocab_size=size + 5)
  config = dataclasses.replace(pair_config, draft=str(wider))
  loaded = config.load()
  assert loaded.draft.vocab_size == size + 5
  assert loaded.drafter.vocab_size == loaded.target.vocab_size == size
  less = tiny_pair.save_zeros(tmp_path / "less", vocab_size=size - 1)
  config = dataclasses.replace(pair_config, draft=str(less))
  with pytest.raises(ValueError, match=f"{size} ids.*less .*{size - 1}"):
    config.load()


def test_checksum_notices_any_change(pair):
  def changed(change):
    params = jax.tree.map(lambda x: x, pair.draft_params)
    kernel = params["decoder"]["logits_dense"]["kernel"]
    params["decoder"]["logits_dense"]["kernel"] = change(kernel)
    return dataclasses.replace(pair, draft_params=params).checksum()

  assert changed(lambda x: x) == pair.checksum()
  others = {
    changed(lambda x: x.at[3, 4].multiply(1 + 1e-6)),
    changed(lambda x: x[::-1]),
    changed(lambda x: -x),
  }
  assert len(others | {pair.checksum()}) == 4


def test_a_pair_without_a_draft(pair_config):
  loaded = dataclasses.replace(pair_config, draft=None).load()
  assert isinstance(loaded, Pair)
  assert loaded.drafter is None


def test_lookup_alone_or_before_the_draft(pair_config):
  lookup = dataclasses.replace(pair_config, draft=None, prompt_lookup=2)
  assert lookup.has_drafter
  alone = lookup.load()
  assert isinstance(alone.drafter, PromptLookupDrafter)
  assert alone.drafter.min_ngram == 2
  assert alone.drafter_params is None
  both = dataclasses.replace(pair_config, prompt_lookup=9).load()
  assert isinstance(both.drafter, FallbackDrafter)
  assert (both.drafter.first.min_ngram, both.drafter.first.max_ngram) == (9, 9)
  assert both.drafter_params == (None, both.draft_params)
  assert not dataclasses.replace(pair_config, draft=None).has_drafter
  with pytest.raises(ValueError, match=r"PairConfig\.prompt_lookup is 0"):
    dataclasses.replace(pair_config, prompt_lookup=0)


def test_a_draft_that_stops_early(pair_config):
  config = dataclasses.replace(pair_config, stops=[2, 4], confidence=0.5)
  drafter = config.load().drafter
  assert isinstance(drafter, AdaptiveDrafter)
  assert drafter.sizes(6) == (2, 4, 6)
  assert drafter.confidence == 0.5
  for changes in (
    {"stops": (2,)},
    {"confidence": 0.5},
    {"stops": (2,), "confidence": 0.5, "draft": None},
  ):
    with pytest.raises(ValueError, match=r"PairConfig\.stops is"):
      dataclasses.replace(pair_config, **changes)


def test_a_target_that_drafts_for_itself(pair_config, pair):
  config = dataclasses.replace(
    pair_config, draft=None, self_draft_layers=[0], stops=(2,), confidence=0.5
  )
  assert config.has_draft
  assert config.has_drafter
  assert config.draft_name == f"layers (0,) of {config.target}"
  loaded = config.load()
  assert isinstance(loaded.drafter, AdaptiveDrafter)
  assert loaded.draft == t5.T5Model(pair.target.config.shortened(1))
  with pytest.raises(ValueError, match=r"layers is \(0, 1\); .* 1 layers"):
    dataclasses.replace(config, self_draft_layers=(0, 1)).load()
  with pytest.raises(ValueError, match=r"layers is \(0,\) and draft '.*draft'"):
    dataclasses.replace(pair_config, self_draft_layers=(0,))


def test_a_target_that_goes_on_with_its_own_guesses(pair_config, tmp_path):
  model = tiny_pair.save_two_layers(
    tmp_path / "deep", vocab_size=pair_config.load_vocabulary().vocab_size
  )
  config = dataclasses.replace(
    pair_config, target=str(tmp_path / "deep"), draft=None, early_exit=1
  )
  assert config.has_drafter
  assert config.draft_name == f"exit after 1 layers of {config.target}"
  loaded = config.load()
  assert loaded.drafter == sd.early_exit_drafter(model, layers=1)
  assert loaded.draft is loaded.drafter_params is None
  with pytest.raises(ValueError, match="early_exit is 1, but why, .*range"):
    config.check_only_draft("why")
  with pytest.raises(ValueError, match="layers is 2, and the target has 2"):
    dataclasses.replace(config, early_exit=2).load()
  for changes in (
    {"draft": pair_config.draft},
    {"self_draft_layers": (0,)},
    {"prompt_lookup": 1},
  ):
    with pytest.raises(ValueError, match=r"PairConfig\.early_exit is 1, draft"):
      dataclasses.replace(config, **changes)


def test_drafts_of_one_target_share_its_weights(pair_config, pair):
  of_layers = dataclasses.replace(
    pair_config, draft=None, self_draft_layers=(0,)
  )
  first, same, other = load_drafts(pair, [of_layers, pair_config])
  assert first is pair
  owned = {id(leaf) for leaf in jax.tree.leaves(pair.target_params)}
  for each in (same.target_params, same.draft_params, other.target_params):
    assert all(id(leaf) in owned for leaf in jax.tree.leaves(each))
  assert same.checksum() != first.checksum()
  assert other.checksum() == first.checksum()


def test_a_draft_of_another_encoder_is_refused(pair_config, pair, tmp_path):
  config = dataclasses.replace(
    pair.draft.config, num_encoder_layers=0, encoded_dim=999
  )
  model = t5.T5Model(config)
  t5.save(tmp_path / "draft", model, model.init(jax.random.key(0)))
  changed = dataclasses.replace(pair_config, draft=str(tmp_path / "draft"))
  with pytest.raises(ValueError, match=r"emb_dim 999, and the target .*target"):
    changed.load()
