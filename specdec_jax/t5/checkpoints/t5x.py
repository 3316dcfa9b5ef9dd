"""T5X checkpoints: legacy (msgpack and zarr) and orbax.

Only the parameters are read, never the optimizer's state.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import flax.serialization
import jax.numpy as jnp
import numpy as np

from specdec_jax.t5.checkpoints import zarr
from specdec_jax.t5.checkpoints.stored import (
  Checkpoint,
  StoredArray,
  damaged,
)
from specdec_jax.t5.checkpoints.t5x_layout import convert

_STEP = re.compile(r"checkpoint_(\d+)")


def latest_step(path: Any) -> Any | None:
  """Returns the checkpoint_STEP folder with the highest step, or None.

  Args:
    path: An `epath.Path`, the folder that a T5X run wrote to. What T5X had
      not finished bears other names.
  """
  steps = {
    int(match[1]): child
    for child in path.iterdir()
    if (match := _STEP.fullmatch(child.name))
  }
  return steps[max(steps)] if steps else None


def is_legacy(path: Any) -> bool:
  """Whether the folder is a legacy checkpoint."""
  return (path / "checkpoint").is_file()


def is_orbax(path: Any) -> bool:
  """Whether the folder is an orbax checkpoint."""
  return (path / "state").is_dir()


def open_orbax(path: Any) -> Checkpoint:
  """Opens a checkpoint that T5X wrote through orbax."""
  specs = zarr.specs_in(path / "state", "target.")
  return Checkpoint(str(path), zarr.open_arrays(path, specs), convert)


def open_legacy(path: Any) -> Checkpoint:
  """Opens a checkpoint that T5X's own checkpointer wrote."""
  file = path / "checkpoint"
  try:
    contents = flax.serialization.msgpack_restore(file.read_bytes())
    if not isinstance(contents, dict):
      raise ValueError("it holds no dictionary")
  except Exception as error:  # Each layer of msgpack has errors of its own.
    raise damaged(file, error) from error
  # Version 0 is a bare optimizer.
  contents = contents.get("optimizer", contents)
  if "target" not in contents:
    raise ValueError(
      f"{file} holds no parameters: there is no 'target' among"
      f" {sorted(contents)}. Give a checkpoint that T5X wrote."
    )
  leaves = dict(_leaves(contents["target"]))
  folder = zarr.kvstore(path)
  arrays = zarr.open_arrays(
    path,
    {
      name: zarr.spec(folder, _relative_path(leaf))
      for name, leaf in leaves.items()
      if isinstance(leaf, Mapping)
    },
  )
  for name, leaf in leaves.items():
    if not isinstance(leaf, Mapping):
      leaf = np.asarray(leaf)
      arrays[name] = StoredArray(leaf.shape, lambda leaf=leaf: leaf)
  return Checkpoint(
    str(path),
    {name: _bfloat16(array) for name, array in arrays.items()},
    convert,
  )


def _leaves(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
  """Yields arrays and tensorstore specifications by "a/b/c" names."""
  if isinstance(tree, Mapping) and "kvstore" not in tree:
    for name, subtree in tree.items():
      yield from _leaves(subtree, f"{prefix}/{name}" if prefix else name)
  else:
    yield prefix, tree


def _relative_path(leaf: Mapping[str, Any]) -> str:
  """The array's folder, relative to the checkpoint's.

  The driver (file, gfile, gcs) and the bucket say where it was written, which
  is not where it lies now. Old versions have the path beside the kvstore.
  """
  return (leaf["kvstore"].get("path") or leaf.get("path", "")).rstrip("/")


def _bfloat16(stored: StoredArray) -> StoredArray:
  """Reads uint16 as what it stands for: zarr had no bfloat16 once."""

  def read():
    array = stored.read()
    return (
      array.view(jnp.dtype(jnp.bfloat16)) if array.dtype == "uint16" else array
    )

  return stored._replace(read=read)
