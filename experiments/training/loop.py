"""Runs training steps; logs, evaluates and keeps checkpoints in between."""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import jax

from experiments.training.checkpoints import Checkpoints
from experiments.training.metrics import MetricsLog
from experiments.training.progress import Averages, Display, Tracker
from specdec_jax.array_typing import Key, Params
from specdec_jax.training.batching import Batch, Batches
from specdec_jax.training.step import TrainState


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


def train(
  *,
  state: TrainState,
  averages: Averages,
  train_step: Callable,
  evaluate: Callable[[Params], dict[str, float]],
  batches: Batches,
  place: Callable[[Batch], Batch],
  key: Key[jax.Array, ""],
  config: LoopConfig,
  metrics: MetricsLog,
  checkpoints: Checkpoints,
  notes: dict[str, Any],
  extra: tuple[Any, ...] = (),
) -> TrainState:
  """Trains until `config.steps`.

  Args:
    state: Where to begin; its buffers are used up.
    averages: As they were there.
    train_step: From `make_train_step`.
    evaluate: Returns scores of parameters.
    batches: What to train on; batch i is step i's.
    place: Puts a batch where the step wants it.
    key: For dropout.
    config: See `LoopConfig`.
    metrics: Where metrics go.
    checkpoints: Where states go.
    notes: What a checkpoint should hold besides.
    extra: More arguments of `train_step`.

  Returns:
    The state after the last step.
  """
  tracker = Tracker(int(state.step), averages)
  with Display(tracker, config.steps) as display:
    while tracker.done < config.steps:
      batch = place(batches[tracker.done])
      state, step_metrics = train_step(state, *batch, key, *extra)
      tracker.add(step_metrics)
      display.step()
      done = tracker.done
      last = done == config.steps
      if done % config.log_every == 0 or last:
        tracker.settle()
        line = tracker.line()
        metrics.write(done, **line)
        display.train_line(line)
      if done % config.evaluate_every == 0 or last:
        with _aside(tracker):
          scores = evaluate(state.params)
          metrics.write(done, **scores)
          display.scores(scores)
      if done % config.checkpoint_every == 0 or last:
        with _aside(tracker):
          checkpoints.save(state, done, {**notes, **tracker.averages()})
  return state


@contextlib.contextmanager
def _aside(tracker: Tracker):
  """Something that is no training: after the last step, off its clock."""
  tracker.settle()
  with tracker.not_training():
    yield
