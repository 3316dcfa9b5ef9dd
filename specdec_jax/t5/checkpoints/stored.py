"""What a reader of a checkpoint format returns: arrays not yet read."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from specdec_jax.t5.config import StackConfig


class StoredArray(NamedTuple):
  """An array on disk.

  Attributes:
    shape: Known from the file's header.
    read: Reads the contents.
  """

  shape: tuple[int, ...]
  read: Callable[[], np.ndarray]


Convert = Callable[[Any, str, np.ndarray], Iterator[tuple[str, np.ndarray]]]
"""Turns a stored array, by name, into the network's parameters.

Its first argument is the config, of the kind that the format is for. It knows
shapes only, so that it can run on placeholders before anything is read. It
passes on what it does not know, for the check to complain about.
"""


@dataclasses.dataclass(frozen=True)
class Checkpoint:
  """An opened checkpoint.

  Attributes:
    path: Where it lies, for messages.
    arrays: What it holds, by the format's own names.
    convert: From these names and layouts to the network's.
    config: What the checkpoint says of its shape; None where it says nothing.
  """

  path: str
  arrays: Mapping[str, StoredArray]
  convert: Convert
  config: StackConfig | None = None


def damaged(path: Any, error: Exception) -> ValueError:
  """Returns the error for a file that cannot be read."""
  return ValueError(
    f"Cannot read {path}: {error}. The file is damaged or incomplete; copy"
    " or download the checkpoint again."
  )


def read_json(path: Any) -> dict[str, Any]:
  """Reads a JSON object.

  Args:
    path: An `epath.Path`.
  """
  try:
    contents = json.loads(path.read_text())
    if not isinstance(contents, dict):
      raise ValueError("it holds no JSON object")
  except ValueError as error:
    raise damaged(path, error) from error
  return contents


def equal(one: StoredArray, other: StoredArray) -> bool:
  """Whether two arrays hold the same; reads both."""
  return one.shape == other.shape and np.array_equal(one.read(), other.read())
