"""Hugging Face's folders of safetensors, in one file or in shards."""

import functools
from typing import Any

from specdec_jax.t5.checkpoints.stored import StoredArray, damaged, read_json

_ONE_FILE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


def open_arrays(path: Any) -> dict[str, StoredArray] | None:
  """Opens all arrays, reads none.

  Args:
    path: An `epath.Path`, the folder.

  Returns:
    The arrays by name; None if the folder holds no safetensors.
  """
  if (path / _ONE_FILE).exists():
    return _open_file(path / _ONE_FILE)
  if (path / _INDEX).exists():
    return _open_shards(path)
  return None


def nothing_to_read(
  path: Any, auto_class: str, *, or_else: str | None = None
) -> ValueError:
  """Returns the error for a folder without weights that are read here.

  Args:
    path: The folder.
    auto_class: What transformers calls models of this kind.
    or_else: Another file that would have been read.
  """
  wanted = [each for each in (_ONE_FILE, _INDEX, or_else) if each]
  found = sorted(child.name for child in path.iterdir())
  return ValueError(
    f"{path} holds no {', '.join(wanted[:-1])} or {wanted[-1]}, only {found}."
    " PyTorch and TensorFlow files are not read. Convert the folder once,"
    f" with transformers: {auto_class}.from_pretrained(folder)"
    ".save_pretrained(new_folder)."
  )


def _open_shards(path: Any) -> dict[str, StoredArray]:
  file = path / _INDEX
  shard_of = read_json(file).get("weight_map")
  if not isinstance(shard_of, dict):
    raise damaged(file, ValueError("it has no weight_map"))
  shards = {}
  for shard in sorted(set(shard_of.values())):
    if not (path / shard).exists():
      raise ValueError(
        f"{path} lacks the shard {shard} that {_INDEX} names; download it."
      )
    shards[shard] = _open_file(path / shard)
  for name, shard in shard_of.items():
    if name not in shards[shard]:
      raise ValueError(
        f"{path / shard} lacks {name}, which {_INDEX} says it holds; index"
        " and shards are of different checkpoints. Download both again."
      )
  # All that the shards hold, in the index or not, for the check to see.
  return {
    name: array for each in shards.values() for name, array in each.items()
  }


def _open_file(file: Any) -> dict[str, StoredArray]:
  import safetensors

  if "://" in str(file):
    raise ValueError(
      f"{file}: safetensors are read from local disks only. Copy the folder"
      " here, or `save` it once and load that from gs://."
    )
  try:
    handle = safetensors.safe_open(str(file), "np")
  except (safetensors.SafetensorError, OSError) as error:
    raise damaged(file, error) from error
  return {
    name: StoredArray(
      tuple(handle.get_slice(name).get_shape()),
      functools.partial(handle.get_tensor, name),
    )
    for name in handle.keys()  # noqa: SIM118, it is no dictionary.
  }
