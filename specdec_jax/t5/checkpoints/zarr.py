"""Zarr arrays through tensorstore, on local paths and on gs://."""

import functools
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorstore as ts

from specdec_jax.t5.checkpoints.stored import StoredArray, damaged

_METADATA = {"/.zarray": "zarr", "/zarr.json": "zarr3"}


def kvstore(path: Any) -> dict[str, Any]:
  """Returns tensorstore's specification of a folder.

  Args:
    path: A local path or gs://bucket/folder.
  """
  path = os.fspath(path)
  if path.startswith("gs://"):
    bucket, _, folder = path.removeprefix("gs://").partition("/")
    folder = folder.rstrip("/")
    return {
      "driver": "gcs",
      "bucket": bucket,
      "path": f"{folder}/" if folder else "",
    }
  if "://" in path:
    raise ValueError(
      f"{path} is neither a local path nor gs://; copy the checkpoint to"
      " one of them."
    )
  return {"driver": "file", "path": f"{os.path.abspath(path)}/"}


def spec(folder: dict[str, Any], name: str, driver: str = "zarr"):
  """Returns the specification of the array `name` in a folder.

  A missing chunk is an error: by default it would read as zeros.
  """
  return {
    "driver": driver,
    "kvstore": {**folder, "path": f"{folder.get('path', '')}{name}/"},
    "fill_missing_data_reads": False,
  }


def specs_in(path: Any, prefix: str = "") -> dict[str, dict[str, Any]]:
  """Lists the arrays that orbax wrote into a folder.

  Args:
    path: An `epath.Path`.
    prefix: What the dotted names begin with; it is cut off.

  Returns:
    Specifications by "a/b/c" names.
  """
  folder = kvstore(path)
  if (path / "manifest.ocdbt").exists():
    folder = {"driver": "ocdbt", "base": folder}
  try:
    keys = ts.KvStore.open(folder).result()
    keys = keys.list(_prefix_range(prefix)).result()
  except ValueError as error:
    raise damaged(path, error) from error
  specs = {}
  for key in sorted(key.decode() for key in keys):
    for ending, driver in _METADATA.items():
      if key.endswith(ending):
        name = key.removesuffix(ending)
        parameter = name.removeprefix(prefix).replace(".", "/")
        specs[parameter] = spec(folder, name, driver)
  return specs


def open_arrays(
  path: Any, specs: Mapping[str, dict[str, Any]]
) -> dict[str, StoredArray]:
  """Opens all arrays at once, reads none.

  Args:
    path: Where they lie, for messages.
    specs: Specifications by name.
  """
  futures = {
    name: ts.open(each, open=True, read=True) for name, each in specs.items()
  }
  arrays = {}
  for name, future in futures.items():
    try:
      array = future.result()
    except ValueError as error:
      raise damaged(f"{name} in {path}", error) from error
    arrays[name] = StoredArray(
      tuple(array.shape), functools.partial(_read, array, name, path)
    )
  return arrays


def _read(array: ts.TensorStore, name: str, path: Any) -> np.ndarray:
  try:
    return array.read().result()
  except ValueError as error:
    raise damaged(f"{name} in {path}", error) from error


def _prefix_range(prefix: str) -> ts.KvStore.KeyRange:
  last = prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else ""
  return ts.KvStore.KeyRange(prefix, last)
