"""The optimizer: AdamW after clipping, warm-up, plateau, and a decay to 0."""

import optax


def schedule(
    peak: float, steps: int, warmup_steps: int, decay_steps: int
) -> optax.Schedule:
  """Returns warm-up to `peak`, a plateau, and a linear decay that ends at 0.

  The plateau lets the number of steps be changed until the decay begins.

  Args:
    peak: The learning rate of the plateau.
    steps: All steps.
    warmup_steps: Steps of the linear rise.
    decay_steps: Steps of the linear fall.

  Raises:
    ValueError: If rise and fall are longer than the run.
  """
  plateau = steps - warmup_steps - decay_steps
  if min(warmup_steps, decay_steps, plateau) < 0:
    raise ValueError(
        f"warmup_steps={warmup_steps} and decay_steps={decay_steps} do not fit"
        f" into steps={steps}; raise steps or shorten them."
    )
  return optax.join_schedules(
      [
          optax.linear_schedule(peak / max(warmup_steps, 1), peak, warmup_steps),
          optax.constant_schedule(peak),
          optax.linear_schedule(peak, 0.0, decay_steps),
      ],
      [warmup_steps, warmup_steps + plateau],
  )


def adamw(
    learning_rate: optax.ScalarOrSchedule,
    *,
    weight_decay: float = 0.01,
    clip_norm: float = 1.0,
    b2: float = 0.98,
) -> optax.GradientTransformation:
  """Returns AdamW whose gradients are first clipped to `clip_norm`."""
  return optax.chain(
      optax.clip_by_global_norm(clip_norm),
      optax.adamw(learning_rate, b1=0.9, b2=b2, weight_decay=weight_decay),
  )
