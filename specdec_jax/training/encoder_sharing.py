"""Takes a trained draft's encoder away, and lets it read its target's instead.

A draft's own encoder is small, so it knows less of the inputs than the target
does. The target has encoded them anyway: a draft whose decoder attends to that
reads more, and computes less (`t5.SharedEncoder`).

What the draft's attention to the inputs has learned is kept as well as can be.
Its keys and values are linear in the encoding, so a matrix that maps the
target's encoding to the draft's, fitted over text by least squares, is
multiplied into their kernels. Training has the rest to mend.
"""

import dataclasses
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.array_typing import Float, Int, Params
from specdec_jax.t5.config import T5Config
from specdec_jax.t5.model import T5Model

_RIDGE = 1e-4
"""On the diagonal of the normal equations, of its mean."""

_CROSS_ATTENTION = "encoder_decoder_attention"


def share_encoder(
  draft: T5Model,
  draft_params: Params,
  target: T5Model,
  target_params: Params,
  batches: Iterable[Int[np.ndarray, "B S"]],
) -> tuple[T5Config, Params, float]:
  """Returns the draft's decoder for the target's encoder.

  Args:
    draft: A model with an encoder of its own.
    draft_params: Its parameters, as `t5.load` returns them.
    target: The model whose encoder is to be shared.
    target_params: Its parameters.
    batches: Inputs to fit the matrix over, int32[B, S] each, padded with 0;
      many more tokens than the target's emb_dim.

  Returns:
    The new shape, its parameters, and the share of the draft's encoding (its
    variance around 0) that the target's tells by that matrix.

  Raises:
    ValueError: If either has no encoder of its own, or there are too few
      tokens.
  """
  for name, model in (("draft", draft), ("target", target)):
    if not model.config.has_encoder:
      raise ValueError(
        f"The {name} has no encoder of its own (num_encoder_layers is 0); give"
        " a T5 that has one."
      )
  matrix, explained = _fit(draft, draft_params, target, target_params, batches)

  def reread(path, value):
    names = [entry.key for entry in path]
    if _CROSS_ATTENTION in names and names[-2] in ("key", "value"):
      return jnp.asarray(matrix @ np.asarray(value, np.float64), value.dtype)
    return value

  config = dataclasses.replace(
    draft.config, num_encoder_layers=0, encoded_dim=target.config.emb_dim
  )
  kept = {
    name: value for name, value in draft_params.items() if name != "encoder"
  }
  return config, jax.tree_util.tree_map_with_path(reread, kept), explained


def _fit(
  draft, draft_params, target, target_params, batches
) -> tuple[Float[np.ndarray, "D d"], float]:
  """Fits the draft's encoding by a matrix times the target's."""

  @jax.jit
  def sums(target_params, draft_params, inputs):
    mask = (inputs > 0)[..., None]
    x = jnp.where(mask, target.encode(target_params, inputs), 0.0)
    y = jnp.where(mask, draft.encode(draft_params, inputs), 0.0)
    x, y = (each.reshape(-1, each.shape[-1]) for each in (x, y))
    return x.T @ x, x.T @ y, jnp.sum(y * y), jnp.sum(mask)

  total = None
  for inputs in batches:
    found = [
      np.asarray(each, np.float64)
      for each in sums(target_params, draft_params, jnp.asarray(inputs))
    ]
    total = found if total is None else list(map(np.add, total, found))
  width = target.config.emb_dim
  tokens = 0 if total is None else int(total[3])
  if total is None or tokens < width:
    raise ValueError(
      f"There are {tokens} tokens to fit a matrix with {width} rows; give more"
      " text."
    )
  covariance, shared, energy, _ = total
  ridge = _RIDGE * np.trace(covariance) / width
  matrix = np.linalg.solve(covariance + ridge * np.eye(width), shared)
  # Of the sum of squares of y - x M, without going over the text again.
  residual = (
    energy
    - 2 * np.sum(matrix * shared)
    + np.sum(matrix * (covariance @ matrix))
  )
  return matrix, float(1 - residual / energy)
