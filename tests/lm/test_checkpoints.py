"""Weights to disk and back, by the code that serves T5 too."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax import lm, t5
from tests.lm import tiny

MODEL = tiny.TARGET


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
  path = tmp_path_factory.mktemp("lm") / "saved"
  lm.save(path, MODEL, tiny.params(MODEL))
  return path


def assert_equal(params, expected):
  assert jax.tree.structure(params) == jax.tree.structure(expected)
  for one, other in zip(
    jax.tree.leaves(params), jax.tree.leaves(expected), strict=True
  ):
    assert one.dtype == other.dtype
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", [None, MODEL.config])
def test_round_trip_is_exact(name, saved):
  model, params = lm.load(name, saved)
  assert model == MODEL
  assert_equal(params, tiny.params(MODEL))


def test_round_trip_in_bfloat16(tmp_path):
  lm.save(tmp_path / "saved", MODEL, tiny.params(MODEL), dtype="bfloat16")
  model, params = lm.load(None, tmp_path / "saved", dtype="bfloat16")
  assert model.config == dataclasses.replace(MODEL.config, dtype="bfloat16")
  decoder = params["decoder"]
  assert decoder["logits_dense"]["kernel"].dtype == jnp.bfloat16
  assert decoder["relpos_bias"]["rel_embedding"].dtype == jnp.float32
  assert decoder["decoder_norm"]["scale"].dtype == jnp.float32
  assert_equal(
    params,
    jax.tree.map(
      lambda leaf, like: leaf.astype(like.dtype), tiny.params(MODEL), params
    ),
  )


def test_another_size_is_refused(saved):
  with pytest.raises(ValueError, match="emb_dim: 16 in the checkpoint, 256"):
    lm.load("gpt_6m", saved)
  deeper = dataclasses.replace(MODEL.config, num_layers=3)
  with pytest.raises(ValueError, match="the LMConfig given:\n.*num_layers: 2"):
    lm.load(deeper, saved)


def test_wrong_arguments(saved, tmp_path, unchecked):
  with pytest.raises(ValueError, match="name is 7; .* LMConfig, or None"):
    lm.load(7, saved)
  with pytest.raises(ValueError, match="'gpt_2'.*gpt_97m"):
    lm.load("gpt_2", saved)
  with pytest.raises(ValueError, match="float16.*bfloat16"):
    lm.load(None, saved, dtype="float16")
  with pytest.raises(FileNotFoundError, match="nowhere"):
    lm.load(None, tmp_path / "nowhere")
  (tmp_path / "notes.txt").write_text("")
  with pytest.raises(ValueError, match="no checkpoint of lm.save.*notes.txt"):
    lm.load(None, tmp_path)


def test_each_package_loads_its_own_kind(saved, tmp_path):
  with pytest.raises(ValueError, match="call specdec_jax.lm.load"):
    t5.load(None, saved)
  config = t5.T5Config(
    vocab_size=8,
    emb_dim=4,
    num_heads=1,
    num_encoder_layers=1,
    num_decoder_layers=1,
    head_dim=4,
    mlp_dim=4,
  )
  model = t5.T5Model(config)
  zeros = jax.tree.map(lambda x: np.zeros(x.shape, "f4"), model.param_shapes())
  t5.save(tmp_path / "t5", model, zeros)
  with pytest.raises(ValueError, match="call specdec_jax.t5.load"):
    lm.load(None, tmp_path / "t5")


def test_parameters_of_another_model_are_not_saved(tmp_path):
  with pytest.raises(ValueError, match="missing: decoder/layers_1/"):
    lm.save(tmp_path / "saved", MODEL, tiny.params(tiny.DRAFT))
  assert not (tmp_path / "saved").exists()


def test_what_is_there_is_replaced_only_if_asked(saved):
  before = (saved / "config.json").read_text()
  with pytest.raises(FileExistsError, match="overwrite=True"):
    lm.save(saved, MODEL, tiny.params(MODEL))
  lm.save(saved, MODEL, tiny.params(MODEL), overwrite=True)
  assert (saved / "config.json").read_text() == before
