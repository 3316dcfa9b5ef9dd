"""One step of training an encoder-decoder: arrays in, arrays out."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from specdec_jax.array_typing import Array, Bool, Float, Int, Key, Params
from specdec_jax.t5.model import START_TOKEN, T5Model
from specdec_jax.training import loss as losses
from specdec_jax.training.distillation import Divergence


class TrainState(NamedTuple):
  """What a step changes; all that a checkpoint must hold.

  Attributes:
    params: The model's parameters.
    opt_state: The optimizer's state.
    step: Steps done.
  """

  params: Params
  opt_state: Any
  step: Int[Array, ""]


class Metrics(NamedTuple):
  """Of one batch, before its update.

  Attributes:
    loss: Mean cross entropy of a target token, in nats, without extras.
    tokens: Target tokens that counted.
    grad_norm: Before clipping.
  """

  loss: Float[Array, ""]
  tokens: Int[Array, ""]
  grad_norm: Float[Array, ""]


def shift_right(targets: Int[Array, "B T"]) -> Int[Array, "B T"]:
  """Returns the decoder's input: the start token, then all but the last."""
  return jnp.pad(targets[:, :-1], ((0, 0), (1, 0)), constant_values=START_TOKEN)


def token_logits(
  model: T5Model,
  params: Params,
  inputs: Int[Array, "B S"],
  targets: Int[Array, "B T"],
  *,
  dropout_key: Key[Array, ""] | None = None,
) -> Float[Array, "B T V"]:
  """Returns teacher-forced logits, with dropout where there is a key."""
  rngs = {} if dropout_key is None else {"dropout": dropout_key}
  return model.module.apply(
    {"params": params},
    inputs,
    shift_right(targets),
    deterministic=dropout_key is None,
    rngs=rngs,
  )


def init(
  params: Params, optimizer: optax.GradientTransformation
) -> TrainState:
  """Returns the state before the first step."""
  return TrainState(params, optimizer.init(params), jnp.zeros((), jnp.int32))


def make_train_step(
  model: T5Model,
  optimizer: optax.GradientTransformation,
  *,
  z_loss: float = 0.0,
  label_smoothing: float = 0.0,
  teacher: T5Model | None = None,
  distillation_weight: float = 0.0,
  divergence: Divergence | None = None,
) -> Callable[..., tuple[TrainState, Metrics]]:
  """Returns `step(state, inputs, targets, key, teacher_params)`, jitted.

  The state's buffers are donated. Each shape of the batch compiles once.

  Args:
    model: The model to train.
    optimizer: Its optimizer.
    z_loss: See `loss.cross_entropy`.
    label_smoothing: See `loss.cross_entropy`.
    teacher: Whose distributions to imitate besides the text, or None.
    distillation_weight: Share of that term in the objective; the text's
      cross entropy has the rest.
    divergence: What that term is; None for KL(teacher, model).
  """
  divergence = divergence or Divergence()
  use_dropout = model.config.dropout_rate > 0

  def objective(params, inputs, targets, key, teacher_params):
    logits = token_logits(
      model,
      params,
      inputs,
      targets,
      dropout_key=key if use_dropout else None,
    )
    mask = targets > 0
    tokens = jnp.maximum(mask.sum(), 1)
    plain = losses.cross_entropy(logits, targets, mask) / tokens
    total = plain
    if z_loss or label_smoothing:
      total = (
        losses.cross_entropy(
          logits,
          targets,
          mask,
          z_loss=z_loss,
          label_smoothing=label_smoothing,
        )
        / tokens
      )
    if teacher is not None and distillation_weight:
      wanted = jax.lax.stop_gradient(
        token_logits(teacher, teacher_params, inputs, targets)
      )
      distance = divergence(logits, wanted, mask) / tokens
      total = (1 - distillation_weight) * total + distillation_weight * distance
    return total, (plain, tokens)

  @functools.partial(jax.jit, donate_argnums=0)
  def step(state, inputs, targets, key, teacher_params=None):
    (_, (plain, tokens)), gradients = jax.value_and_grad(
      objective, has_aux=True
    )(
      state.params,
      inputs,
      targets,
      jax.random.fold_in(key, state.step),
      teacher_params,
    )
    updates, opt_state = optimizer.update(
      gradients, state.opt_state, state.params
    )
    params = optax.apply_updates(state.params, updates)
    return (
      TrainState(params, opt_state, state.step + 1),
      Metrics(plain, tokens, optax.tree.norm(gradients)),
    )

  return step


def make_acceptance_step(
  draft: T5Model, target: T5Model, divergence: Divergence
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
    laws = (
      token_logits(draft, params, inputs, targets),
      token_logits(target, target_params, inputs, targets),
    )
    mask: Bool[Array, "B T"] = targets > 0
    return (
      divergence(*laws, mask),
      divergence.acceptance(*laws, mask),
      mask.sum(),
    )

  return step


def make_eval_step(model: T5Model) -> Callable[..., tuple[Array, Array, Array]]:
  """Returns `step(params, inputs, targets)` -> sums of loss, hits, tokens."""

  @jax.jit
  def step(params, inputs, targets):
    logits = token_logits(model, params, inputs, targets)
    mask: Bool[Array, "B T"] = targets > 0
    hits = jnp.sum(mask & (jnp.argmax(logits, -1) == targets))
    return losses.cross_entropy(logits, targets, mask), hits, mask.sum()

  return step
