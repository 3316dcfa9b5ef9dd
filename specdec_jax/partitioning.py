"""Arrays over a mesh of devices; the only file that names a mesh axis.

A mesh is data x model. Rows of a batch are shared out along "data"; what is
wide in a model, its vocabulary, heads and hidden units, along "model". Which
dimension of which parameter that is, the parameters' logical axes say
(`FlaxModel.logical_axes`), and `RULES` translates these.
"""

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import (
  AbstractMesh,
  AxisType,
  Mesh,
  NamedSharding,
  PartitionSpec,
)

from specdec_jax.array_typing import PyTree

DATA = "data"
MODEL = "model"

RULES: dict[str, str | None] = {
  "batch": DATA,
  "vocab": MODEL,
  "embed": None,
  "mlp": MODEL,
  "heads": MODEL,
  "joined_kv": MODEL,
  "relpos_buckets": None,
}
"""Logical axis to mesh axis, None for neither; T5X's rules for parameters that
are shared out along one dimension."""


def make_mesh(
  *,
  data: int | None = None,
  model: int = 1,
  devices: Sequence[jax.Device] | None = None,  # type: ignore
) -> Mesh:
  """Returns a mesh of data x model devices.

  Args:
    data: How many parts a batch is cut into; None for as many as there are
      devices for.
    model: How many parts the parameters are cut into.
    devices: What it is made of; None for all.

  Raises:
    ValueError: If there are not so many devices.
  """
  devices = jax.devices() if devices is None else devices
  if data is None:
    data = len(devices) // model if model > 0 else 0
  if min(data, model) < 1 or data * model > len(devices):
    raise ValueError(
      f"A mesh of data={data} x model={model} does not fit"
      f" {len(devices)} devices; both must be positive, and their product at"
      " most that."
    )
  return jax.make_mesh(
    (data, model),
    (DATA, MODEL),
    axis_types=(AxisType.Auto, AxisType.Auto),
    devices=devices[: data * model],
  )


def named_shardings(
  mesh: Mesh | AbstractMesh, logical_axes: PyTree, shapes: PyTree
) -> PyTree:
  """Returns where each array of a tree lies.

  Args:
    mesh: From `make_mesh`, or only its shape.
    logical_axes: The tree with a `PartitionSpec` of logical axes at each leaf.
    shapes: The same tree with anything that has a shape.

  Raises:
    ValueError: If a dimension cannot be cut into so many parts; names the
      array.
  """

  def place(path, array, axes):
    spec = []
    for size, name in zip(array.shape, axes, strict=True):
      axis = _mesh_axis(name)
      if axis is not None and axis not in spec:
        _check_parts(path, name, size, mesh, axis)
        spec.append(axis)
      else:
        spec.append(None)
    return NamedSharding(mesh, PartitionSpec(*spec))

  return jax.tree_util.tree_map_with_path(place, shapes, logical_axes)


def param_shardings(
  mesh: Mesh | AbstractMesh, model: Any, *, replicate: bool = False
) -> PyTree:
  """Returns where each parameter of a model lies.

  Decoding needs no more: caches and activations lie as the parameters make
  them, a target's along its heads. A draft is small, and its many short calls
  would wait for one another's devices, so each device had better hold it whole.

  Args:
    mesh: From `make_mesh`, or only its shape.
    model: What has `logical_axes` and `param_shapes`: T5, LM or Llama.
    replicate: Whether every device holds all parameters, instead of its part.

  Raises:
    ValueError: If a dimension cannot be cut into so many parts; names the
      array.
  """
  shapes = model.param_shapes()
  if replicate:
    return jax.tree.map(lambda _: replicated(mesh), shapes)
  return named_shardings(mesh, model.logical_axes(), shapes)


def batch_sharding(mesh: Mesh) -> NamedSharding:
  """Where arrays lie whose first dimension is the batch."""
  return NamedSharding(mesh, PartitionSpec(RULES["batch"]))


def replicated(mesh: Mesh | AbstractMesh) -> NamedSharding:
  """Where arrays lie that every device holds whole."""
  return NamedSharding(mesh, PartitionSpec())


def _mesh_axis(name: str | None) -> str | None:
  if name is None:
    return None
  if name not in RULES:
    raise ValueError(
      f"There is no rule for the logical axis {name!r}; there are"
      f" {', '.join(RULES)}."
    )
  return RULES[name]


def _check_parts(path, name: str, size: int, mesh, axis: str) -> None:
  if size % mesh.shape[axis]:
    array = jax.tree_util.keystr(path, simple=True, separator="/")
    raise ValueError(
      f"{array} has {size} of {name!r}, which the mesh's {mesh.shape[axis]}"
      f" devices along {axis!r} do not divide. Choose a number that does."
    )
