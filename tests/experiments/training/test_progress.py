import io
import logging

import jax.numpy as jnp
import pytest
from rich.console import Console

from experiments.training import progress as training_progress
from experiments.training.progress import Averages, Display, Tracker
from specdec_jax.training.step import Metrics


class Clock:
  now = 100.0

  def monotonic(self):
    return self.now


@pytest.fixture
def clock(monkeypatch):
  clock = Clock()
  monkeypatch.setattr(training_progress, "time", clock)
  return clock


def metrics(loss, tokens, grad_norm=1.0):
  return Metrics(jnp.float32(loss), jnp.int32(tokens), jnp.float32(grad_norm))


def test_averages_weigh_tokens(clock):
  tracker = Tracker(0, Averages())
  for loss, tokens in ((1.0, 10), (4.0, 30)):
    clock.now += 2
    tracker.add(metrics(loss, tokens, grad_norm=loss))
  tracker.settle()
  with tracker.not_training():
    clock.now += 100
  assert tracker.line() == {
    "loss": 3.25,
    "grad_norm": 4.0,
    "tokens": 40,
    "tokens_in_all": 40,
    "tokens_per_second": 10.0,
    "seconds": 104.0,
  }
  clock.now += 5
  tracker.add(metrics(2.0, 20))
  tracker.settle()
  line = tracker.line()
  assert (line["loss"], line["tokens"], line["tokens_in_all"]) == (2.0, 20, 60)
  assert line["tokens_per_second"] == 4.0


def test_averages_go_on_after_a_restart(clock):
  def lines(restart_after):
    tracker, found = Tracker(0, Averages()), []
    for number in range(6):
      clock.now += 1
      tracker.add(metrics(number**2, number + 1))
      if number == restart_after:
        tracker.settle()
        kept = tracker.averages()
        clock.now += 1000
        tracker = Tracker(tracker.done, Averages(**kept))
      if number % 2:
        tracker.settle()
        found.append(tracker.line())
    return [
      {key: value for key, value in line.items() if "per_second" not in key}
      for line in found
    ]

  assert lines(2) == lines(None)


@pytest.mark.parametrize("bad", [metrics(jnp.nan, 3), metrics(1, 3, jnp.inf)])
def test_what_is_not_finite_is_told(clock, bad):
  tracker = Tracker(6, Averages())
  tracker.add(bad)
  with pytest.raises(FloatingPointError, match=r"Step 7 has loss .* Lower"):
    tracker.settle()


def shown(monkeypatch, caplog, *, terminal: bool) -> tuple[str, str]:
  output = io.StringIO()
  monkeypatch.setattr(
    training_progress,
    "Console",
    lambda **_: Console(
      file=output,
      force_terminal=terminal,
      width=90,
      _environ={"TERM": "xterm"},
    ),
  )
  clock = Clock()
  monkeypatch.setattr(training_progress, "time", clock)
  tracker = Tracker(10, Averages())
  with (
    caplog.at_level(logging.INFO, logger=training_progress.__name__),
    Display(tracker, 130) as display,
  ):
    for _ in range(20):
      clock.now += 3
      tracker.add(metrics(2.5, 60))
      display.step()
    tracker.settle()
    display.step()
    display.train_line(tracker.line())
    display.scores({"validation_loss": 2.25})
  return output.getvalue(), caplog.text


def test_a_terminal_shows_a_bar(monkeypatch, caplog):
  output, logged = shown(monkeypatch, caplog, terminal=True)
  assert "30/130" in output
  assert "20 tokens/s" in output
  assert "loss 2.500" in output
  assert "step 30: validation_loss 2.25" in output
  assert not logged


def test_a_log_has_lines(monkeypatch, caplog):
  output, logged = shown(monkeypatch, caplog, terminal=False)
  assert not output
  # 100 steps of 3 seconds are left.
  assert "step 30/130  loss 2.500  20 tokens/s  5 min left" in logged
  assert "step 30: validation_loss 2.25" in logged
