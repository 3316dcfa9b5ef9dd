"""Weights from disk, Hugging Face's or ours, and to disk."""

from typing import Any

from specdec_jax.array_typing import Params
from specdec_jax.lm.llama.config import LlamaConfig, get_config
from specdec_jax.lm.llama.model import LlamaModel
from specdec_jax.lm.llama.tokenizer import check_same_tokenizer
from specdec_jax.t5.checkpoints.loading import load_kind
from specdec_jax.t5.checkpoints.saving import save
from specdec_jax.t5.checkpoints.stored import Checkpoint, read_json

__all__ = ["load", "load_pair", "save"]


def load(
  name: str | LlamaConfig | None, path: Any, *, dtype: Any = None
) -> tuple[LlamaModel, Params]:
  """Loads a model and its parameters.

  What is too large for one device goes by way of the host:

      with jax.default_device(jax.devices("cpu")[0]):
        model, params = llama.load(None, path, dtype="bfloat16")
      params = jax.device_put(
        params, partitioning.param_shardings(mesh, model)
      )

  Args:
    name: A published size (a key of `CONFIGS`), or a `LlamaConfig`, which the
      checkpoint must have; None takes the shape from the checkpoint.
    path: A Hugging Face folder (config.json beside model.safetensors, or
      beside shards and their index), or what `save` wrote.
    dtype: What to compute in, and what the matrices are held in: "float32"
      or "bfloat16"; norm scales are float32 in both. None is the dtype of
      `name` where that is a `LlamaConfig`, otherwise float32.

  Returns:
    The model and its parameters, on the default device.

  Raises:
    FileNotFoundError: If there is no such folder.
    ValueError: If the folder holds no checkpoint that is read here, a file is
      damaged, or a name or a shape is not the model's.
  """
  return load_kind(
    LlamaModel,
    LlamaConfig,
    get_config,
    _open,
    name=name,
    path=path,
    dtype=dtype,
  )


def load_pair(
  target: Any, draft: Any, *, dtype: Any = None
) -> tuple[tuple[LlamaModel, Params], tuple[LlamaModel, Params]]:
  """Loads a target and its draft, if they share a tokenizer.

  Args:
    target: The target's folder, Hugging Face's.
    draft: The draft's.
    dtype: As in `load`.

  Returns:
    The target and its parameters, the draft and its.

  Raises:
    FileNotFoundError: If there is no such folder.
    ValueError: If the tokenizers differ; no weights have been read by then.
      Or as in `load`.
  """
  check_same_tokenizer(target, draft)
  return load(None, target, dtype=dtype), load(None, draft, dtype=dtype)


def _open(path: Any) -> Checkpoint:
  # Here, not above: it imports tensorstore, which takes its time.
  from specdec_jax.lm.llama import huggingface
  from specdec_jax.t5.checkpoints import ours

  file = path / ours.CONFIG
  if not file.exists():
    found = sorted(child.name for child in path.iterdir())
    raise ValueError(
      f"{path} holds no checkpoint: no {ours.CONFIG} of Hugging Face or of"
      f" llama.save. It holds {found[:8] if found else 'nothing'}."
    )
  contents = read_json(file)
  if ours.is_ours(contents):
    return ours.open_ours(path, contents, LlamaConfig)
  return huggingface.open_huggingface(path, contents)
