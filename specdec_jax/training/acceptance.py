"""How near a draft has come to its target, over a batch."""

from collections.abc import Callable

import jax

from specdec_jax.array_typing import Array
from specdec_jax.training.distillation import Divergence
from specdec_jax.training.step import Model, shared_encoding, token_logits


def make_acceptance_step(
  draft: Model, target: Model, divergence: Divergence
) -> Callable[..., tuple[Array, Array, Array]]:
  """Returns `step(params, target_params, inputs, targets)`, jitted.

  It returns sums of the divergence and of beta, and the number of tokens: over
  the target's own outputs the second by the third is alpha.

  Args:
    draft: The draft.
    target: The target.
    divergence: How far they are apart, and how they will decode.
  """

  @jax.jit
  def step(params, target_params, inputs, targets):
    encoded = shared_encoding(draft, target, target_params, inputs)
    logits = token_logits(draft, params, inputs, targets, encoded=encoded)
    target_logits = token_logits(
      target, target_params, inputs, targets, encoded=encoded
    )
    mask = targets > 0
    return (
      divergence(logits, target_logits, mask),
      divergence.acceptance(logits, target_logits, mask),
      mask.sum(),
    )

  return step
