"""The layout of our own checkpoints.

PATH/config.json   the shape, written last: without it nothing is finished
PATH/params/       the parameters, by orbax
"""

import dataclasses
import json
from typing import Any

from specdec_jax.t5.checkpoints import zarr
from specdec_jax.t5.checkpoints.stored import Checkpoint
from specdec_jax.t5.config import StackConfig

CONFIG = "config.json"
PARAMS = "params"
VERSION = 1


def is_ours(contents: dict[str, Any]) -> bool:
  """Whether a config.json is one of ours, of whatever kind of model."""
  return str(contents.get("format")).startswith("specdec_jax.")


def to_json(config: StackConfig) -> str:
  """Returns the text of config.json."""
  fields = dataclasses.asdict(config)
  # How the next user computes is not a property of the weights.
  del fields["dtype"]
  contents = {"format": config.FORMAT, "version": VERSION, "config": fields}
  return json.dumps(contents, indent=2) + "\n"


def open_ours(
  path: Any, contents: dict[str, Any], kind: type[StackConfig]
) -> Checkpoint:
  """Opens a checkpoint that `save` wrote.

  Args:
    path: An `epath.Path`.
    contents: Of its config.json.
    kind: The config of the kind of model that is wanted.
  """
  file = path / CONFIG
  found = contents["format"]
  if found != kind.FORMAT:
    raise ValueError(
      f"{file} has format {found!r}, and {kind.FORMAT!r} is to be loaded;"
      f" call {found}.load."
    )
  if contents.get("version") != VERSION:
    raise ValueError(
      f"{file} has version {contents.get('version')!r}; this release reads"
      f" version {VERSION}. Use the release that wrote it."
    )
  try:
    config = kind(**contents["config"])
  except (KeyError, TypeError) as error:
    raise ValueError(
      f"{file} describes no {kind.__name__}: {error}."
    ) from error
  specs = zarr.specs_in(path / PARAMS)
  return Checkpoint(str(path), zarr.open_arrays(path, specs), _convert, config)


def _convert(config, name, array):
  yield name, array
