"""What may differ between checkpoints of the same weights, and `save`."""

import dataclasses
import functools
import json
import shutil

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util
from safetensors.numpy import load_file, save_file

from specdec_jax import t5
from specdec_jax.t5.checkpoints import zarr
from tests.t5.golden_cases import (
  CASES,
  T5X_1_0,
  T5X_1_1,
  T5X_SCALABLE,
  random_params,
)

LEGACY = "t5x/legacy/{}/checkpoint_1000"


def assert_equal(params, expected):
  assert jax.tree.structure(params) == jax.tree.structure(expected)
  for one, other in zip(
    jax.tree.leaves(params), jax.tree.leaves(expected), strict=True
  ):
    assert one.dtype == other.dtype
    np.testing.assert_array_equal(one, other)


def edit_json(path, **changes):
  """Changes keys of a JSON file; None removes one."""
  contents = {**json.loads(path.read_text()), **changes}
  contents = {k: v for k, v in contents.items() if v is not None}
  path.write_text(json.dumps(contents))


# Our own.


@pytest.mark.parametrize("case", CASES, ids=str)
def test_round_trip_is_exact(case, golden, tmp_path):
  model, params = t5.load(case.name, golden / case.path)
  t5.save(tmp_path / "saved", model, params)
  loaded, loaded_params = t5.load(None, tmp_path / "saved")
  assert loaded == model
  assert_equal(loaded_params, params)


def test_round_trip_in_bfloat16(tiny, tmp_path):
  model, params = tiny
  t5.save(tmp_path / "saved", model, params, dtype="bfloat16")
  _, loaded = t5.load(None, tmp_path / "saved", dtype="bfloat16")
  dtypes = {
    name: leaf.dtype
    for name, leaf in traverse_util.flatten_dict(loaded, sep="/").items()
  }
  for name, dtype in dtypes.items():
    small = name.endswith(("scale", "rel_embedding"))
    assert dtype == (jnp.float32 if small else jnp.bfloat16), name
  assert jnp.bfloat16 in dtypes.values()
  assert jnp.float32 in dtypes.values()
  expected = jax.tree.map(
    lambda leaf, like: leaf.astype(like.dtype), params, loaded
  )
  assert_equal(loaded, expected)
  # Held in bfloat16, saved as it is, read in float32: nothing more is lost.
  t5.save(tmp_path / "again", model, loaded)
  _, again = t5.load(None, tmp_path / "again")
  assert_equal(again, jax.tree.map(lambda leaf: leaf.astype("f4"), loaded))


def test_bfloat16_halves_the_files(tmp_path):
  model = t5.T5Model(dataclasses.replace(T5X_1_1, vocab_size=2**16))
  params = random_params(model)

  def size(path):
    return sum(
      each.stat().st_size for each in path.rglob("*") if each.is_file()
    )

  t5.save(tmp_path / "float32", model, params)
  t5.save(tmp_path / "bfloat16", model, params, dtype="bfloat16")
  assert size(tmp_path / "bfloat16") < 0.6 * size(tmp_path / "float32")


def test_files_stay_small(tmp_path):
  model = t5.T5Model(dataclasses.replace(T5X_1_1, vocab_size=2**20))
  params = random_params(model)
  assert params["token_embedder"]["embedding"].nbytes > 60e6
  t5.save(tmp_path / "saved", model, params)
  sizes = [each.stat().st_size for each in tmp_path.rglob("*")]
  assert sum(sizes) > 100e6
  assert max(sizes) < 45e6


def test_dtype_is_the_configs_unless_given(tiny, tmp_path):
  model, params = tiny
  t5.save(tmp_path / "saved", model, params)
  bfloat16 = dataclasses.replace(T5X_1_1, dtype="bfloat16")
  load = functools.partial(t5.load, path=tmp_path / "saved")
  assert load(None)[0].config.dtype == "float32"
  assert load(bfloat16)[0].config.dtype == "bfloat16"
  assert load(bfloat16, dtype="float32")[0].config.dtype == "float32"
  assert load(None, dtype=jnp.bfloat16)[0].config.dtype == "bfloat16"


def test_overwrite(tiny, tmp_path):
  model, params = tiny
  path = tmp_path / "saved"
  t5.save(path, model, params)
  doubled = jax.tree.map(lambda leaf: 2 * leaf, params)
  with pytest.raises(FileExistsError, match="overwrite=True"):
    t5.save(path, model, doubled)
  assert_equal(t5.load(None, path)[1], params)
  t5.save(path, model, doubled, overwrite=True)
  assert_equal(t5.load(None, path)[1], doubled)
  assert [each.name for each in tmp_path.iterdir()] == ["saved"]


def test_overwrite_spares_what_is_not_ours(tiny, tmp_path):
  (tmp_path / "notes.txt").write_text("mine")
  with pytest.raises(FileExistsError, match="something else"):
    t5.save(tmp_path, *tiny, overwrite=True)
  assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("overwrite", [False, True])
def test_interrupted_save_is_no_checkpoint(
  tiny, tmp_path, monkeypatch, overwrite
):
  model, params = tiny
  path = tmp_path / "saved"
  if overwrite:
    t5.save(path, model, params)

  def interrupt(*_):
    raise KeyboardInterrupt

  # By then all arrays are on disk.
  monkeypatch.setattr("specdec_jax.t5.checkpoints.ours.to_json", interrupt)
  doubled = jax.tree.map(lambda leaf: 2 * leaf, params)
  with pytest.raises(KeyboardInterrupt):
    t5.save(path, model, doubled, overwrite=overwrite)
  if overwrite:
    assert_equal(t5.load(None, path)[1], params)
  else:
    assert not path.exists()
  assert len(list(tmp_path.iterdir())) == overwrite


# Hugging Face.


@pytest.fixture
def huggingface(golden, tmp_path):
  """Copies of the golden folders, to be changed."""

  def copy(name):
    return shutil.copytree(golden / "huggingface" / name, tmp_path / name)

  return copy


def test_config_from_huggingface(golden):
  model, _ = t5.load(None, golden / "huggingface/t5_1_1")
  assert model.config == t5.T5Config(
    vocab_size=320,
    emb_dim=24,
    num_heads=3,
    num_encoder_layers=3,
    num_decoder_layers=3,
    head_dim=8,
    mlp_dim=48,
    mlp_activations=("gelu", "linear"),
    logits_via_embedding=False,
    dropout_rate=0.0,
  )
  model, _ = t5.load(None, golden / "huggingface/t5_1_0")
  assert model.config.mlp_activations == ("relu",)
  assert model.config.logits_via_embedding


@pytest.mark.parametrize("name", ["t5_1_0", "t5_1_1"])
def test_shards_hold_the_same(name, golden):
  whole = t5.load(None, golden / "huggingface" / name)
  shards = t5.load(None, golden / "huggingface" / f"{name}_sharded")
  assert shards[0] == whole[0]
  assert_equal(shards[1], whole[1])


@pytest.mark.parametrize(
  ("name", "flags"),
  [
    # As transformers up to 4 wrote them, and as they lie on the hub.
    ("t5_1_1", {"tie_word_embeddings": False}),
    ("t5_1_0", {"tie_word_embeddings": None, "feed_forward_proj": None}),
    ("t5_1_0", {"tie_word_embeddings": True}),
  ],
)
def test_old_flags(name, flags, golden, huggingface):
  path = huggingface(name)
  edit_json(
    path / "config.json",
    scale_decoder_outputs=None,
    is_gated_act=None,
    dense_act_fn=None,
    relative_attention_max_distance=None,
    transformers_version="4.30.0",
    **flags,
  )
  expected = t5.load(None, golden / "huggingface" / name)
  loaded = t5.load(None, path)
  assert loaded[0] == expected[0]
  assert_equal(loaded[1], expected[1])


def test_decoder_layers_default_to_the_encoders(golden, huggingface):
  path = huggingface("t5_1_0")
  edit_json(path / "config.json", num_decoder_layers=None)
  assert (
    t5.load(None, path)[0] == t5.load(None, golden / "huggingface/t5_1_0")[0]
  )


def test_embedding_under_other_names(golden, huggingface):
  """Torch saves a tied matrix under one of its names, or under all."""
  _, expected = t5.load(None, golden / "huggingface/t5_1_0")
  path = huggingface("t5_1_0")
  weights = load_file(path / "model.safetensors")
  copies = {
    name: weights["shared.weight"].copy()
    for name in (
      "encoder.embed_tokens.weight",
      "decoder.embed_tokens.weight",
      "lm_head.weight",
    )
  }
  save_file({**weights, **copies}, path / "model.safetensors")
  assert_equal(t5.load(None, path)[1], expected)
  del weights["shared.weight"]
  save_file({**weights, **copies}, path / "model.safetensors")
  assert_equal(t5.load(None, path)[1], expected)


def test_unused_table_of_an_early_release(golden, huggingface):
  _, expected = t5.load(None, golden / "huggingface/t5_1_0")
  path = huggingface("t5_1_0")
  weights = load_file(path / "model.safetensors")
  name = (
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
  )
  weights[name] = np.zeros((32, 3), np.float32)
  save_file(weights, path / "model.safetensors")
  assert_equal(t5.load(None, path)[1], expected)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16])
def test_half_precision_files(dtype, golden, huggingface):
  _, expected = t5.load(None, golden / "huggingface/t5_1_1")
  path = huggingface("t5_1_1")
  weights = load_file(path / "model.safetensors")
  save_file(
    {name: array.astype(dtype) for name, array in weights.items()},
    path / "model.safetensors",
  )
  _, params = t5.load(None, path)
  assert_equal(
    params,
    jax.tree.map(lambda leaf: leaf.astype(dtype).astype("f4"), expected),
  )


def test_flax_weights(golden, huggingface):
  _, expected = t5.load(None, golden / "huggingface/t5_1_1")
  path = huggingface("t5_1_1")
  flat = {}
  for name, array in load_file(path / "model.safetensors").items():
    module = name.removesuffix(".weight")
    if module.endswith(("shared", "relative_attention_bias")):
      flat[f"{module}.embedding"] = array
    elif module.endswith("layer_norm"):
      flat[name] = array
    else:
      flat[f"{module}.kernel"] = array.T.copy()
  tree = traverse_util.unflatten_dict(flat, sep=".")
  (path / "model.safetensors").unlink()
  (path / "flax_model.msgpack").write_bytes(
    flax.serialization.msgpack_serialize(tree)
  )
  assert_equal(t5.load(None, path)[1], expected)


def test_umt5_has_a_table_in_each_layer(golden, tmp_path):
  """T5X's scalable model, written as Hugging Face's umT5."""
  model, params = t5.load(
    T5X_SCALABLE, golden / LEGACY.format("scalable_t5_1_1_tiny_scan")
  )
  config = model.config
  save_file(as_huggingface(params), tmp_path / "model.safetensors")
  (tmp_path / "config.json").write_text(
    json.dumps(
      {
        "model_type": "umt5",
        "vocab_size": config.vocab_size,
        "d_model": config.emb_dim,
        "d_kv": config.head_dim,
        "d_ff": config.mlp_dim,
        "num_heads": config.num_heads,
        "num_layers": config.num_encoder_layers,
        "num_decoder_layers": config.num_decoder_layers,
        "relative_attention_num_buckets": 32,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
        "dropout_rate": 0.0,
      }
    )
  )
  loaded, loaded_params = t5.load(None, tmp_path)
  assert loaded == model
  assert_equal(loaded_params, params)


def as_huggingface(params):
  """The torch names of version 1.1, with a table in each layer."""
  tensors = {
    "shared.weight": params["token_embedder"]["embedding"],
    "lm_head.weight": params["decoder"]["logits_dense"]["kernel"].T,
  }

  def attention(prefix, layer):
    for name, matrix in layer.items():
      letter = "o" if name == "out" else name[0]
      tensors[f"{prefix}.{letter}.weight"] = matrix["kernel"].T

  for stack in ("encoder", "decoder"):
    tree = params[stack]
    final = tree[f"{stack}_norm"]["scale"]
    tensors[f"{stack}.final_layer_norm.weight"] = final
    for i in range(sum(name.startswith("layers_") for name in tree)):
      layer = tree[f"layers_{i}"]
      block = f"{stack}.block.{i}.layer"
      own = "attention" if stack == "encoder" else "self_attention"
      norms = [f"pre_{own}_layer_norm", "pre_mlp_layer_norm"]
      attention(f"{block}.0.SelfAttention", layer[own])
      table = layer["relpos_bias"]["rel_embedding"].T
      table_name = f"{block}.0.SelfAttention.relative_attention_bias.weight"
      tensors[table_name] = table
      if stack == "decoder":
        norms.insert(1, "pre_cross_attention_layer_norm")
        cross = layer["encoder_decoder_attention"]
        attention(f"{block}.1.EncDecAttention", cross)
      for position, norm in enumerate(norms):
        name = f"{block}.{position}.layer_norm.weight"
        tensors[name] = layer[norm]["scale"]
      for name, matrix in layer["mlp"].items():
        tensors[f"{block}.{len(norms) - 1}.DenseReluDense.{name}.weight"] = (
          matrix["kernel"].T
        )
  # Contiguous, since safetensors writes the memory as it lies.
  return {name: np.array(each, order="C") for name, each in tensors.items()}


# T5X.


@pytest.mark.parametrize("name", ["t5_1_0_tiny", "t5_1_1_tiny"])
def test_orbax_holds_the_same_as_legacy(name, golden):
  config = T5X_1_0 if name == "t5_1_0_tiny" else T5X_1_1
  _, legacy = t5.load(config, golden / LEGACY.format(name))
  _, orbax = t5.load(config, golden / f"t5x/orbax/{name}/checkpoint_1000")
  assert_equal(orbax, legacy)


def test_latest_step(golden, tmp_path):
  """Of a run's folder; unfinished checkpoints have other names."""
  shutil.copytree(
    golden / LEGACY.format("t5_1_1_tiny"), tmp_path / "checkpoint_9"
  )
  newest = golden / "t5x/legacy_bf16/t5_1_1_tiny/checkpoint_1000"
  shutil.copytree(newest, tmp_path / "checkpoint_10")
  (tmp_path / "checkpoint_11.tmp-1234").mkdir()
  (tmp_path / "config.gin").write_text("")
  _, params = t5.load(T5X_1_1, tmp_path)
  assert_equal(params, t5.load(T5X_1_1, newest)[1])


@pytest.fixture
def legacy(golden, tmp_path):
  """A copy of a legacy checkpoint, and a function that changes its leaves."""
  path = shutil.copytree(
    golden / LEGACY.format("t5_1_1_tiny"), tmp_path / "checkpoint_1000"
  )
  file = path / "checkpoint"

  def change(leaf_function, tree_function=lambda tree: tree):
    tree = flax.serialization.msgpack_restore(file.read_bytes())
    target = jax.tree.map(
      leaf_function,
      tree["optimizer"]["target"],
      is_leaf=lambda leaf: "kvstore" in leaf,
    )
    tree["optimizer"]["target"] = target
    file.write_bytes(flax.serialization.msgpack_serialize(tree_function(tree)))

  return path, change


@pytest.mark.parametrize("driver", ["gfile", "gcs"])
def test_written_elsewhere(driver, golden, legacy):
  """The driver and the bucket of the writer do not matter."""
  path, change = legacy

  def elsewhere(leaf):
    kvstore = {**leaf["kvstore"], "driver": driver}
    if driver == "gcs":
      kvstore["bucket"] = "t5x-dummy-bucket"
    return {**leaf, "kvstore": kvstore}

  change(elsewhere)
  expected = t5.load(T5X_1_1, golden / LEGACY.format("t5_1_1_tiny"))
  assert_equal(t5.load(T5X_1_1, path)[1], expected[1])


def test_path_beside_the_kvstore(golden, legacy):
  """As an old tensorstore wrote it."""
  path, change = legacy
  change(
    lambda leaf: {
      **leaf,
      "kvstore": {"driver": "file"},
      "path": leaf["kvstore"]["path"],
    }
  )
  expected = t5.load(T5X_1_1, golden / LEGACY.format("t5_1_1_tiny"))
  assert_equal(t5.load(T5X_1_1, path)[1], expected[1])


@pytest.mark.parametrize("version", [0, 3])
def test_arrays_inside_the_msgpack(version, golden, legacy):
  """Small arrays lie there; version 0 has no optimizer around them."""
  path, change = legacy
  _, expected = t5.load(T5X_1_1, golden / LEGACY.format("t5_1_1_tiny"))
  arrays = traverse_util.flatten_dict(expected, sep="/")

  def inlined(leaf):
    name = leaf["kvstore"]["path"].strip("/").removeprefix("target.")
    shutil.rmtree(path / leaf["kvstore"]["path"])
    return np.asarray(arrays[name.replace(".", "/")])

  change(inlined, lambda tree: tree if version else tree["optimizer"])
  assert_equal(t5.load(T5X_1_1, path)[1], expected)


def test_uint16_is_bfloat16(golden, legacy):
  """As version 2 stored it, before zarr had the type."""
  path, change = legacy
  bfloat16 = golden / "t5x/legacy_bf16/t5_1_1_tiny/checkpoint_1000"
  _, expected = t5.load(T5X_1_1, bfloat16)
  arrays = traverse_util.flatten_dict(expected, sep="/")

  def bits(leaf):
    name = leaf["kvstore"]["path"].strip("/").removeprefix("target.")
    array = arrays[name.replace(".", "/")].astype(jnp.bfloat16)
    return np.asarray(array).view(np.uint16)

  change(bits)
  assert_equal(t5.load(T5X_1_1, path)[1], expected)


@pytest.mark.parametrize("scanned", [False, True])
def test_scalable_layouts(scanned, golden, tmp_path):
  """Heads apart, layers stacked or not, against the scanned original."""
  _, expected = t5.load(
    T5X_SCALABLE, golden / LEGACY.format("scalable_t5_1_1_tiny_scan")
  )
  flat = traverse_util.flatten_dict(expected, sep="/")
  heads = (T5X_SCALABLE.num_heads, T5X_SCALABLE.head_dim)

  def apart(name, array):
    array = np.asarray(array)
    if name.endswith("out/kernel"):
      return array.reshape(*heads, -1)
    if "attention/" in name and name.endswith("kernel"):
      return array.reshape(-1, *heads)
    return array

  stored = {name: apart(name, array) for name, array in flat.items()}
  if scanned:
    stored = stack_layers(stored)
  tree = {
    "version": 3,
    "optimizer": {
      "target": traverse_util.unflatten_dict(stored, sep="/"),
      "state": {"step": 7},
    },
  }
  (tmp_path / "checkpoint").write_bytes(
    flax.serialization.msgpack_serialize(tree)
  )
  assert_equal(t5.load(T5X_SCALABLE, tmp_path)[1], expected)


def stack_layers(flat):
  stacks = {}
  for name, array in flat.items():
    parts = name.split("/")
    if parts[1].startswith("layers_"):
      parts[1] = parts[0]
      stacks.setdefault("/".join(parts), []).append(array)
    else:
      stacks[name] = array
  return {
    name: np.stack(each, axis=1) if isinstance(each, list) else each
    for name, each in stacks.items()
  }


# Paths.


@pytest.mark.parametrize(
  ("path", "expected"),
  [
    (
      "gs://bucket/runs/checkpoint_1000",
      {"driver": "gcs", "bucket": "bucket", "path": "runs/checkpoint_1000/"},
    ),
    (
      "gs://bucket/checkpoint_1/",
      {"driver": "gcs", "bucket": "bucket", "path": "checkpoint_1/"},
    ),
    ("gs://bucket", {"driver": "gcs", "bucket": "bucket", "path": ""}),
    ("/a/b", {"driver": "file", "path": "/a/b/"}),
  ],
)
def test_kvstore(path, expected):
  assert zarr.kvstore(path) == expected


def test_kvstore_of_a_google_storage_path_object():
  from etils import epath

  path = epath.Path("gs://bucket/runs") / "checkpoint_1000"
  assert zarr.spec(zarr.kvstore(path), "target.a.kernel")["kvstore"] == {
    "driver": "gcs",
    "bucket": "bucket",
    "path": "runs/checkpoint_1000/target.a.kernel/",
  }


def test_other_object_stores_are_refused():
  with pytest.raises(ValueError, match="s3://bucket/x is neither"):
    zarr.kvstore("s3://bucket/x")


def test_strings_and_home_directories_are_paths(tiny, tmp_path, monkeypatch):
  monkeypatch.setenv("HOME", str(tmp_path))
  t5.save("~/saved", *tiny)
  assert (tmp_path / "saved" / "config.json").exists()
  assert_equal(t5.load(None, "~/saved")[1], tiny[1])
