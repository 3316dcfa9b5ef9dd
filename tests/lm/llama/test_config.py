"""Published sizes, and what a config.json says."""

import dataclasses
import math
import pathlib

import jax
import pytest
from flax import traverse_util

from specdec_jax.lm import llama
from specdec_jax.lm.llama.huggingface import parse_config

# As Hugging Face counts what these checkpoints hold.
PARAMETERS = {
  "llama_3_1_8b": 8_030_261_248,
  "llama_3_1_70b": 70_553_706_496,
  "llama_3_2_1b": 1_235_814_400,
  "llama_3_2_3b": 3_212_749_824,
  "tinyllama_1_1b": 1_100_048_384,
}


def count(config):
  shapes = llama.LlamaModel(config).param_shapes()
  return sum(math.prod(each.shape) for each in jax.tree.leaves(shapes))


@pytest.mark.parametrize("name", llama.CONFIGS)
def test_parameter_counts(name):
  config = llama.get_config(name)
  # Layers are alike, and tracing is slow.
  one, two = (
    count(dataclasses.replace(config, num_layers=each)) for each in (1, 2)
  )
  assert one + (config.num_layers - 1) * (two - one) == PARAMETERS[name]


def test_names_shapes_and_axes():
  config = dataclasses.replace(llama.get_config("llama_3_1_8b"), num_layers=1)
  model = llama.LlamaModel(config)
  flat = traverse_util.flatten_dict(model.param_shapes()["decoder"], sep="/")
  axes = traverse_util.flatten_dict(model.logical_axes()["decoder"], sep="/")
  expected = {
    "token_embedder/embedding": ((128256, 4096), ("vocab", "embed")),
    "decoder_norm/scale": ((4096,), ("embed",)),
    "logits_dense/kernel": ((4096, 128256), ("embed", "vocab")),
  }
  layer = {
    "pre_self_attention_layer_norm/scale": ((4096,), ("embed",)),
    "self_attention/query/kernel": ((4096, 4096), ("embed", "joined_kv")),
    "self_attention/key/kernel": ((4096, 1024), ("embed", "joined_kv")),
    "self_attention/value/kernel": ((4096, 1024), ("embed", "joined_kv")),
    "self_attention/out/kernel": ((4096, 4096), ("joined_kv", "embed")),
    "pre_mlp_layer_norm/scale": ((4096,), ("embed",)),
    "mlp/wi_0/kernel": ((4096, 14336), ("embed", "mlp")),
    "mlp/wi_1/kernel": ((4096, 14336), ("embed", "mlp")),
    "mlp/wo/kernel": ((14336, 4096), ("mlp", "embed")),
  }
  expected |= {f"layers_0/{name}": each for name, each in layer.items()}
  assert {
    name: (leaf.shape, tuple(axes[name])) for name, leaf in flat.items()
  } == expected
  tied = dataclasses.replace(llama.get_config("llama_3_2_1b"), num_layers=1)
  assert "logits_dense" not in llama.LlamaModel(tied).param_shapes()["decoder"]


@pytest.mark.parametrize(
  ("changes", "match"),
  [
    ({"num_layers": 0}, "LlamaConfig.num_layers is 0"),
    ({"num_key_value_heads": 5}, "num_heads is 32 and num_key_value_heads 5"),
    ({"head_dim": 7}, "head_dim is 7; rotations need it even"),
    ({"pad_id": 32000}, "pad_id is 32000, and vocab_size 32000"),
    ({"pad_id": -1}, "LlamaConfig.pad_id is -1"),
    ({"rope_theta": 0.0}, "rope_theta is 0.0; it must be positive"),
    ({"norm_epsilon": -1.0}, "norm_epsilon is -1.0"),
    ({"dtype": "float16"}, "float16.*bfloat16"),
  ],
)
def test_bad_configs(changes, match):
  with pytest.raises(ValueError, match=match):
    llama.LlamaConfig(**changes)


def test_unknown_size_names_all():
  with pytest.raises(ValueError, match="'llama_4'.*llama_3_1_8b, .*tinyllama"):
    llama.get_config("llama_4")


# As transformers up to version 4 wrote it.
LLAMA_3_1_8B = {
  "attention_bias": False,
  "bos_token_id": 128000,
  "eos_token_id": [128001, 128008, 128009],
  "hidden_act": "silu",
  "hidden_size": 4096,
  "intermediate_size": 14336,
  "max_position_embeddings": 131072,
  "mlp_bias": False,
  "model_type": "llama",
  "num_attention_heads": 32,
  "num_hidden_layers": 32,
  "num_key_value_heads": 8,
  "pretraining_tp": 1,
  "rms_norm_eps": 1e-05,
  "rope_scaling": {
    "factor": 8.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
  },
  "rope_theta": 500000.0,
  "tie_word_embeddings": False,
  "vocab_size": 128256,
}
FILE = pathlib.Path("folder/config.json")


def parsed(**changes):
  contents = {**LLAMA_3_1_8B, **changes}
  present = {name: x for name, x in contents.items() if x is not ...}
  return parse_config(FILE, present)


def test_an_old_config():
  assert parsed() == llama.get_config("llama_3_1_8b")


def test_a_new_config():
  rotations = {**LLAMA_3_1_8B["rope_scaling"], "rope_theta": 500000.0}
  assert parsed(
    rope_scaling=..., rope_theta=..., rope_parameters=rotations, head_dim=128
  ) == llama.get_config("llama_3_1_8b")


def test_what_is_missing_has_transformers_default():
  config = parsed(
    **dict.fromkeys(
      (
        "num_key_value_heads",
        "rms_norm_eps",
        "rope_scaling",
        "rope_theta",
        "tie_word_embeddings",
        "bos_token_id",
      ),
      ...,
    )
  )
  assert config.num_key_value_heads == 32
  assert config.norm_epsilon == 1e-6
  assert (config.rope_theta, config.rope_scaling) == (10000.0, None)
  assert not config.logits_via_embedding
  assert config.pad_id == 1
  assert parsed(bos_token_id=None, head_dim=None).pad_id == 1


@pytest.mark.parametrize("key", ["type", "rope_type"])
def test_linear_scaling_in_both_spellings(key):
  config = parsed(rope_scaling={key: "linear", "factor": 2})
  assert config.rope_scaling == llama.LinearScaling(2.0)


@pytest.mark.parametrize(
  ("changes", "match"),
  [
    ({"model_type": "mistral"}, "model_type='mistral'; give a Llama"),
    ({"model_type": ...}, "model_type=None; give a Llama"),
    ({"attention_bias": True}, "attention_bias=True; .* no biases"),
    ({"mlp_bias": True}, "mlp_bias=True; .* no biases"),
    ({"hidden_act": "gelu"}, "hidden_act='gelu'; .* 'silu'"),
    ({"hidden_size": ...}, "hidden_size=None; it must be an integer"),
    ({"max_position_embeddings": "many"}, "max_position_embeddings='many'"),
    ({"num_key_value_heads": 3}, "num_heads is 32 and num_key_value_heads 3"),
    ({"quantization_config": {"bits": 4}}, "quantization_config=.*not read"),
    (
      {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}},
      "rope_type='yarn'; .* 'default', 'linear' and 'llama3'",
    ),
    (
      {"rope_scaling": {"rope_type": "llama3", "factor": 2.0}},
      r"rope_type='llama3' without 'low_freq_factor', only \['factor'",
    ),
    ({"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5; .* whole"),
  ],
)
def test_what_the_network_has_not_is_refused(changes, match):
  with pytest.raises(ValueError, match=match) as caught:
    parsed(**changes)
  if "rope" in str(changes) or "bias" in str(changes):
    assert str(FILE) in str(caught.value)
