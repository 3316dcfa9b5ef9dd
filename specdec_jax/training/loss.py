"""Losses over a batch of logits, in float32; padded positions count nothing.

Sums, not means, so that batches of different fill average correctly.
"""

import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Bool, Float, Int


def cross_entropy(
  logits: Float[Array, "B T V"],
  targets: Int[Array, "B T"],
  mask: Bool[Array, "B T"],
  *,
  z_loss: float = 0.0,
  label_smoothing: float = 0.0,
) -> Float[Array, ""]:
  """Sums -log p(target) over the unmasked positions.

  Args:
    logits: Unnormalised log probabilities.
    targets: What should come.
    mask: The positions that count.
    z_loss: Weight of log(Z)^2, which keeps the logits from drifting.
    label_smoothing: The share of the target spread over the vocabulary.
  """
  logits = logits.astype(jnp.float32)
  log_z = jax.nn.logsumexp(logits, axis=-1)
  hit = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
  loss = log_z - hit
  if label_smoothing:
    uniform = log_z - logits.mean(axis=-1)
    loss = (1 - label_smoothing) * loss + label_smoothing * uniform
  if z_loss:
    loss = loss + z_loss * jnp.square(log_z)
  return jnp.sum(jnp.where(mask, loss, 0.0))
