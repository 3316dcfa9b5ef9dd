"""Weights from and to disk, in the format of `t5.save`."""

from typing import Any

from specdec_jax.array_typing import Params
from specdec_jax.lm.config import LMConfig, get_config
from specdec_jax.lm.model import LMModel
from specdec_jax.t5.checkpoints.loading import load_kind
from specdec_jax.t5.checkpoints.saving import save
from specdec_jax.t5.checkpoints.stored import Checkpoint, read_json

__all__ = ["load", "save"]


def load(
  name: str | LMConfig | None, path: Any, *, dtype: Any = None
) -> tuple[LMModel, Params]:
  """Loads a model and its parameters.

  Args:
    name: A size (a key of `CONFIGS`), or an `LMConfig`, which the checkpoint
      must have; None takes the shape from the checkpoint.
    path: What `save` wrote, a local folder or gs://.
    dtype: What to compute in, and what the matrices are held in: "float32"
      or "bfloat16"; norm scales and relative biases are float32 in both. None
      is the dtype of `name` where that is an `LMConfig`, otherwise float32.

  Returns:
    The model and its parameters, on the default device.

  Raises:
    FileNotFoundError: If there is no such folder.
    ValueError: If the folder holds no checkpoint that is read here, a file is
      damaged, or a name or a shape is not the model's.
  """
  return load_kind(
    LMModel, LMConfig, get_config, _open, name=name, path=path, dtype=dtype
  )


def _open(path: Any) -> Checkpoint:
  # Here, not above: it imports tensorstore, which takes its time.
  from specdec_jax.t5.checkpoints import ours

  file = path / ours.CONFIG
  contents = read_json(file) if file.exists() else {}
  if not ours.is_ours(contents):
    found = sorted(child.name for child in path.iterdir())
    raise ValueError(
      f"{path} holds no checkpoint of lm.save: no {ours.CONFIG} of ours. It"
      f" holds {found[:8] if found else 'nothing'}. Hugging Face's Llama is"
      " read by lm.llama.load."
    )
  return ours.open_ours(path, contents, LMConfig)
