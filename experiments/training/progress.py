"""How a run gets on: averages, speed, and what a terminal or a log shows."""

import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.progress import (
  BarColumn,
  MofNCompleteColumn,
  Progress,
  TextColumn,
  TimeRemainingColumn,
)

from specdec_jax.training.step import Metrics

log = logging.getLogger(__name__)


@dataclasses.dataclass
class Averages:
  """Sums since the last line, and since the run began.

  A checkpoint holds them, so that a line after a restart has the numbers which
  it would have had without.

  Attributes:
    loss: Sum of the losses since the last line, by tokens.
    tokens: Target tokens since the last line.
    tokens_in_all: Target tokens of the run.
    seconds: What the run has taken, with evaluations and checkpoints.
  """

  loss: float = 0.0
  tokens: int = 0
  tokens_in_all: int = 0
  seconds: float = 0.0


class Tracker:
  """Reads metrics one step late, so that the device need not wait for it."""

  def __init__(self, done: int, averages: Averages):
    """Starts the clock.

    Args:
      done: Steps done.
      averages: As the last checkpoint had them.
    """
    self.done = done
    self._averages = averages
    self._pending: Metrics | None = None
    self._grad_norm = math.nan
    self._began = time.monotonic() - averages.seconds
    self._line_began = time.monotonic()
    self._line_tokens = 0

  def add(self, metrics: Metrics) -> None:
    """Takes the metrics of the next step."""
    self.settle()
    self._pending = metrics
    self.done += 1

  def settle(self) -> None:
    """Waits for the last step.

    Raises:
      FloatingPointError: If its loss or gradient is not finite.
    """
    if self._pending is None:
      return
    loss, self._grad_norm = map(
      float, (self._pending.loss, self._pending.grad_norm)
    )
    tokens = int(self._pending.tokens)
    self._pending = None
    if not (math.isfinite(loss) and math.isfinite(self._grad_norm)):
      raise FloatingPointError(
        f"Step {self.done} has loss {loss} and gradient norm"
        f" {self._grad_norm}. Lower learning_rate, or raise z_loss or"
        " warmup_steps, and start into another output_dir."
      )
    self._averages.loss += loss * tokens
    self._averages.tokens += tokens
    self._averages.tokens_in_all += tokens
    self._line_tokens += tokens

  @property
  def tokens_per_second(self) -> float:
    """Target tokens a second since the last line."""
    seconds = time.monotonic() - self._line_began
    return self._line_tokens / max(seconds, 1e-9)

  def line(self) -> dict[str, float]:
    """Returns the averages since the last line, and begins the next."""
    averages = self._averages
    line = {
      "loss": averages.loss / averages.tokens,
      "grad_norm": self._grad_norm,
      "tokens": averages.tokens,
      "tokens_in_all": averages.tokens_in_all,
      "tokens_per_second": self.tokens_per_second,
      "seconds": time.monotonic() - self._began,
    }
    averages.loss, averages.tokens, self._line_tokens = 0.0, 0, 0
    self._line_began = time.monotonic()
    return line

  @contextlib.contextmanager
  def not_training(self) -> Iterator[None]:
    """Keeps what its block takes out of the speed."""
    start = time.monotonic()
    yield
    self._line_began += time.monotonic() - start

  def averages(self) -> dict[str, Any]:
    """Returns what a checkpoint should hold."""
    self._averages.seconds = time.monotonic() - self._began
    return dataclasses.asdict(self._averages)


class Display:
  """A bar in a terminal; lines in a log where there is none."""

  def __init__(self, tracker: Tracker, steps: int):
    self._tracker, self._steps = tracker, steps
    self._first = tracker.done
    self._start = time.monotonic()
    self._console = Console(stderr=True)
    self._progress = Progress(
      TextColumn("{task.description}"),
      BarColumn(),
      MofNCompleteColumn(),
      TextColumn("{task.fields[speed]:.0f} tokens/s"),
      TimeRemainingColumn(),
      console=self._console,
      disable=not self._console.is_terminal,
    )
    self._bar = self._progress.add_task(
      "training", total=steps, completed=tracker.done, speed=0.0
    )

  def __enter__(self):
    self._progress.start()
    return self

  def __exit__(self, *_):
    self._progress.stop()

  def step(self) -> None:
    """Moves the bar."""
    self._progress.update(
      self._bar,
      completed=self._tracker.done,
      speed=self._tracker.tokens_per_second,
    )

  def train_line(self, line: dict[str, float]) -> None:
    """Shows averages: beside the bar, or as a line with the time left."""
    if self._console.is_terminal:
      self._progress.update(self._bar, description=f"loss {line['loss']:.3f}")
      return
    done = self._tracker.done
    per_step = (time.monotonic() - self._start) / (done - self._first)
    log.info(
      "step %d/%d  loss %.3f  %.0f tokens/s  %.0f min left",
      done,
      self._steps,
      line["loss"],
      line["tokens_per_second"],
      per_step * (self._steps - done) / 60,
    )

  def scores(self, scores: dict[str, float]) -> None:
    """Shows an evaluation."""
    text = f"step {self._tracker.done}: " + ", ".join(
      f"{name} {value:.4g}" for name, value in scores.items()
    )
    if self._console.is_terminal:
      self._console.print(text, highlight=False)
    else:
      log.info(text)
