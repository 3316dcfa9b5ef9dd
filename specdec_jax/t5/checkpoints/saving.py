"""`save`: our own checkpoints, written by orbax."""

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
from flax import traverse_util

from specdec_jax.array_typing import Params
from specdec_jax.t5.checkpoints.assemble import check, held_dtype, shapes_of
from specdec_jax.t5.checkpoints.stored import read_json
from specdec_jax.t5.config import check_dtype
from specdec_jax.t5.flax_model import FlaxModel

_CHUNK_BYTES = 8 << 20
_FILE_BYTES = 32 << 20
"""Small enough for every host of source code."""


def save(
  path: Any,
  model: FlaxModel,
  params: Params,
  *,
  dtype: Any = None,
  overwrite: bool = False,
) -> None:
  """Saves a model, so that `load(None, path)` brings it back.

  An interrupted save leaves no checkpoint at `path`, at most a folder beside
  it whose name ends in ".unfinished".

  Args:
    path: The new checkpoint's folder; a local path or gs://.
    model: Whose shape is saved with the parameters.
    params: The parameters.
    dtype: What to store the matrices in, "float32" or "bfloat16"; None keeps
      every array as it is. Norm scales and relative biases stay float32.
    overwrite: Whether to replace a checkpoint of ours that lies at `path`.

  Raises:
    FileExistsError: If something lies at `path` that may not be replaced.
    ValueError: If `params` are not the model's.
  """
  from etils import epath

  from specdec_jax.t5.checkpoints import ours

  if dtype is not None:
    dtype = check_dtype(dtype)
  check(
    model,
    shapes_of(params),
    where="The tree of parameters to save",
    fix="Save parameters together with the model that they belong to.",
  )
  path = epath.Path(path).expanduser()
  _check_free(path, overwrite)
  with _unfinished(path) as folder:
    _write_params(folder / ours.PARAMS, params, dtype)
    (folder / ours.CONFIG).write_text(ours.to_json(model.config))


def _check_free(path: Any, overwrite: bool) -> None:
  from specdec_jax.t5.checkpoints import ours

  if not path.exists() or (path.is_dir() and not any(path.iterdir())):
    return
  if not overwrite:
    raise FileExistsError(
      f"{path} exists; save to another path, or pass overwrite=True."
    )
  config = path / ours.CONFIG
  if not config.exists() or not ours.is_ours(read_json(config)):
    raise FileExistsError(
      f"{path} holds something else than a checkpoint of ours, so"
      " overwrite=True does not remove it; save to another path."
    )


def _write_params(path: Any, params: Params, dtype: str | None) -> None:
  import orbax.checkpoint as ocp

  flat = traverse_util.flatten_dict(params, sep="/")
  save_args = {
    name: ocp.SaveArgs(
      dtype=None if dtype is None else jnp.dtype(held_dtype(name, dtype)),
      chunk_byte_size=_CHUNK_BYTES,
    )
    for name in flat
  }
  with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
    checkpointer.save(
      path,
      args=ocp.args.PyTreeSave(
        params,
        save_args=traverse_util.unflatten_dict(save_args, sep="/"),
        ocdbt_target_data_file_size=_FILE_BYTES,
      ),
    )
  # It holds the path of the machine that saved, and means nothing elsewhere.
  (path / "commit_success.txt").unlink(missing_ok=True)


@contextlib.contextmanager
def _unfinished(path: Any) -> Iterator[Any]:
  """A folder to write into that becomes `path` when all is written."""
  if "://" in str(path):
    # Object stores cannot rename; config.json, written last, marks the end.
    if path.exists():
      path.rmtree()
    yield path
    return
  path = type(path)(path.resolve())
  path.parent.mkdir(parents=True, exist_ok=True)
  beside = f"{path.name}.{uuid.uuid4().hex[:8]}"
  folder = path.parent / f"{beside}.unfinished"
  folder.mkdir()
  try:
    yield folder
    if path.exists():
      # Two renames, so that one of the two is always whole.
      replaced = path.rename(path.parent / f"{beside}.replaced")
      folder.rename(path)
      replaced.rmtree()
    else:
      folder.rename(path)
  except BaseException:
    if folder.exists():
      folder.rmtree()
    raise
