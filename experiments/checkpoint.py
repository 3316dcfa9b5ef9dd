"""Loads a model of whatever kind lies in a folder."""

from typing import Any

from experiments.paths import resolve
from specdec_jax import lm, t5
from specdec_jax.array_typing import Params
from specdec_jax.t5.checkpoints import ours
from specdec_jax.t5.checkpoints.stored import read_json


def load(
  path: str, size: str | None = None, *, dtype: str | None = None
) -> tuple[t5.T5Model | lm.LMModel, Params]:
  """Loads a T5 or a language model.

  Args:
    path: Anything that `t5.load` or `lm.load` reads.
    size: A published size, where the folder does not tell its shape.
    dtype: What to compute in; None for float32.

  Raises:
    FileNotFoundError: If there is no such folder.
    ValueError: If it holds no checkpoint that is read here.
  """
  path = resolve(path)
  package = lm if size in lm.CONFIGS or _is_lm(path) else t5
  return package.load(size, path, dtype=dtype)


def _is_lm(path: str) -> bool:
  from etils import epath

  file: Any = epath.Path(path) / ours.CONFIG
  return file.exists() and read_json(file).get("format") == lm.LMConfig.FORMAT
