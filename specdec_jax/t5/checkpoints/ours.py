"""The layout of our own checkpoints.

PATH/config.json   the shape, written last: without it nothing is finished
PATH/params/       the parameters, by orbax
"""

import dataclasses
import json
from typing import Any

from specdec_jax.t5.checkpoints import zarr
from specdec_jax.t5.checkpoints.stored import Checkpoint
from specdec_jax.t5.config import T5Config

CONFIG = "config.json"
PARAMS = "params"
FORMAT = "specdec_jax.t5"
VERSION = 1


def is_ours(contents: dict[str, Any]) -> bool:
  """Whether a config.json is one of ours."""
  return contents.get("format") == FORMAT


def to_json(config: T5Config) -> str:
  """Returns the text of config.json."""
  fields = dataclasses.asdict(config)
  # How the next user computes is not a property of the weights.
  del fields["dtype"]
  contents = {"format": FORMAT, "version": VERSION, "config": fields}
  return json.dumps(contents, indent=2) + "\n"


def open_ours(path: Any, contents: dict[str, Any]) -> Checkpoint:
  """Opens a checkpoint that `save` wrote.

  Args:
    path: An `epath.Path`.
    contents: Of its config.json.
  """
  file = path / CONFIG
  if contents.get("version") != VERSION:
    raise ValueError(
      f"{file} has version {contents.get('version')!r}; this release reads"
      f" version {VERSION}. Use the release that wrote it."
    )
  try:
    config = T5Config(**contents["config"])
  except (KeyError, TypeError) as error:
    raise ValueError(f"{file} describes no T5: {error}.") from error
  specs = zarr.specs_in(path / PARAMS)
  return Checkpoint(str(path), zarr.open_arrays(path, specs), _convert, config)


def _convert(config, name, array):
  yield name, array
