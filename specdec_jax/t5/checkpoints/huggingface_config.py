"""Hugging Face's config.json as a T5Config, with its flags old and new."""

from typing import Any

from specdec_jax.t5.config import T5Config

_FAMILIES = ("t5", "mt5", "umt5")

# Both "gelu_new" and, for T5's sake, "gated-gelu" are the tanh form.
_ACTIVATIONS = {
  "relu": ("relu",),
  "gelu_new": ("gelu",),
  "silu": ("silu",),
  "gated-relu": ("relu", "linear"),
  "gated-gelu": ("gelu", "linear"),
  "gated-gelu_new": ("gelu", "linear"),
  "gated-silu": ("silu", "linear"),
}

_EPSILON = 1e-6


def parse_config(file: Any, contents: dict[str, Any]) -> T5Config:
  """Returns the shape that a config.json describes.

  Args:
    file: Its path, for messages.
    contents: The JSON object.

  Raises:
    ValueError: If it is no T5, or lacks a size; sizes have no defaults here.
  """
  family = contents.get("model_type")
  if family not in _FAMILIES:
    raise ValueError(
      f"{file} has model_type {family!r}; those that are read are"
      f" {', '.join(_FAMILIES)}. Give a T5 checkpoint."
    )

  def size(name: str) -> int:
    return read_size(file, contents, name)

  epsilon = contents.get("layer_norm_epsilon", _EPSILON)
  if epsilon != _EPSILON:
    raise ValueError(
      f"{file} has layer_norm_epsilon={epsilon}; T5's norms use {_EPSILON}"
      " and the network has no other."
    )
  # Every T5 without this key is older than version 1.1; mT5 began with it.
  default = "relu" if family == "t5" else "gated-gelu"
  activation = contents.get("feed_forward_proj", default)
  if activation not in _ACTIVATIONS:
    raise ValueError(
      f"{file} has feed_forward_proj={activation!r}; those that are read"
      f" are {', '.join(_ACTIVATIONS)}."
    )
  # Transformers up to 4 has one flag for "logits use the embedding" and for
  # "scale them"; version 5 always writes it as true, and tells with another.
  tied = contents.get("tie_word_embeddings", True)
  scaled = contents.get("scale_decoder_outputs", tied)
  layers = size("num_layers")
  if contents.get("num_decoder_layers") is None:
    decoder_layers = layers
  else:
    decoder_layers = size("num_decoder_layers")
  return T5Config(
    vocab_size=size("vocab_size"),
    emb_dim=size("d_model"),
    num_heads=size("num_heads"),
    num_encoder_layers=layers,
    num_decoder_layers=decoder_layers,
    head_dim=size("d_kv"),
    mlp_dim=size("d_ff"),
    mlp_activations=_ACTIVATIONS[activation],
    logits_via_embedding=bool(scaled),
    relative_bias_per_layer=family == "umt5",
    relative_attention_num_buckets=size("relative_attention_num_buckets"),
    relative_attention_max_distance=contents.get(
      "relative_attention_max_distance", 128
    ),
    dropout_rate=contents.get("dropout_rate", 0.1),
  )


def read_size(file: Any, contents: dict[str, Any], name: str) -> int:
  """Returns a size that a config.json must have.

  Args:
    file: Its path, for messages.
    contents: The JSON object.
    name: The size's key.

  Raises:
    ValueError: If it is missing, or no integer.
  """
  if not isinstance(contents.get(name), int):
    raise ValueError(
      f"{file} has {name}={contents.get(name)!r}; it must be an integer."
      " Take the config.json of the checkpoint's origin."
    )
  return contents[name]
