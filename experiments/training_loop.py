"""Runs training steps; keeps checkpoints and a log, and goes on from them."""

import dataclasses
import json
import logging
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

from specdec_jax.array_typing import Key, Params
from specdec_jax.training.batching import Batch, Batches
from specdec_jax.training.step import TrainState

log = logging.getLogger(__name__)

METRICS = "metrics.jsonl"
CHECKPOINTS = "checkpoints"


@dataclasses.dataclass(frozen=True)
class LoopConfig:
  """How often a run tells and keeps what.

  Attributes:
    steps: Steps of the whole run.
    log_every: Steps between lines of training metrics.
    evaluate_every: Steps between evaluations.
    checkpoint_every: Steps between checkpoints.
  """

  steps: int
  log_every: int = 20
  evaluate_every: int = 400
  checkpoint_every: int = 250

  def __post_init__(self):
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if not isinstance(value, int) or value < 1:
        raise ValueError(
          f"LoopConfig.{field.name} is {value!r}; it must be a positive"
          " integer."
        )


def evaluate(
  eval_step: Callable, params: Params, batches: Sequence[Batch]
) -> dict[str, float]:
  """Returns the mean loss of a token, and how often the argmax is right."""
  loss, hits, tokens = (
    sum(map(float, each))
    for each in zip(
      *(eval_step(params, *batch) for batch in batches), strict=True
    )
  )
  return {
    "validation_loss": loss / tokens,
    "validation_accuracy": hits / tokens,
  }


def train(
  *,
  state: TrainState,
  train_step: Callable,
  eval_step: Callable,
  batches: Batches,
  held_out: Sequence[Batch],
  key: Key[jax.Array, ""],
  config: LoopConfig,
  output_dir: str,
  extra: tuple[Any, ...] = (),
) -> TrainState:
  """Trains until `config.steps`, from the newest checkpoint if there is one.

  Args:
    state: Where to begin; its buffers are used up.
    train_step: From `make_train_step`.
    eval_step: From `make_eval_step`.
    batches: What to train on; batch i is step i's.
    held_out: What to evaluate on.
    key: For dropout.
    config: See `LoopConfig`.
    output_dir: Where checkpoints and metrics.jsonl go.
    extra: More arguments of `train_step`.

  Returns:
    The state after the last step.
  """
  import orbax.checkpoint as ocp

  folder = pathlib.Path(output_dir).resolve()
  folder.mkdir(parents=True, exist_ok=True)
  options = ocp.CheckpointManagerOptions(
    max_to_keep=2, enable_async_checkpointing=False
  )
  with (
    ocp.CheckpointManager(folder / CHECKPOINTS, options=options) as manager,
    open(folder / METRICS, "a", encoding="utf-8") as metrics_file,
  ):

    def record(**values):
      metrics_file.write(json.dumps(values) + "\n")
      metrics_file.flush()

    if manager.latest_step() is not None:
      state = manager.restore(
        manager.latest_step(), args=ocp.args.StandardRestore(state)
      )
      log.info("goes on from step %d", int(state.step))
    progress = _Progress(int(state.step), config.steps)
    for number in range(int(state.step), config.steps):
      state, metrics = train_step(state, *batches[number], key, *extra)
      progress.add(float(metrics.loss), int(metrics.tokens))
      done = number + 1
      last = done == config.steps
      if done % config.log_every == 0 or last:
        line = progress.line()
        record(step=done, grad_norm=float(metrics.grad_norm), **line)
        log.info(progress.text(line))
      if done % config.evaluate_every == 0 or last:
        scores = evaluate(eval_step, state.params, held_out)
        record(step=done, **scores)
        log.info("step %d: %s", done, scores)
      if done % config.checkpoint_every == 0 or last:
        manager.save(done, args=ocp.args.StandardSave(state))
  return state


class _Progress:
  """Averages since the last line, and the time that is left."""

  def __init__(self, first: int, steps: int):
    self._first, self._done, self._steps = first, first, steps
    self._start = time.monotonic()
    self._loss, self._tokens, self._seen = 0.0, 0, 0

  def add(self, loss: float, tokens: int) -> None:
    self._loss += loss * tokens
    self._tokens += tokens
    self._seen += tokens
    self._done += 1

  def line(self) -> dict[str, float]:
    line = {
      "loss": self._loss / self._tokens,
      "tokens": self._tokens,
      "elapsed": time.monotonic() - self._start,
    }
    self._loss, self._tokens = 0.0, 0
    return line

  def text(self, line: dict[str, float]) -> str:
    per_step = line["elapsed"] / (self._done - self._first)
    return (
      f"step {self._done}/{self._steps}  loss {line['loss']:.3f}"
      f"  {self._seen / line['elapsed']:.0f} tokens/s"
      f"  {per_step * (self._steps - self._done) / 60:.0f} min left"
    )
