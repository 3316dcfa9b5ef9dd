"""The whole of decoding, lowered from shapes for devices that are elsewhere."""

from typing import Any

import jax
import numpy as np
from flax import traverse_util
from jax.sharding import Mesh

import specdec_jax as sd
from experiments.decoding.random_pair import RandomModel
from specdec_jax import partitioning, speculative
from specdec_jax.drafters import ReplicatedDrafter


def lower(
  target: RandomModel,
  draft: RandomModel | None,
  *,
  config: sd.SpeculativeConfig,
  mesh: Mesh,
  batch_size: int,
  input_length: int,
  replicate_draft: bool = True,
) -> Any:
  """Traces a generation, prefill and loop, without weights.

  It is the program that `speculative_generate` runs, for arguments that lie on
  a mesh.

  Args:
    target: The target, whose parameters are cut along the mesh's "model".
    draft: The draft; None for plain decoding.
    config: How they decode.
    mesh: Of any devices, also of some that are not there.
    batch_size: Rows side by side, cut along the mesh's "data".
    input_length: Tokens of an input.
    replicate_draft: Whether each device holds the draft whole, instead of its
      part.

  Returns:
    What `compile` may be called on.

  Raises:
    ValueError: If a dimension cannot be cut into so many parts.
  """
  drafter = None
  if draft is not None:
    drafter = sd.model_drafter(draft.model)
    if replicate_draft:
      drafter = ReplicatedDrafter(drafter, mesh)
  run, inputs = speculative.prepare(
    jax.random.key(0),
    np.ones((batch_size, input_length), np.int32),
    target=target.model,
    target_params=_abstract_params(target, mesh),
    drafter=drafter,
    draft_params=None
    if draft is None
    else _abstract_params(draft, mesh, replicate=replicate_draft),
    config=config,
  )

  def place(each):
    if isinstance(each, jax.ShapeDtypeStruct):
      return each
    where = (
      partitioning.batch_sharding(mesh)
      if each.shape[:1] == (batch_size,)
      else partitioning.replicated(mesh)
    )
    return jax.ShapeDtypeStruct(each.shape, each.dtype, sharding=where)

  return speculative._generate.lower(*jax.tree.map(place, (run, inputs)))


def argument_bytes(
  target: RandomModel,
  draft: RandomModel | None,
  *,
  mesh: Mesh | Any,
  replicate_draft: bool = True,
) -> int:
  """Returns what a device holds of the parameters.

  Args:
    target: As in `lower`.
    draft: Likewise.
    mesh: Likewise, or only its shape.
    replicate_draft: Likewise.
  """
  total = 0
  for model, replicate in ((target, False), (draft, replicate_draft)):
    if model is None:
      continue
    for each in jax.tree.leaves(
      _abstract_params(model, mesh, replicate=replicate)
    ):
      part = each.sharding.shard_shape(each.shape)
      total += int(np.prod(part)) * each.dtype.itemsize
  return total


def _abstract_params(
  model: RandomModel, mesh: Mesh, *, replicate: bool = False
) -> Any:
  return jax.tree.map(
    lambda leaf, where: jax.ShapeDtypeStruct(
      leaf.shape, leaf.dtype, sharding=where
    ),
    traverse_util.unflatten_dict(model.leaves, sep="/"),
    partitioning.param_shardings(mesh, model.model, replicate=replicate),
  )
