"""Hugging Face folders of Llama: config.json beside safetensors."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from specdec_jax.lm.llama import rope
from specdec_jax.lm.llama.config import LlamaConfig
from specdec_jax.t5.checkpoints import safetensors_folder
from specdec_jax.t5.checkpoints.huggingface_config import read_size
from specdec_jax.t5.checkpoints.stored import Checkpoint, StoredArray, equal

_EMBEDDING = "model.embed_tokens.weight"
_LM_HEAD = "lm_head.weight"
_OTHERS = {
  _EMBEDDING: "decoder/token_embedder/embedding",
  "model.norm.weight": "decoder/decoder_norm/scale",
  _LM_HEAD: "decoder/logits_dense/kernel",
}
_IN_LAYER = re.compile(r"model\.layers\.(\d+)\.([\w.]+)\.weight")
_LAYER = {
  "input_layernorm": "pre_self_attention_layer_norm/scale",
  "self_attn.q_proj": "self_attention/query/kernel",
  "self_attn.k_proj": "self_attention/key/kernel",
  "self_attn.v_proj": "self_attention/value/kernel",
  "self_attn.o_proj": "self_attention/out/kernel",
  "post_attention_layernorm": "pre_mlp_layer_norm/scale",
  "mlp.gate_proj": "mlp/wi_0/kernel",
  "mlp.up_proj": "mlp/wi_1/kernel",
  "mlp.down_proj": "mlp/wo/kernel",
}
# Early releases stored the rotations, which follow from the config.
_UNUSED = "self_attn.rotary_emb.inv_freq"


def open_huggingface(path: Any, contents: dict[str, Any]) -> Checkpoint:
  """Opens a folder that `save_pretrained` wrote.

  Args:
    path: An `epath.Path`.
    contents: Of its config.json.

  Raises:
    ValueError: If it holds no Llama, or one that the network has no parts for.
  """
  config = parse_config(path / "config.json", contents)
  arrays = safetensors_folder.open_arrays(path)
  if arrays is None:
    raise safetensors_folder.nothing_to_read(path, "AutoModelForCausalLM")
  arrays = {
    name: array for name, array in arrays.items() if not name.endswith(_UNUSED)
  }
  if config.logits_via_embedding and _LM_HEAD in arrays:
    _drop_lm_head(path, arrays)
  return Checkpoint(str(path), arrays, _convert, config)


def parse_config(file: Any, contents: dict[str, Any]) -> LlamaConfig:
  """Returns the shape that a config.json describes.

  Args:
    file: Its path, for messages.
    contents: The JSON object.

  Raises:
    ValueError: If it is no Llama, lacks a size (sizes have no defaults here),
      or has what the network has not.
  """

  def size(name: str) -> int:
    return read_size(file, contents, name)

  def size_or(name: str, default: int) -> int:
    return default if contents.get(name) is None else size(name)

  def refuse(name: str, why: str) -> ValueError:
    return ValueError(f"{file} has {name}={contents.get(name)!r}; {why}.")

  if contents.get("model_type") != "llama":
    raise refuse("model_type", "give a Llama, whose model_type is 'llama'")
  if contents.get("quantization_config"):
    raise refuse(
      "quantization_config",
      "quantised checkpoints are not read. Give the one it was made from",
    )
  for name in ("attention_bias", "mlp_bias"):
    if contents.get(name):
      raise refuse(name, "the network's products have no biases")
  if contents.get("hidden_act", "silu") != "silu":
    raise refuse("hidden_act", "the network's activation is 'silu'")
  theta, scaling = _rope(file, contents)
  # What may be missing has transformers' default.
  heads = size("num_attention_heads")
  return LlamaConfig(
    vocab_size=size("vocab_size"),
    emb_dim=size("hidden_size"),
    num_heads=heads,
    num_key_value_heads=size_or("num_key_value_heads", heads),
    num_layers=size("num_hidden_layers"),
    head_dim=size_or("head_dim", size("hidden_size") // heads),
    mlp_dim=size("intermediate_size"),
    logits_via_embedding=bool(contents.get("tie_word_embeddings", False)),
    norm_epsilon=float(contents.get("rms_norm_eps", 1e-6)),
    rope_theta=theta,
    rope_scaling=scaling,
    max_positions=size("max_position_embeddings"),
    pad_id=size_or("bos_token_id", 1),
  )


def _rope(
  file: Any, contents: dict[str, Any]
) -> tuple[float, rope.Scaling | None]:
  """Theta and scaling, of transformers up to 4 or of version 5."""
  fields = contents.get("rope_parameters") or contents.get("rope_scaling") or {}
  theta = fields.get("rope_theta") or contents.get("rope_theta") or 10000.0
  kind = fields.get("rope_type") or fields.get("type") or "default"
  partial = fields.get("partial_rotary_factor") or contents.get(
    "partial_rotary_factor"
  )
  if partial not in (None, 1):
    raise ValueError(
      f"{file} has partial_rotary_factor={partial}; the network rotates whole"
      " heads."
    )
  try:
    if kind == "default":
      return float(theta), None
    if kind == "linear":
      return float(theta), rope.LinearScaling(float(fields["factor"]))
    if kind == "llama3":
      return float(theta), rope.Llama3Scaling(
        factor=float(fields["factor"]),
        low_freq_factor=float(fields["low_freq_factor"]),
        high_freq_factor=float(fields["high_freq_factor"]),
        original_length=int(fields["original_max_position_embeddings"]),
      )
  except KeyError as error:
    raise ValueError(
      f"{file} has rope_type={kind!r} without {error}, only {sorted(fields)}."
      " Take the config.json of the checkpoint's origin."
    ) from error
  raise ValueError(
    f"{file} has rope_type={kind!r}; those that are read are 'default',"
    " 'linear' and 'llama3'."
  )


def _convert(
  config: LlamaConfig, name: str, array: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
  """See `stored.Convert`; a torch matrix is [out, in]."""
  del config
  match = _IN_LAYER.fullmatch(name)
  if match and match[2] in _LAYER:
    parameter = f"decoder/layers_{match[1]}/{_LAYER[match[2]]}"
  else:
    parameter = _OTHERS.get(name, name)
  yield parameter, array.T if parameter.endswith("kernel") else array


def _drop_lm_head(path: Any, arrays: dict[str, StoredArray]) -> None:
  if _EMBEDDING in arrays and not equal(arrays[_LM_HEAD], arrays[_EMBEDDING]):
    raise ValueError(
      f"{path} holds an {_LM_HEAD} that differs from {_EMBEDDING}, while its"
      ' config.json has "tie_word_embeddings": true. Set that to false, or'
      f" remove {_LM_HEAD}."
    )
  del arrays[_LM_HEAD]
