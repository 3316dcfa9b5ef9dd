"""Starts a T5 from a smaller one that is already trained.

The larger model computes what the smaller one computes, so no training is lost
(Chen et al. 2016, "Net2Net"; progressive stacking is the same idea by layers).
Old values fill the leading corner of every array. What writes to the residual
stream (embedding, attention's `out`, the feed-forward's `wo`) is 0 elsewhere:
new dimensions of the stream, new heads, hidden units and layers say nothing
yet. What reads from the stream is random there, so that they can learn to.
"""

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
    ValueError: If anything else differs, one of these is less, emb_dim grows
      although the logits use the embedding (their scale depends on emb_dim),
      or layers are added where each has its own table of biases.
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
