"""The paper's sizes, and the names and shapes that follow from them."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from flax import traverse_util

from specdec_jax import lm


def shapes(config):
  tree = lm.LMModel(config).param_shapes()
  flat = traverse_util.flatten_dict(tree, sep="/")
  assert all(isinstance(each, jax.ShapeDtypeStruct) for each in flat.values())
  return {name: each.shape for name, each in flat.items()}


def test_the_papers_parameter_counts():
  def count(config):
    return sum(map(math.prod, shapes(config).values()))

  assert f"{count(lm.CONFIGS['gpt_6m']) / 1e6:.2f}" == "5.77"
  # Layers are alike, and tracing is slow.
  large = lm.CONFIGS["gpt_97m"]
  one, two = (
    count(dataclasses.replace(large, num_layers=each)) for each in (1, 2)
  )
  total = one + (large.num_layers - 1) * (two - one)
  assert f"{total / 1e6:.2f}" == "97.54"


def test_names_and_shapes_are_those_of_t5x():
  layer = {
    "pre_self_attention_layer_norm/scale": (256,),
    "self_attention/query/kernel": (256, 256),
    "self_attention/key/kernel": (256, 256),
    "self_attention/value/kernel": (256, 256),
    "self_attention/out/kernel": (256, 256),
    "pre_mlp_layer_norm/scale": (256,),
    "mlp/wi/kernel": (256, 1024),
    "mlp/wo/kernel": (1024, 256),
  }
  expected = {
    "decoder/token_embedder/embedding": (8192, 256),
    "decoder/relpos_bias/rel_embedding": (4, 32),
    "decoder/decoder_norm/scale": (256,),
    "decoder/logits_dense/kernel": (256, 8192),
  }
  for i in range(2):
    for name, shape in layer.items():
      expected[f"decoder/layers_{i}/{name}"] = shape
  assert shapes(lm.get_config("gpt_6m")) == expected


def test_logical_axes():
  axes = lm.LMModel(lm.get_config("gpt_6m")).logical_axes()["decoder"]
  layer = axes["layers_1"]
  assert tuple(axes["token_embedder"]["embedding"]) == ("vocab", "embed")
  assert tuple(axes["logits_dense"]["kernel"]) == ("embed", "vocab")
  assert tuple(layer["mlp"]["wi"]["kernel"]) == ("embed", "mlp")
  assert tuple(layer["mlp"]["wo"]["kernel"]) == ("mlp", "embed")
  for matrix in ("query", "key", "value"):
    kernel = layer["self_attention"][matrix]["kernel"]
    assert tuple(kernel) == ("embed", "joined_kv")


def test_gates_and_shared_embeddings():
  found = shapes(
    lm.LMConfig(
      vocab_size=9,
      emb_dim=4,
      num_layers=1,
      mlp_dim=6,
      mlp_activations=("gelu", "linear"),
      logits_via_embedding=True,
    )
  )
  assert "decoder/logits_dense/kernel" not in found
  assert "decoder/layers_0/mlp/wi/kernel" not in found
  assert found["decoder/layers_0/mlp/wi_1/kernel"] == (4, 6)


@pytest.mark.parametrize(
  ("changes", "match"),
  [
    ({"num_layers": 0}, "LMConfig.num_layers is 0"),
    ({"vocab_size": 3.5}, "LMConfig.vocab_size is 3.5"),
    ({"mlp_activations": ("swish",)}, r"LMConfig.mlp_activations.*\('gelu',\)"),
    ({"dtype": "float16"}, "float16.*overflow.*bfloat16"),
    ({"dtype": np.float16}, "float16.*overflow.*bfloat16"),
    ({"dtype": "int8"}, "int8"),
  ],
)
def test_bad_configs(changes, match):
  with pytest.raises(ValueError, match=match):
    lm.LMConfig(**changes)


def test_unknown_size_names_all():
  with pytest.raises(ValueError, match="'gpt_2'.*gpt_97m, gpt_6m"):
    lm.get_config("gpt_2")
