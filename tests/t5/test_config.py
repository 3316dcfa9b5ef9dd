"""The table of published sizes, and the shapes that follow from it."""

import dataclasses
import math

import jax
import numpy as np
import pytest

from specdec_jax import t5


def count(config):
  """Parameters of a model, without allocating them."""
  shapes = t5.T5Model(config).param_shapes()
  leaves = jax.tree.leaves(shapes)
  assert all(isinstance(each, jax.ShapeDtypeStruct) for each in leaves)
  return sum(math.prod(each.shape) for each in leaves)


@pytest.mark.parametrize(
  ("name", "millions"),
  [
    ("t5_1_1_small", "76.96"),
    ("t5_1_1_base", "247.58"),
    ("t5_1_1_large", "783.15"),
    ("t5_1_1_xl", "2849.76"),
    ("t5_1_1_xxl", "11135.33"),
    ("t5_1_0_small", "60.51"),
    ("t5_1_0_base", "222.90"),
    ("mt5_small", "300.18"),
    ("byt5_small", "299.64"),
  ],
)
def test_published_parameter_counts(name, millions):
  assert f"{count(t5.CONFIGS[name]) / 1e6:.2f}" == millions


@pytest.mark.parametrize(
  ("name", "millions"),
  [
    ("t5_1_0_large", "737.67"),
    ("t5_1_0_3b", "2851.60"),
    ("t5_1_0_11b", "11307.32"),
    ("mt5_base", "582.40"),
    ("mt5_large", "1229.58"),
    ("mt5_xl", "3742.62"),
    ("mt5_xxl", "12921.06"),
    ("byt5_base", "581.65"),
    ("byt5_large", "1228.18"),
    ("byt5_xl", "3737.80"),
    ("byt5_xxl", "12906.90"),
  ],
)
def test_published_parameter_counts_of_deep_models(name, millions):
  """Counted with a layer or two, since layers are alike and tracing slow."""
  config = t5.CONFIGS[name]

  def with_layers(encoder, decoder):
    return count(
      dataclasses.replace(
        config, num_encoder_layers=encoder, num_decoder_layers=decoder
      )
    )

  one = with_layers(1, 1)
  total = (
    one
    + (config.num_encoder_layers - 1) * (with_layers(2, 1) - one)
    + (config.num_decoder_layers - 1) * (with_layers(1, 2) - one)
  )
  assert f"{total / 1e6:.2f}" == millions


def test_flan_has_the_shapes_of_version_1_1():
  for size in ("small", "base", "large", "xl", "xxl"):
    assert t5.get_config(f"flan_t5_{size}") == t5.get_config(f"t5_1_1_{size}")


def test_parameter_names_and_logical_axes():
  axes = t5.T5Model(t5.get_config("t5_1_1_small")).logical_axes()
  decoder, encoder = axes["decoder"], axes["encoder"]
  layer = decoder["layers_7"]
  assert tuple(axes["token_embedder"]["embedding"]) == ("vocab", "embed")
  assert tuple(decoder["logits_dense"]["kernel"]) == ("embed", "vocab")
  assert tuple(layer["mlp"]["wi_0"]["kernel"]) == ("embed", "mlp")
  assert tuple(layer["mlp"]["wi_1"]["kernel"]) == ("embed", "mlp")
  assert tuple(layer["mlp"]["wo"]["kernel"]) == ("mlp", "embed")
  for name in ("self_attention", "encoder_decoder_attention"):
    attention = layer[name]
    for matrix in ("query", "key", "value"):
      assert tuple(attention[matrix]["kernel"]) == ("embed", "joined_kv")
    assert tuple(attention["out"]["kernel"]) == ("joined_kv", "embed")
  assert tuple(layer["pre_mlp_layer_norm"]["scale"]) == ("embed",)
  for stack in (encoder, decoder):
    table = stack["relpos_bias"]["rel_embedding"]
    assert tuple(table) == ("heads", "relpos_buckets")
  assert "layers_8" not in encoder
  assert "attention" in encoder["layers_0"]


def test_version_1_0_has_no_gate_and_no_head():
  shapes = t5.T5Model(t5.get_config("t5_1_0_small")).param_shapes()
  assert shapes["encoder"]["layers_0"]["mlp"].keys() == {"wi", "wo"}
  assert "logits_dense" not in shapes["decoder"]


def test_a_table_of_biases_in_each_layer():
  config = t5.T5Config(relative_bias_per_layer=True)
  shapes = t5.T5Model(config).param_shapes()
  for stack in ("encoder", "decoder"):
    assert "relpos_bias" not in shapes[stack]
    for i in range(6):
      table = shapes[stack][f"layers_{i}"]["relpos_bias"]["rel_embedding"]
      assert table.shape == (8, 32)


@pytest.mark.parametrize(
  ("changes", "match"),
  [
    ({"emb_dim": 0}, "T5Config.emb_dim is 0"),
    ({"num_heads": -1}, "T5Config.num_heads is -1"),
    ({"vocab_size": 3.5}, "T5Config.vocab_size is 3.5"),
    ({"mlp_activations": ()}, r"mlp_activations is \(\)"),
    ({"mlp_activations": ("swish",)}, "swish.*'gelu', 'linear'"),
    ({"dtype": "float16"}, "float16.*overflow.*bfloat16"),
    ({"dtype": np.float16}, "float16.*overflow.*bfloat16"),
    ({"dtype": "int8"}, "int8"),
    ({"dtype": "half"}, "float16"),
  ],
)
def test_bad_configs(changes, match):
  with pytest.raises(ValueError, match=match):
    t5.T5Config(**changes)


def test_unknown_size_names_all():
  with pytest.raises(ValueError, match=r"'t5_huge'.*t5_1_1_xxl"):
    t5.get_config("t5_huge")
