"""Hugging Face folders, our own, and what is refused."""

import dataclasses
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from specdec_jax import lm
from specdec_jax.lm import llama
from tests.lm import tiny as lm_tiny
from tests.lm.llama import tiny

WEIGHTS = "model.safetensors"


@pytest.fixture
def copy(golden, tmp_path):
  """Copies a golden folder, to be changed."""

  def copy(name):
    return shutil.copytree(golden / name, tmp_path / name)

  return copy


def edit_config(path, **changes):
  file = path / "config.json"
  file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def edit_weights(path, function):
  weights = load_file(path / WEIGHTS)
  function(weights)
  save_file(weights, path / WEIGHTS)


def refused(match, path, name=None, **options):
  with pytest.raises(ValueError, match=match) as caught:
    llama.load(name, path, **options)
  return str(caught.value)


def assert_equal(params, expected):
  assert jax.tree.structure(params) == jax.tree.structure(expected)
  for one, other in zip(
    jax.tree.leaves(params), jax.tree.leaves(expected), strict=True
  ):
    assert one.dtype == other.dtype
    np.testing.assert_array_equal(one, other)


def test_shards_are_the_one_file(golden):
  model, params = llama.load(None, golden / "gqa")
  sharded, others = llama.load(None, golden / "gqa_sharded")
  assert model == sharded
  assert_equal(others, params)


def test_the_config_given_is_the_checkpoints(golden):
  model, _ = llama.load(None, golden / "llama3")
  assert model.config.rope_scaling == llama.Llama3Scaling(8.0, 1.0, 4.0, 48)
  # What fills up prompts is no property of the weights.
  given = dataclasses.replace(model.config, pad_id=5)
  assert llama.load(given, golden / "llama3")[0].config == given
  refused("rope_theta: 500.0 in the checkpoint, 300.0", golden / "llama3",
          dataclasses.replace(given, rope_theta=300.0))  # fmt: skip
  refused("emb_dim: 32 in .*, 2048 asked for", golden / "llama3",
          "llama_3_2_1b")  # fmt: skip


def test_weights_in_bfloat16(copy):
  path = copy("gqa")
  _, params = llama.load(None, path)

  def rounded(weights):
    for name, array in weights.items():
      weights[name] = np.asarray(jnp.asarray(array, jnp.bfloat16))

  edit_weights(path, rounded)
  _, found = llama.load(None, path)
  assert_equal(
    found,
    jax.tree.map(lambda x: x.astype(jnp.bfloat16).astype(jnp.float32), params),
  )


def test_rotations_of_early_releases_are_not_needed(copy):
  path = copy("gqa")
  _, params = llama.load(None, path)
  name = "model.layers.1.self_attn.rotary_emb.inv_freq"
  edit_weights(path, lambda each: each.update({name: np.ones(4, np.float32)}))
  assert_equal(llama.load(None, path)[1], params)


def test_a_tied_head_may_be_stored_if_it_is_the_embedding(copy):
  path = copy("llama3")
  _, params = llama.load(None, path)
  embedding = "model.embed_tokens.weight"

  def add_head(weights):
    weights["lm_head.weight"] = weights[embedding].copy()

  edit_weights(path, add_head)
  assert_equal(llama.load(None, path)[1], params)

  def change_head(weights):
    weights["lm_head.weight"][3] += 1

  edit_weights(path, change_head)
  refused('differs from model.embed.* "tie_word_embeddings": true', path)


def test_an_untied_head_must_be_stored(copy):
  path = copy("gqa")
  edit_weights(path, lambda each: each.pop("lm_head.weight"))
  refused("1 missing: decoder/logits_dense/kernel", path)


def test_what_does_not_fit_is_named(copy):
  path = copy("gqa")
  edit_config(path, num_hidden_layers=3)
  assert "9 missing: decoder/layers_2/mlp/wi_0" in refused("does not fit", path)
  edit_config(path, num_hidden_layers=2, num_key_value_heads=3)
  refused(r"key/kernel is \[24, 16\] and should be \[24, 24\]", path)
  edit_config(path, num_key_value_heads=2)
  bias = "model.layers.0.self_attn.q_proj.bias"
  edit_weights(path, lambda each: each.update({bias: np.ones(48, np.float32)}))
  refused(rf"1 unexpected: {bias} \[48\]", path)


def test_folders_that_hold_something_else(copy, tmp_path):
  with pytest.raises(FileNotFoundError, match="nowhere"):
    llama.load(None, tmp_path / "nowhere")
  (tmp_path / "empty").mkdir()
  refused("no config.json of Hugging Face or of llama.save", tmp_path / "empty")
  path = copy("gqa")
  (path / WEIGHTS).rename(path / "pytorch_model.bin")
  refused(
    "holds no model.safetensors or model.safetensors.index.json, only"
    ".*pytorch_model.bin.*AutoModelForCausalLM",
    path,
  )
  path = copy("gqa_sharded")
  (path / "model-00003-of-00008.safetensors").unlink()
  refused("lacks the shard model-00003-of-00008", path)


def test_what_the_network_has_not_is_refused_before_weights_are_opened(copy):
  path = copy("gqa")
  (path / WEIGHTS).unlink()
  edit_config(path, attention_bias=True)
  refused("attention_bias=True", path)
  refused("float16.*bfloat16", path, dtype="float16")


def test_our_own_round_trip(tmp_path):
  params = lm_tiny.params(tiny.TARGET)
  llama.save(tmp_path / "saved", tiny.TARGET, params)
  model, loaded = llama.load(None, tmp_path / "saved")
  assert model == tiny.TARGET
  assert_equal(loaded, params)
  # Scaling of the other kind comes back too.
  config = dataclasses.replace(
    tiny.DRAFT.config, rope_scaling=llama.LinearScaling(2.0)
  )
  llama.save(
    tmp_path / "draft", llama.LlamaModel(config), lm_tiny.params(tiny.DRAFT)
  )
  assert llama.load(None, tmp_path / "draft")[0].config == config
  with pytest.raises(ValueError, match="call specdec_jax.lm.llama.load"):
    lm.load(None, tmp_path / "saved")
