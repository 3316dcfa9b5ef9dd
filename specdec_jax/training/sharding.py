"""Where a training state lies on a mesh."""

import jax
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from specdec_jax import partitioning
from specdec_jax.array_typing import PyTree
from specdec_jax.t5.flax_model import FlaxModel
from specdec_jax.training.step import TrainState, init


def abstract_state(
  model: FlaxModel, optimizer: optax.GradientTransformation, mesh: Mesh
) -> TrainState:
  """Returns the state's tree with shapes, dtypes and shardings as leaves.

  Parameters lie as the model's logical axes say, and what an optimizer keeps
  of each of them lies like it; Adafactor's sums over rows or columns lie like
  what is left of it.

  Args:
    model: The model.
    optimizer: Its optimizer.
    mesh: From `partitioning.make_mesh`.
  """
  shapes = jax.eval_shape(lambda p: init(p, optimizer), model.param_shapes())
  params = partitioning.named_shardings(
    mesh, model.logical_axes(), shapes.params
  )
  everywhere = partitioning.replicated(mesh)
  opt_state = optax.tree.map_params(
    optimizer,
    _like,
    shapes.opt_state,
    shapes.params,
    params,
    transform_non_params=lambda _: everywhere,
  )
  return jax.tree.map(
    lambda shape, where: jax.ShapeDtypeStruct(
      shape.shape, shape.dtype, sharding=where
    ),
    shapes,
    TrainState(params, opt_state, everywhere),  # type: ignore
  )


def shardings(state: PyTree) -> PyTree:
  """Returns only the shardings of a tree's arrays."""
  return jax.tree.map(lambda each: each.sharding, state)


def _like(kept, param, where: NamedSharding) -> NamedSharding:
  """Where something lies that an optimizer keeps of a parameter."""
  spec = tuple(where.spec)
  if kept.shape == param.shape:
    return where
  for gone in range(len(param.shape)):
    if kept.shape == param.shape[:gone] + param.shape[gone + 1 :]:
      rest = PartitionSpec(*spec[:gone], *spec[gone + 1 :])
      return NamedSharding(where.mesh, rest)
  return NamedSharding(where.mesh, PartitionSpec())
