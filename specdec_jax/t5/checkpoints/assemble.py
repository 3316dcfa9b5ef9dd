"""From stored arrays to parameters: check everything, then read.

A checkpoint that lacks a parameter, or holds one too many, is refused: an
array that is silently left at its initial value is a wrong model that runs.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import traverse_util

from specdec_jax.array_typing import Params
from specdec_jax.t5.checkpoints.stored import Checkpoint
from specdec_jax.t5.flax_model import FlaxModel

_SHOWN = 4
"""How many names an error lists of each kind."""


def held_dtype(parameter: str, dtype: str) -> str:
  """The dtype in which a parameter is held.

  Matrices are held in the compute dtype. Norm scales and relative biases are
  used in float32 and are small, so they keep it.
  """
  leaf = parameter.rpartition("/")[2]
  return dtype if leaf in ("kernel", "embedding") else "float32"


def assemble(model: FlaxModel, checkpoint: Checkpoint) -> Params:
  """Reads the parameters of `model`.

  Raises:
    ValueError: If names or shapes differ from the model's; nothing has been
      read by then. Or if a file is damaged.
  """
  config = model.config

  def converted(name, array):
    return checkpoint.convert(config, name, array)

  check(
    model,
    {
      parameter: array.shape
      for name, stored in checkpoint.arrays.items()
      for parameter, array in converted(name, _placeholder(stored.shape))
    },
    where=f"The checkpoint {checkpoint.path}",
    fix=f"Pass the name or the {type(config).__name__} of the model that was"
    " saved.",
  )
  params = {}
  for name, stored in checkpoint.arrays.items():
    array = stored.read()
    if not jnp.issubdtype(array.dtype, jnp.floating):
      raise ValueError(
        f"{name} in {checkpoint.path} is stored as {array.dtype}, not as"
        " floating point numbers; quantised checkpoints are not read."
        " Convert it to float32 or bfloat16 first."
      )
    for parameter, values in converted(name, array):
      params[parameter] = jnp.asarray(
        values, held_dtype(parameter, config.dtype)
      )
  return traverse_util.unflatten_dict(params, sep="/")


def shapes_of(params: Params) -> dict[str, tuple[int, ...]]:
  """The shapes of a tree of parameters, by "a/b/c" names."""
  flat: Any = traverse_util.flatten_dict(params, sep="/")
  return {name: np.shape(leaf) for name, leaf in flat.items()}


def check(
  model: FlaxModel,
  found: dict[str, tuple[int, ...]],
  *,
  where: str,
  fix: str,
) -> None:
  """Compares all names and shapes with the model's.

  Args:
    model: Whose parameters they should be.
    found: Shapes by "a/b/c" names.
    where: The beginning of the error: what was found there.
    fix: The end of the error: what to do about it.

  Raises:
    ValueError: If anything is missing, unexpected or of another shape; one
      error for all of it.
  """
  expected = shapes_of(model.param_shapes())
  complaints = [
    _some("missing", sorted(expected.keys() - found.keys())),
    _some(
      "unexpected",
      [
        f"{name} {list(found[name])}"
        for name in sorted(found.keys() - expected.keys())
      ],
    ),
    _some(
      "of another shape",
      [
        f"{name} is {list(found[name])} and should be {list(expected[name])}"
        for name in sorted(expected.keys() & found.keys())
        if found[name] != expected[name]
      ],
    ),
  ]
  complaints = [complaint for complaint in complaints if complaint]
  if complaints:
    complaints = "\n".join(complaints)
    raise ValueError(
      f"{where} does not fit {model.config}:\n{complaints}\n{fix}"
    )


def _some(kind: str, entries: list[str]) -> str:
  if not entries:
    return ""
  shown = entries[:_SHOWN]
  if len(entries) > _SHOWN:
    shown.append(f"and {len(entries) - _SHOWN} more")
  return f"  {len(entries)} {kind}: {', '.join(shown)}"


def _placeholder(shape: tuple[int, ...]) -> np.ndarray:
  """An array of that shape in a few bytes of memory."""
  return np.broadcast_to(np.zeros((), np.float32), shape)
