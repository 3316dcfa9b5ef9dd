"""Optimizers and schedules of the learning rate, and a choice among them."""

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
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


def inverse_square_root(peak: float, constant_steps: int) -> optax.Schedule:
  """Returns a plateau, and then a fall as 1 / sqrt(step) without an end.

  T5 was trained with a plateau of 0.01 over 10,000 steps.

  Args:
    peak: The learning rate of the plateau.
    constant_steps: Steps of the plateau, at least 1.
  """
  if constant_steps < 1:
    raise ValueError(
      f"constant_steps is {constant_steps}; it must be at least 1."
    )

  def rate(count):
    return peak * jnp.sqrt(constant_steps / jnp.maximum(count, constant_steps))

  return rate


def scaled_adam(
  learning_rate: optax.ScalarOrSchedule,
  *,
  clip_norm: float | None = 1.0,
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
    clip_norm: Largest norm of all gradients together; None for any.
    b2: Decay of Adam's second moment.
  """
  return optax.chain(
    _clip(clip_norm),
    optax.scale_by_adam(b1=0.9, b2=b2),
    optax.scale_by_param_block_rms(min_scale=1e-3),
    optax.scale_by_learning_rate(learning_rate),
  )


def adafactor(
  learning_rate: optax.ScalarOrSchedule, *, clip_norm: float | None = None
) -> optax.GradientTransformation:
  """Returns Adafactor with the settings with which T5X trains T5.

  No momentum; second moments of matrices with both sides of 128 or more are
  kept as sums over rows and columns, and forget as 1 - step ** -0.8; each
  array's update is clipped to a root mean square of 1, and is in proportion to
  the array's own.

  Args:
    learning_rate: The share of an array's root mean square; T5 starts with
      0.01, and is fine-tuned with 0.001.
    clip_norm: Largest norm of all gradients together; None, as in T5, for any.
  """
  return optax.chain(
    _clip(clip_norm),
    optax.adafactor(
      learning_rate,
      min_dim_size_to_factor=128,
      decay_rate=0.8,
      multiply_by_parameter_scale=True,
      clipping_threshold=1.0,
      momentum=None,
      weight_decay_rate=None,
      eps=1e-30,
      factored=True,
    ),
  )


def adamw(
  learning_rate: optax.ScalarOrSchedule,
  *,
  clip_norm: float | None = 1.0,
  b2: float = 0.98,
  weight_decay: float = 0.01,
) -> optax.GradientTransformation:
  """Returns AdamW; norm scales do not decay.

  Args:
    learning_rate: The length of a step.
    clip_norm: Largest norm of all gradients together; None for any.
    b2: Decay of Adam's second moment.
    weight_decay: What share of `learning_rate` each matrix shrinks by.
  """
  return optax.chain(
    _clip(clip_norm),
    optax.adamw(
      learning_rate,
      b1=0.9,
      b2=b2,
      weight_decay=weight_decay,
      mask=lambda params: jax.tree.map(lambda x: x.ndim > 1, params),
    ),
  )


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
  """Which optimizer, and how its learning rate goes.

  Attributes:
    learning_rate: The highest.
    name: "scaled_adam", "adafactor" or "adamw".
    decay: "linear", as in `schedule`, or "inverse_square_root".
    warmup_steps: First steps: those of the rise if the decay is linear, of the
      plateau otherwise.
    decay_steps: Last steps, over which it falls to 0 if the decay is linear;
      otherwise 0, since that has no end.
    clip_norm: Largest norm of a gradient; None for any, as T5 has it.
    weight_decay: See `adamw`; 0 with other optimizers.
    b2: See `scaled_adam`; Adafactor does not use it.
  """

  learning_rate: float
  name: str = "scaled_adam"
  decay: str = "linear"
  warmup_steps: int = 100
  decay_steps: int = 1000
  clip_norm: float | None = 1.0
  weight_decay: float = 0.0
  b2: float = 0.98

  def __post_init__(self):
    for field, known in (("name", _OPTIMIZERS), ("decay", _DECAYS)):
      if getattr(self, field) not in known:
        raise ValueError(
          f"OptimizerConfig.{field} is {getattr(self, field)!r}; there are"
          f" {', '.join(known)}."
        )
    if self.weight_decay and self.name != "adamw":
      raise ValueError(
        f"OptimizerConfig.weight_decay is {self.weight_decay}, which"
        f" {self.name} does not have; set it to 0, or name to 'adamw'."
      )
    if self.decay_steps and self.decay != "linear":
      raise ValueError(
        f"OptimizerConfig.decay_steps is {self.decay_steps}, but the decay"
        f" {self.decay!r} has no end; set decay_steps to 0."
      )

  def schedule(self, steps: int) -> optax.Schedule:
    """Returns the learning rate of a run of so many steps."""
    if self.decay == "linear":
      return schedule(
        self.learning_rate, steps, self.warmup_steps, self.decay_steps
      )
    return inverse_square_root(self.learning_rate, self.warmup_steps)

  def make(self, steps: int) -> optax.GradientTransformation:
    """Returns the optimizer of a run of so many steps."""
    return _OPTIMIZERS[self.name](self, self.schedule(steps))

  def steps_before_decay(self, steps: int) -> float:
    """Returns how many steps do not depend on how many there are in all."""
    return steps - self.decay_steps if self.decay == "linear" else math.inf


_DECAYS = ("linear", "inverse_square_root")

_OPTIMIZERS: dict[str, Callable[..., optax.GradientTransformation]] = {
  "scaled_adam": lambda config, rate: scaled_adam(
    rate, clip_norm=config.clip_norm, b2=config.b2
  ),
  "adafactor": lambda config, rate: adafactor(rate, clip_norm=config.clip_norm),
  "adamw": lambda config, rate: adamw(
    rate,
    clip_norm=config.clip_norm,
    b2=config.b2,
    weight_decay=config.weight_decay,
  ),
}


def _clip(norm: float | None) -> optax.GradientTransformation:
  return optax.identity() if norm is None else optax.clip_by_global_norm(norm)
