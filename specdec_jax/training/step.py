"""One step of training a T5 or a language model: arrays in, arrays out."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from specdec_jax.array_typing import (
  Array,
  Bool,
  Float,
  Int,
  Key,
  Params,
  PyTree,
)
from specdec_jax.lm.model import LMModel
from specdec_jax.t5.model import START_TOKEN, T5Model
from specdec_jax.t5.network import T5
from specdec_jax.training import loss as losses
from specdec_jax.training.distillation import Divergence
from specdec_jax.training.exits import ExitLoss

Model = T5Model | LMModel


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
    loss: Mean cross entropy of a target token, in nats, without extras; where
      a teacher alone is learned from, the mean divergence from it.
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
  model: Model,
  params: Params,
  inputs: Int[Array, "B S"],
  targets: Int[Array, "B T"],
  *,
  dropout_key: Key[Array, ""] | None = None,
  encoded: Float[Array, "B S D"] | None = None,
) -> Float[Array, "B T V"]:
  """Returns teacher-forced logits, with dropout where there is a key.

  Args:
    model: The model.
    params: Its parameters.
    inputs: Encoder tokens; those of a decoder-only model are its prompts, and
      as wide as its targets.
    targets: Decoder tokens; those of a decoder-only model begin in the column
      after their prompt's last (`Batching.joined`).
    dropout_key: For dropout; None for none.
    encoded: What an encoder returned of the inputs; None to run the model's.
  """
  rngs = {} if dropout_key is None else {"dropout": dropout_key}
  method = None
  if isinstance(model, LMModel):
    # Prompt and text fill columns of their own, so the sum has them in turn.
    arguments = (shift_right(inputs + targets),)
  elif encoded is not None:
    arguments = (encoded, inputs, shift_right(targets))
    method = T5.decode
  else:
    arguments = (inputs, shift_right(targets))
  logits = model.module.apply(
    {"params": params},
    *arguments,
    method=method,
    deterministic=dropout_key is None,
    rngs=rngs,
  )
  return logits  # type: ignore


def exit_logits(
  model: Model,
  params: Params,
  inputs: Int[Array, "B S"],
  targets: Int[Array, "B T"],
  exits: Sequence[int],
  *,
  dropout_key: Key[Array, ""] | None = None,
  layer_dropout: Sequence[float] = (),
) -> list[Float[Array, "B T V"]]:
  """Returns teacher-forced logits of early exits, and last the model's own.

  Args:
    model: The model; a T5 has an encoder of its own.
    params: Its parameters.
    inputs: As in `token_logits`.
    targets: Likewise.
    exits: After how many layers of the decoder.
    dropout_key: For dropout; None for none, of layers neither.
    layer_dropout: For each layer, how likely a row skips it; () for none.
  """
  if isinstance(model, LMModel):
    arguments = (shift_right(inputs + targets),)
  else:
    arguments = (inputs, shift_right(targets))
  logits = model.module.apply(
    {"params": params},
    *arguments,
    exits,
    layer_dropout if dropout_key is not None else (),
    method="exits",
    deterministic=dropout_key is None,
    rngs={} if dropout_key is None else {"dropout": dropout_key},
  )
  return logits  # type: ignore


def shared_encoding(
  model: Model,
  teacher: Model | None,
  teacher_params: Params,
  inputs: Int[Array, "B S"],
) -> Float[Array, "B S D"] | None:
  """Returns what the teacher's encoder makes of the inputs, without gradient.

  Args:
    model: Who reads it.
    teacher: The model whose encoder it shares.
    teacher_params: Its parameters.
    inputs: int32[B, S], encoder tokens.

  Returns:
    float32[B, S, D]; None if the model has an encoder of its own, or needs
    none.

  Raises:
    ValueError: If there is no teacher, or its encoder has another width.
  """
  if isinstance(model, LMModel) or not model.shares_encoder:
    return None
  width = model.config.encoded_dim
  if not isinstance(teacher, T5Model) or teacher.config.emb_dim != width:
    found = None if teacher is None else teacher.config
    raise ValueError(
      f"The model has no encoder, and T5Config.encoded_dim is {width}; it"
      " learns from a target with an encoder of that emb_dim, and not from"
      f" {found}."
    )
  return jax.lax.stop_gradient(teacher.encode(teacher_params, inputs))


def init(params: Params, optimizer: optax.GradientTransformation) -> TrainState:
  """Returns the state before the first step."""
  return TrainState(params, optimizer.init(params), jnp.zeros((), jnp.int32))


def make_train_step(
  model: Model,
  optimizer: optax.GradientTransformation,
  *,
  z_loss: float = 0.0,
  label_smoothing: float = 0.0,
  exit_loss: ExitLoss | None = None,
  teacher: Model | None = None,
  distillation_weight: float = 0.0,
  divergence: Divergence | None = None,
  microbatches: int = 1,
  shardings: PyTree | None = None,
) -> Callable[..., tuple[TrainState, Metrics]]:
  """Returns `step(state, inputs, targets, key, teacher_params)`, jitted.

  The state's buffers are donated. Each shape of the batch compiles once.

  Args:
    model: The model to train.
    optimizer: Its optimizer.
    z_loss: See `loss.cross_entropy`.
    label_smoothing: See `loss.cross_entropy`.
    exit_loss: What early exits add to the text's cross entropy; None for
      nothing.
    teacher: Whose distributions to imitate besides the text, or None.
    distillation_weight: Share of that term in the objective; the text's
      cross entropy has the rest.
    divergence: What that term is; None for KL(teacher, model).
    microbatches: How many parts of a batch to go through one after the other,
      to need less memory. The gradient is that of the whole batch: each token
      weighs the same, whatever part it is in.
    shardings: Where the new state lies, a `TrainState` of shardings; None
      leaves it to the compiler.

  Raises:
    ValueError: If the model has not the exits of `exit_loss`.
  """
  divergence = divergence or Divergence()
  use_dropout = model.config.dropout_rate > 0
  if exit_loss is not None:
    exit_loss.check(model)
    use_dropout |= exit_loss.layer_dropout > 0

  def objective(params, inputs, targets, key, teacher_params, tokens):
    """Returns a part's share of the objective, and of the plain loss."""
    encoded = shared_encoding(model, teacher, teacher_params, inputs)
    dropout_key = key if use_dropout else None
    mask = targets > 0

    def text_loss(logits, **extras):
      return losses.cross_entropy(logits, targets, mask, **extras) / tokens

    extras = {"z_loss": z_loss, "label_smoothing": label_smoothing}
    if exit_loss is None:
      logits = token_logits(
        model,
        params,
        inputs,
        targets,
        dropout_key=dropout_key,
        encoded=encoded,
      )
      total = text_loss(logits, **extras)
    else:
      *exits, logits = exit_logits(
        model,
        params,
        inputs,
        targets,
        exit_loss.exits,
        dropout_key=dropout_key,
        layer_dropout=exit_loss.skip_rates(model),
      )
      total = exit_loss.mix(
        text_loss(logits, **extras),
        [text_loss(each, **extras) for each in exits],
      )
    plain = text_loss(logits)
    if teacher is not None and distillation_weight:
      wanted = jax.lax.stop_gradient(
        token_logits(teacher, teacher_params, inputs, targets, encoded=encoded)
      )
      distance = divergence(logits, wanted, mask) / tokens
      total = (1 - distillation_weight) * total + distillation_weight * distance
      if distillation_weight == 1:
        plain = distance
    return total, plain

  gradient_of = jax.value_and_grad(objective, has_aux=True)

  def loss_and_gradients(params, inputs, targets, key, teacher_params, tokens):
    if microbatches == 1:
      (_, plain), gradients = gradient_of(
        params, inputs, targets, key, teacher_params, tokens
      )
      return plain, gradients

    def add_part(sums, part):
      number, *batch = part
      part_key = jax.random.fold_in(key, number)
      (_, plain), gradients = gradient_of(
        params, *batch, part_key, teacher_params, tokens
      )
      return jax.tree.map(jnp.add, sums, (plain, gradients)), None

    parts = (
      jnp.arange(microbatches),
      _parts(inputs, microbatches),
      _parts(targets, microbatches),
    )
    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    return jax.lax.scan(add_part, zeros, parts)[0]

  def step(state, inputs, targets, key, teacher_params=None):
    tokens = jnp.maximum(jnp.sum(targets > 0), 1)
    plain, gradients = loss_and_gradients(
      state.params,
      inputs,
      targets,
      jax.random.fold_in(key, state.step),
      teacher_params,
      tokens,
    )
    updates, opt_state = optimizer.update(
      gradients, state.opt_state, state.params
    )
    params = optax.apply_updates(state.params, updates)
    return (
      TrainState(params, opt_state, state.step + 1),
      Metrics(plain, tokens, optax.tree.norm(gradients)),
    )

  # None leaves the place of the metrics to the compiler.
  places: dict[str, Any] = {}
  if shardings is not None:
    places["out_shardings"] = (shardings, None)
  return jax.jit(step, donate_argnums=0, **places)


def make_eval_step(
  model: Model, teacher: Model | None = None
) -> Callable[..., tuple[Array, Array, Array]]:
  """Returns what sums loss, hits and tokens of a batch.

  It is called `step(params, inputs, targets, teacher_params)`.

  Args:
    model: The model.
    teacher: The model whose encoder it shares; None if it has its own.
  """

  @jax.jit
  def step(params, inputs, targets, teacher_params=None):
    encoded = shared_encoding(model, teacher, teacher_params, inputs)
    logits = token_logits(model, params, inputs, targets, encoded=encoded)
    mask: Bool[Array, "B T"] = targets > 0
    hits = jnp.sum(mask & (jnp.argmax(logits, -1) == targets))
    return losses.cross_entropy(logits, targets, mask), hits, mask.sum()

  return step


def _parts(rows: Int[Array, "B T"], parts: int) -> Int[Array, "M b T"]:
  """Cuts a batch into parts, each with rows of every device's share."""
  if rows.shape[0] % parts:
    raise ValueError(
      f"A batch of {rows.shape[0]} rows is not to be cut into {parts}"
      " microbatches; give Batching.rows_multiple that number."
    )
  return rows.reshape(-1, parts, *rows.shape[1:]).swapaxes(0, 1)
