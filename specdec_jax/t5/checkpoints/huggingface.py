"""Hugging Face folders: config.json beside safetensors (or flax) weights."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from specdec_jax.t5.checkpoints import safetensors_folder
from specdec_jax.t5.checkpoints.huggingface_config import parse_config
from specdec_jax.t5.checkpoints.stored import (
  Checkpoint,
  StoredArray,
  damaged,
  equal,
)
from specdec_jax.t5.config import T5Config

_FLAX = "flax_model.msgpack"

_EMBEDDING = "shared.weight"
_EMBEDDING_COPIES = (
  "encoder.embed_tokens.weight",
  "decoder.embed_tokens.weight",
)
_LM_HEAD = "lm_head.weight"

# An early release gave the cross-attention a table that it never used.
_UNUSED = (
  "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
)

# By stack and position in a block: the sublayer, its name here, its norm's.
_SUBLAYERS = {
  ("encoder", "0"): (
    "SelfAttention",
    "attention",
    "pre_attention_layer_norm",
  ),
  ("encoder", "1"): ("DenseReluDense", "mlp", "pre_mlp_layer_norm"),
  ("decoder", "0"): (
    "SelfAttention",
    "self_attention",
    "pre_self_attention_layer_norm",
  ),
  ("decoder", "1"): (
    "EncDecAttention",
    "encoder_decoder_attention",
    "pre_cross_attention_layer_norm",
  ),
  ("decoder", "2"): ("DenseReluDense", "mlp", "pre_mlp_layer_norm"),
}
_MATRICES = {
  "q": "query",
  "k": "key",
  "v": "value",
  "o": "out",
  "wi": "wi",
  "wi_0": "wi_0",
  "wi_1": "wi_1",
  "wo": "wo",
}
_IN_BLOCK = re.compile(
  r"(encoder|decoder)\.block\.(\d+)\.layer\.(\d)\.([\w.]+)\.weight"
)


def open_huggingface(path: Any, contents: dict[str, Any]) -> Checkpoint:
  """Opens a folder that `save_pretrained` wrote.

  Args:
    path: An `epath.Path`.
    contents: Of its config.json.
  """
  config = parse_config(path / "config.json", contents)
  arrays = _open_weights(path)
  arrays.pop(_UNUSED, None)
  _merge_embeddings(path, arrays)
  _check_lm_head(path, arrays, config)
  return Checkpoint(str(path), arrays, convert, config)


def convert(
  config: T5Config, name: str, array: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
  """See `stored.Convert`; a torch matrix is [out, in]."""
  match = _IN_BLOCK.fullmatch(name)
  if name == _EMBEDDING:
    yield "token_embedder/embedding", array
  elif name == _LM_HEAD:
    yield "decoder/logits_dense/kernel", array.T
  elif name in (
    "encoder.final_layer_norm.weight",
    "decoder.final_layer_norm.weight",
  ):
    stack = name.partition(".")[0]
    yield f"{stack}/{stack}_norm/scale", array
  elif match:
    yield _in_block(config, match, name), array.T
  else:
    yield name, array


def _in_block(config: T5Config, match: re.Match[str], name: str) -> str:
  stack, layer, position, part = match.groups()
  prefix = f"{stack}/layers_{layer}"
  module, ours, norm = _SUBLAYERS.get((stack, position), ("", "", ""))
  if part == "layer_norm" and norm:
    return f"{prefix}/{norm}/scale"
  if part == "SelfAttention.relative_attention_bias" and position == "0":
    if layer == "0" and not config.relative_bias_per_layer:
      prefix = stack
    return f"{prefix}/relpos_bias/rel_embedding"
  sublayer, _, matrix = part.partition(".")
  if module and sublayer == module and matrix in _MATRICES:
    return f"{prefix}/{ours}/{_MATRICES[matrix]}/kernel"
  return name


def _open_weights(path: Any) -> dict[str, StoredArray]:
  arrays = safetensors_folder.open_arrays(path)
  if arrays is not None:
    return arrays
  if (path / _FLAX).exists():
    return _open_flax(path / _FLAX)
  raise safetensors_folder.nothing_to_read(
    path, "AutoModelForSeq2SeqLM", or_else=_FLAX
  )


def _open_flax(file: Any) -> dict[str, StoredArray]:
  """Opens flax weights, with the names and layouts of the torch ones."""
  import flax.serialization
  from flax import traverse_util

  try:
    tree = flax.serialization.msgpack_restore(file.read_bytes())
    flat = traverse_util.flatten_dict(tree, sep=".")
  except Exception as error:  # Each layer of msgpack has errors of its own.
    raise damaged(file, error) from error
  arrays = {}
  for name, array in flat.items():
    module, _, leaf = name.rpartition(".")
    array = np.asarray(array)
    if leaf == "kernel":
      array = array.T
    if leaf in ("kernel", "embedding"):
      name = f"{module}.weight"
    arrays[name] = StoredArray(array.shape, lambda array=array: array)
  return arrays


def _merge_embeddings(path: Any, arrays: dict[str, StoredArray]) -> None:
  """Leaves one of the embedding's names, which torch may have saved thrice."""
  for copy in _EMBEDDING_COPIES:
    if copy not in arrays:
      continue
    if _EMBEDDING not in arrays:
      arrays[_EMBEDDING] = arrays[copy]
    elif not equal(arrays[_EMBEDDING], arrays[copy]):
      raise ValueError(
        f"{path} holds {copy} and {_EMBEDDING} with different values; T5"
        " has one embedding. Remove the wrong one."
      )
    del arrays[copy]


def _check_lm_head(
  path: Any, arrays: dict[str, StoredArray], config: T5Config
) -> None:
  if config.logits_via_embedding and _LM_HEAD in arrays:
    if _EMBEDDING in arrays and not equal(arrays[_LM_HEAD], arrays[_EMBEDDING]):
      raise ValueError(
        f"{path} holds an {_LM_HEAD} that differs from {_EMBEDDING}, while"
        " its config.json says that logits use the embedding. For T5 1.1,"
        ' mT5 and the like put "scale_decoder_outputs": false into'
        f" config.json; for T5 1.0 remove {_LM_HEAD}."
      )
    del arrays[_LM_HEAD]
