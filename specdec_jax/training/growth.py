"""Starts a T5 from a smaller one that is already trained.

The larger model computes what the smaller one computes, so no training is lost
(Chen et al. 2016, "Net2Net"; progressive stacking is the same idea by layers).
Old values fill the leading corner of every array. What writes to the residual
stream (embedding, attention's `out`, the feed-forward's `wo`) is 0 elsewhere:
new dimensions of the stream, new heads, hidden units and layers say nothing
yet. What reads from the stream is random there, so that they can learn to.

`unfold` makes a deeper T5 of as many parameters, whose feed-forward blocks are
narrower; that one computes nearly what the first one does.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Key, Params
from specdec_jax.t5.config import T5Config
from specdec_jax.t5.model import T5Model

_GROWS = (
  "emb_dim",
  "num_heads",
  "mlp_dim",
  "num_encoder_layers",
  "num_decoder_layers",
)


def grow(
  key: Key[Array, ""], old: T5Config, params: Params, new: T5Config
) -> Params:
  """Returns parameters of a larger T5 with the same logits.

  Args:
    key: For the new values.
    old: The smaller model's shape.
    params: Its parameters, which are not changed.
    new: The larger model's shape. It may have more of emb_dim, num_heads,
      mlp_dim and layers; new layers come after the old.

  Raises:
    ValueError: If anything else differs, one of these is less, or emb_dim
      grows although the logits use the embedding (their scale depends on it).
  """
  _check(old, new)
  # A norm divides by the mean over all dimensions, of which the new are 0.
  norm_scale = math.sqrt(old.emb_dim / new.emb_dim)

  def place(path, fresh):
    names = [entry.key for entry in path]
    if {"embedding", "out", "wo"} & set(names):
      fresh = jnp.zeros_like(fresh)
    values = params
    for name in names:
      if name not in values:
        return fresh  # A new layer.
      values = values[name]
    if names[-1] == "scale":
      values = values * norm_scale
    corner = tuple(slice(size) for size in values.shape)
    return fresh.at[corner].set(values)

  return jax.tree_util.tree_map_with_path(place, T5Model(new).init(key))


def unfold(
  key: Key[Array, ""], old: T5Config, params: Params, parts: int
) -> tuple[T5Config, Params]:
  """Returns a T5 with each layer cut into several, and its shape.

  Of a layer's feed-forward block each of the new layers has a part of the
  hidden units. The first has its attention too; those of the others are new,
  and silent. In place of a sum the parts are now applied one after the other,
  each to a stream that already has what those before it wrote. That is little
  beside the stream itself, so the logits change little, and training has the
  rest to mend.

  Args:
    key: For the new values.
    old: The model's shape.
    params: Its parameters, which are not changed.
    parts: How many layers to make of each.

  Raises:
    ValueError: If mlp_dim is not divisible by `parts`, or each layer has its
      own table of biases.
  """
  if parts < 1 or old.mlp_dim % parts or old.relative_bias_per_layer:
    raise ValueError(
      f"A layer with mlp_dim {old.mlp_dim} and relative_bias_per_layer="
      f"{old.relative_bias_per_layer} cannot be cut into {parts}; mlp_dim must"
      " be divisible by that, and the tables shared."
    )
  mlp_dim = old.mlp_dim // parts
  new = dataclasses.replace(
    old,
    mlp_dim=mlp_dim,
    num_encoder_layers=old.num_encoder_layers * parts,
    num_decoder_layers=old.num_decoder_layers * parts,
  )
  fresh = T5Model(new).init(key)

  def place(path, value):
    names = [entry.key for entry in path]
    part = 0
    if names[1].startswith("layers_"):
      layer, part = divmod(int(names[1].removeprefix("layers_")), parts)
      names[1] = f"layers_{layer}"
    found = params
    for name in names:
      found = found[name]
    units = slice(part * mlp_dim, (part + 1) * mlp_dim)
    if "wo" in names:
      return found[units]
    if "mlp" in names:
      return found[:, units]
    if part == 0 or names[-1] == "scale":
      return found
    return jnp.zeros_like(value) if "out" in names else value

  return new, jax.tree_util.tree_map_with_path(place, fresh)


def _check(old: T5Config, new: T5Config) -> None:
  for field in T5Config.__dataclass_fields__:
    before, after = getattr(old, field), getattr(new, field)
    if field in _GROWS:
      if after < before:
        raise ValueError(
          f"T5Config.{field} is {after}, less than the {before} of the model"
          " to start from; a model can only grow."
        )
    elif before != after and field not in ("dropout_rate", "dtype"):
      raise ValueError(
        f"T5Config.{field} is {after!r}, but {before!r} in the model to start"
        f" from; only {', '.join(_GROWS)} can grow."
      )
  if old.logits_via_embedding and old.emb_dim != new.emb_dim:
    raise ValueError(
      f"T5Config.emb_dim is {new.emb_dim}, but {old.emb_dim} in the model to"
      " start from, whose logits use the embedding; keep emb_dim, or start"
      " from a model with logits_via_embedding=False."
    )
