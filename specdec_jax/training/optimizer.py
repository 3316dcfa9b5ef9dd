"""The optimizer: Adam by relative steps; warm-up, plateau, decay to 0."""

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
      optax.linear_schedule(peak / (warmup_steps + 1), peak, warmup_steps),
      optax.constant_schedule(peak),
      optax.linear_schedule(peak, 0.0, decay_steps),
    ],
    [warmup_steps, warmup_steps + plateau],
  )


def scaled_adam(
  learning_rate: optax.ScalarOrSchedule,
  *,
  clip_norm: float = 1.0,
  b2: float = 0.98,
) -> optax.GradientTransformation:
  """Returns Adam with steps in proportion to each array's own size.

  T5's initial values differ in size between arrays: the embedding's deviation
  is 1, while the queries' holds attention's 1 / sqrt(head_dim). Adam's equal
  steps would be too short for the one and far too long for the other, so each
  array's step is a share of its root mean square, as in Adafactor, with which
  T5 was trained.

  Args:
    learning_rate: That share; T5 starts with 0.01.
    clip_norm: Largest norm of all gradients together.
    b2: Decay of Adam's second moment.
  """
  return optax.chain(
    optax.clip_by_global_norm(clip_norm),
    optax.scale_by_adam(b1=0.9, b2=b2),
    optax.scale_by_param_block_rms(min_scale=1e-3),
    optax.scale_by_learning_rate(learning_rate),
  )
