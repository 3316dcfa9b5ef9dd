"""Whatever does not fit is refused, with the name, the value and the fix."""

import dataclasses
import json
import os
import shutil

import flax.serialization
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from specdec_jax import t5
from tests.t5.golden_cases import T5X_1_0, T5X_1_1, T5X_SCALABLE

LEGACY = "t5x/legacy/{}/checkpoint_1000"
WEIGHTS = "model.safetensors"


@pytest.fixture
def copy(golden, tmp_path):
  """Copies a golden folder, to be damaged."""

  def copy(path):
    return shutil.copytree(golden / path, tmp_path / "copy")

  return copy


def edit_config(path, **changes):
  contents = json.loads((path / "config.json").read_text())
  (path / "config.json").write_text(json.dumps({**contents, **changes}))


def refused(match, name, path, **kwargs):
  with pytest.raises(ValueError, match=match) as caught:
    t5.load(name, path, **kwargs)
  return str(caught.value)


# Arguments.


def test_unknown_name(golden):
  message = refused("t5_1_1_tiny", "t5_1_1_tiny", golden / "huggingface/t5_1_1")
  assert "t5_1_1_small" in message


def test_name_of_another_type(golden, unchecked):
  refused("name is 7", 7, golden / "huggingface/t5_1_1")


@pytest.mark.parametrize("dtype", ["float16", jnp.float16, np.float16])
def test_float16(dtype, golden):
  message = refused("float16", None, golden / "huggingface/t5_1_1", dtype=dtype)
  assert "bfloat16" in message


@pytest.mark.parametrize("dtype", ["int8", "float64", "half a float"])
def test_other_dtypes(dtype, golden):
  refused(dtype, None, golden / "huggingface/t5_1_1", dtype=dtype)


def test_no_such_folder(tmp_path):
  with pytest.raises(FileNotFoundError, match="nowhere"):
    t5.load("t5_1_1_small", tmp_path / "nowhere")


def test_empty_folder(tmp_path):
  message = refused("holds no checkpoint", "t5_1_1_small", tmp_path)
  assert "nothing" in message
  assert str(tmp_path) in message


def test_folder_of_something_else(tmp_path):
  (tmp_path / "notes.txt").write_text("")
  assert "notes.txt" in refused("holds no checkpoint", None, tmp_path)


def test_a_file(golden):
  refused("is a file", None, golden / "huggingface/t5_1_1" / WEIGHTS)


@pytest.mark.parametrize("layout", ["legacy", "orbax"])
def test_t5x_needs_a_name(layout, golden):
  path = golden / f"t5x/{layout}/t5_1_1_tiny"
  message = refused("name is None", None, path)
  assert "Pass the model's name" in message
  assert str(path) in message


# Another model than the name says.


def test_name_disagrees_with_huggingface(golden):
  path = golden / "huggingface/t5_1_1"
  message = refused("vocab_size: 320", "t5_1_1_small", path)
  assert "vocab_size: 320 in the checkpoint, 32128 asked for" in message
  assert "emb_dim: 24 in the checkpoint, 512 asked for" in message
  assert "dropout_rate" not in message
  assert str(path) in message


def test_config_disagrees_with_our_own(tiny, tmp_path):
  t5.save(tmp_path / "saved", *tiny)
  other = dataclasses.replace(T5X_1_1, num_decoder_layers=4)
  message = refused("num_decoder_layers: 3", other, tmp_path / "saved")
  assert "3 in the checkpoint, 4 asked for" in message
  assert "mlp_dim" not in message


def test_wrong_size_of_t5x(golden):
  path = golden / LEGACY.format("t5_1_1_tiny")
  message = refused("does not fit", "t5_1_1_small", path)
  assert "of another shape: decoder/decoder_norm/scale is [16]" in message
  assert "should be [512]" in message
  assert "layers_3" in message
  assert "more" in message
  assert "Pass the name" in message
  assert str(path) in message


def test_wrong_version_of_t5x(golden):
  message = refused(
    "does not fit", T5X_1_0, golden / LEGACY.format("t5_1_1_tiny")
  )
  assert "5 missing: decoder/layers_0/mlp/wi/kernel" in message
  assert "11 unexpected: decoder/layers_0/mlp/wi_0/kernel" in message


def test_one_table_is_not_one_per_layer(golden):
  scanned = golden / LEGACY.format("scalable_t5_1_1_tiny_scan")
  message = refused("does not fit", T5X_1_1, scanned)
  assert "2 missing: decoder/relpos_bias/rel_embedding" in message
  assert "5 unexpected: decoder/layers_0/relpos_bias" in message
  assert "5 missing" in refused(
    "does not fit", T5X_SCALABLE, golden / LEGACY.format("t5_1_1_tiny")
  )


def test_heads_of_another_width(golden):
  """The folded matrix would have the right shape."""
  swapped = dataclasses.replace(T5X_SCALABLE, num_heads=8, head_dim=4)
  message = refused(
    "does not fit",
    swapped,
    golden / LEGACY.format("scalable_t5_1_1_tiny_scan"),
  )
  assert "attention/key/kernel is [16, 4, 8] and should be [16, 32]" in message


def test_another_number_of_scanned_layers(golden):
  deeper = dataclasses.replace(T5X_SCALABLE, num_decoder_layers=4)
  assert "missing: decoder/layers_3" in refused(
    "does not fit", deeper, golden / LEGACY.format("scalable_t5_1_1_tiny_scan")
  )


# Arrays missing, added, of other shapes or types.


@pytest.fixture
def edit_weights(copy):
  """Changes the tensors of a Hugging Face folder."""

  def edit(function, name="t5_1_1"):
    path = copy(f"huggingface/{name}")
    weights = load_file(path / WEIGHTS)
    function(weights)
    save_file(weights, path / WEIGHTS)
    return path

  return edit


WI_0 = "encoder.block.1.layer.1.DenseReluDense.wi_0.weight"


def test_missing_array(edit_weights):
  path = edit_weights(lambda weights: weights.pop(WI_0))
  message = refused("does not fit", None, path)
  assert "1 missing: encoder/layers_1/mlp/wi_0/kernel" in message
  assert "unexpected" not in message
  assert "another shape" not in message
  assert str(path) in message


def test_missing_head(edit_weights):
  """Not the embedding in its place, whatever the file says is tied."""
  path = edit_weights(lambda weights: weights.pop("lm_head.weight"))
  assert "1 missing: decoder/logits_dense/kernel" in refused(
    "does not fit", None, path
  )


def test_missing_embedding(edit_weights):
  path = edit_weights(lambda weights: weights.pop("shared.weight"))
  assert "1 missing: token_embedder/embedding" in refused(
    "does not fit", None, path
  )


def test_array_that_no_one_knows(edit_weights):
  extra = np.zeros((3, 4), np.float32)
  path = edit_weights(lambda weights: weights.update({"adapter.weight": extra}))
  assert "1 unexpected: adapter.weight [3, 4]" in refused(
    "does not fit", None, path
  )


def test_more_layers_than_the_config_has(copy):
  path = copy("huggingface/t5_1_1")
  edit_config(path, num_layers=2)
  assert "9 unexpected: encoder/layers_2/" in refused(
    "does not fit", None, path
  )


def test_array_of_another_shape(edit_weights):
  def transpose(weights):
    weights[WI_0] = np.ascontiguousarray(weights[WI_0].T)

  assert (
    "1 of another shape: encoder/layers_1/mlp/wi_0/kernel is [48, 24] and"
    " should be [24, 48]"
  ) in refused("does not fit", None, edit_weights(transpose))


def test_quantised_array(edit_weights):
  path = edit_weights(
    lambda weights: weights.update({WI_0: weights[WI_0].astype(np.int8)})
  )
  assert WI_0 in refused("stored as int8", None, path)


def test_embeddings_that_differ(edit_weights):
  copy = "decoder.embed_tokens.weight"
  path = edit_weights(
    lambda weights: weights.update({copy: 2 * weights["shared.weight"]})
  )
  assert copy in refused("different values", None, path)


def test_head_that_the_config_denies(copy):
  """Version 5 of transformers and an mT5 of version 4 meet so."""
  path = copy("huggingface/t5_1_1")
  edit_config(path, scale_decoder_outputs=True)
  message = refused("lm_head.weight that differs", None, path)
  assert '"scale_decoder_outputs": false' in message


# Configs.


@pytest.mark.parametrize(
  ("changes", "match"),
  [
    ({"model_type": "bart"}, "model_type 'bart'"),
    ({"model_type": None}, "model_type None"),
    ({"d_ff": None}, "d_ff=None"),
    ({"feed_forward_proj": "gated-swish"}, "feed_forward_proj='gated-swish'"),
    ({"layer_norm_epsilon": 1e-5}, "layer_norm_epsilon=1e-05"),
    ({"num_heads": 0}, "num_heads is 0"),
  ],
)
def test_config_of_huggingface(changes, match, copy):
  path = copy("huggingface/t5_1_1")
  edit_config(path, **changes)
  refused(match, None, path)


@pytest.mark.parametrize("text", ["", "{", "[1]"])
def test_config_that_is_no_json(text, copy):
  path = copy("huggingface/t5_1_1")
  (path / "config.json").write_text(text)
  assert "damaged" in refused("config.json", None, path)


def test_our_config_of_a_later_version(tiny, tmp_path):
  path = tmp_path / "saved"
  t5.save(path, *tiny)
  edit_config(path, version=2)
  refused("version 2", None, path)


def test_our_config_with_unknown_fields(tiny, tmp_path):
  path = tmp_path / "saved"
  t5.save(path, *tiny)
  edit_config(path, config={"experts": 8})
  assert "config.json" in refused("experts", None, path)


# Files damaged or missing.


def truncate(file, keep=0.5):
  os.truncate(file, int(file.stat().st_size * keep))


@pytest.mark.parametrize("keep", [0.0, 0.001, 0.5, 0.999])
def test_truncated_safetensors(keep, copy):
  path = copy("huggingface/t5_1_1")
  truncate(path / WEIGHTS, keep)
  assert "damaged" in refused(WEIGHTS, None, path)


def test_truncated_shard(copy):
  path = copy("huggingface/t5_1_1_sharded")
  shard = sorted(path.glob("*.safetensors"))[3]
  truncate(shard)
  assert "damaged" in refused(shard.name, None, path)


def test_missing_shard(copy):
  path = copy("huggingface/t5_1_1_sharded")
  shard = sorted(path.glob("*.safetensors"))[3]
  shard.unlink()
  assert "lacks the shard" in refused(shard.name, None, path)


def test_shard_of_another_checkpoint(copy):
  path = copy("huggingface/t5_1_1_sharded")
  one, other = sorted(path.glob("*.safetensors"))[3:5]
  shutil.copy(one, other)
  assert "lacks" in refused(other.name, None, path)


def test_index_without_a_map(copy):
  path = copy("huggingface/t5_1_1_sharded")
  (path / "model.safetensors.index.json").write_text("{}")
  refused("index.json: it has no weight_map", None, path)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "tf_model.h5"])
def test_weights_of_another_library_only(name, copy):
  path = copy("huggingface/t5_1_1")
  (path / WEIGHTS).rename(path / name)
  message = refused(name, None, path)
  assert "save_pretrained" in message


def test_truncated_flax_weights(copy):
  path = copy("huggingface/t5_1_1")
  (path / WEIGHTS).unlink()
  contents = flax.serialization.msgpack_serialize({"shared": np.zeros(99)})
  (path / "flax_model.msgpack").write_bytes(contents[:50])
  assert "damaged" in refused("flax_model.msgpack", None, path)


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_truncated_msgpack(keep, copy):
  path = copy(LEGACY.format("t5_1_1_tiny"))
  truncate(path / "checkpoint", keep)
  assert "damaged" in refused("/checkpoint: ", T5X_1_1, path)


def test_msgpack_without_parameters(tmp_path):
  (tmp_path / "checkpoint").write_bytes(
    flax.serialization.msgpack_serialize({"version": 3, "optimizer": {"a": 1}})
  )
  refused("no 'target'", T5X_1_1, tmp_path)


ARRAY = "target.decoder.layers_1.mlp.wi_0.kernel"


def test_missing_zarr_array(copy):
  path = copy(LEGACY.format("t5_1_1_tiny"))
  shutil.rmtree(path / ARRAY)
  message = refused("decoder/layers_1/mlp/wi_0/kernel", T5X_1_1, path)
  assert ARRAY in message
  assert "damaged or incomplete" in message


def test_missing_zarr_chunk(copy):
  """It would read as zeros."""
  path = copy(LEGACY.format("t5_1_1_tiny"))
  (path / ARRAY / "0.0").unlink()
  message = refused("decoder/layers_1/mlp/wi_0/kernel", T5X_1_1, path)
  assert ARRAY in message


def test_truncated_zarr_chunk(copy):
  path = copy(LEGACY.format("t5_1_1_tiny"))
  truncate(path / ARRAY / "0.0")
  message = refused("decoder/layers_1/mlp/wi_0/kernel", T5X_1_1, path)
  assert ARRAY in message


@pytest.mark.parametrize("damage", [os.unlink, truncate])
def test_damaged_orbax(damage, copy):
  path = copy("t5x/orbax/t5_1_1_tiny/checkpoint_1000")
  for file in (path / "state" / "ocdbt.process_0" / "d").iterdir():
    damage(file)
  assert "damaged or incomplete" in refused(str(path), T5X_1_1, path)


def test_empty_orbax_state(copy):
  path = copy("t5x/orbax/t5_1_1_tiny/checkpoint_1000")
  shutil.rmtree(path / "state")
  (path / "state").mkdir()
  assert "missing" in refused("does not fit", T5X_1_1, path)


@pytest.mark.parametrize("damage", [os.unlink, truncate])
def test_damaged_save(damage, tiny, tmp_path):
  path = tmp_path / "saved"
  t5.save(path, *tiny)
  for file in (path / "params").rglob("d/*"):
    damage(file)
  assert "damaged or incomplete" in refused(str(path), None, path)


def test_save_without_its_arrays(tiny, tmp_path):
  path = tmp_path / "saved"
  t5.save(path, *tiny)
  shutil.rmtree(path / "params")
  assert "missing" in refused("does not fit", None, path)


# Saving.


def test_saving_the_parameters_of_another_model(tiny, tmp_path):
  _, params = tiny
  with pytest.raises(ValueError, match="does not fit") as caught:
    t5.save(tmp_path / "saved", t5.T5Model(T5X_1_0), params)
  assert "decoder/layers_0/mlp/wi/kernel" in str(caught.value)
  assert not (tmp_path / "saved").exists()


def test_saving_in_float16(tiny, tmp_path):
  with pytest.raises(ValueError, match="float16"):
    t5.save(tmp_path / "saved", *tiny, dtype="float16")
  assert not (tmp_path / "saved").exists()
