"""A run that was stopped, however, ends as the one that was not."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from experiments.paths import REPOSITORY
from specdec_jax import t5
from specdec_jax.training import step
from specdec_jax.training.exits import ExitLoss
from tests.experiments import tiny_training
from tests.experiments.tiny_training import STEPS, curve, files, run, t5_config

PATIENCE = 600
"""Seconds until a program that does nothing counts as hung."""


@pytest.fixture(scope="module")
def text(tmp_path_factory):
  return tiny_training.make_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def whole(text, tmp_path_factory):
  """The folder of a run that nothing interrupted."""
  folder = tmp_path_factory.mktemp("whole")
  run(text, folder, steps=STEPS)
  return folder


def checkpoints(folder) -> set[str]:
  return {path.name for path in (folder / "checkpoints").iterdir()}


def check_equal(folder, whole):
  for field in ("loss", "grad_norm", "tokens_in_all", "validation_loss"):
    assert curve(folder, field) == curve(whole, field)
  for a, b in zip(
    *(
      jax.tree.leaves(t5.load(None, each / "model")[1])
      for each in (folder, whole)
    ),
    strict=True,
  ):
    np.testing.assert_array_equal(a, b)


def program(
  text, folder, *arguments, stderr=subprocess.DEVNULL
) -> subprocess.Popen:
  return subprocess.Popen(
    [
      sys.executable,
      "-m",
      "tests.experiments.tiny_training",
      str(text),
      str(folder),
      *arguments,
    ],
    cwd=REPOSITORY,
    env={
      **os.environ,
      "JAX_PLATFORMS": "cpu",
      # As in the process of the tests.
      "JAX_DEFAULT_MATMUL_PRECISION": "highest",
    },
    stdout=subprocess.DEVNULL,
    stderr=stderr,
  )


def test_a_kill_loses_only_the_steps_since_the_checkpoint(
  text, whole, tmp_path
):
  run_ = program(text, tmp_path)
  metrics = tmp_path / "metrics.jsonl"
  began = time.monotonic()
  while not metrics.exists() or metrics.read_bytes().count(b"\n") < 8:
    assert run_.poll() is None
    assert time.monotonic() - began < PATIENCE
    time.sleep(0.002)
  run_.kill()
  assert run_.wait() == -signal.SIGKILL
  before = metrics.read_bytes()
  assert not (tmp_path / "model").exists()
  run(text, tmp_path, steps=STEPS)
  check_equal(tmp_path, whole)
  # It went on; it did not begin again: what was written first is still there.
  kept = before.split(b"\n")[:4]
  assert metrics.read_bytes().split(b"\n")[:4] == kept


def test_a_kill_during_a_save_leaves_the_checkpoint_before(
  text, whole, tmp_path
):
  run_ = program(text, tmp_path, "die", "9")
  assert run_.wait(PATIENCE) == -signal.SIGKILL
  found = checkpoints(tmp_path)
  assert {"3", "6"} <= found
  assert "9" not in found
  assert len(found) > 2  # What was being written.
  metrics = tmp_path / "metrics.jsonl"
  assert curve(tmp_path).keys() == {2, 4, 6, 8}
  with open(metrics, "ab") as file:
    file.write(b'{"step": 10, "lo')  # And half a line.
  run(text, tmp_path, steps=STEPS)
  check_equal(tmp_path, whole)
  assert checkpoints(tmp_path) == {str(STEPS - 3), str(STEPS)}


def test_a_full_disk_loses_only_the_steps_since_the_checkpoint(
  text, whole, tmp_path, monkeypatch
):
  run_until(5, monkeypatch, text, tmp_path, steps=STEPS)
  # Enough for metrics, too little for a state.
  run_ = program(text, tmp_path, "limit", "8192", stderr=subprocess.PIPE)
  _, error = run_.communicate(timeout=PATIENCE)
  assert run_.returncode == 1
  assert b"The state of step 6 was not saved" in error
  assert b"the newest there is of step 3." in error
  assert "6" not in checkpoints(tmp_path)
  run(text, tmp_path, steps=STEPS)
  check_equal(tmp_path, whole)


def run_until(step_, monkeypatch, *args, **kwargs):
  """Runs, and stops inside a step."""
  make_train_step = step.make_train_step

  def make_failing_step(*args, **kwargs):
    train_step = make_train_step(*args, **kwargs)

    def failing(state, *rest):
      if int(state.step) == step_:
        raise KeyboardInterrupt
      return train_step(state, *rest)

    return failing

  with monkeypatch.context() as patch:
    patch.setattr(step, "make_train_step", make_failing_step)
    with pytest.raises(KeyboardInterrupt):
      run(*args, **kwargs)


def test_an_interruption_inside_a_step(text, tmp_path, monkeypatch):
  run(text, tmp_path / "whole")
  run_until(5, monkeypatch, text, tmp_path / "halves")
  # The last checkpoint is that of step 3, between two lines of metrics.
  assert curve(tmp_path / "halves").keys() == {2, 4}
  run(text, tmp_path / "halves")
  check_equal(tmp_path / "halves", tmp_path / "whole")


def test_an_interruption_of_a_run_with_exits(text, tmp_path, monkeypatch):
  options = {
    "model": t5_config(text, num_decoder_layers=2),
    "exit_loss": ExitLoss((1,), layer_dropout=0.4),
  }
  run(text, tmp_path / "whole", **options)
  run_until(5, monkeypatch, text, tmp_path / "halves", **options)
  run(text, tmp_path / "halves", **options)
  check_equal(tmp_path / "halves", tmp_path / "whole")
  acceptance = [
    curve(tmp_path / name, "validation_exit_1_acceptance")
    for name in ("halves", "whole")
  ]
  assert acceptance[0] == acceptance[1]
  for other, message in (
    (ExitLoss((1,)), r"layer_dropout was 0\.4 and is 0\.0"),
    (None, r"exit_loss\.share was 0\.3 and is None"),
  ):
    with pytest.raises(ValueError, match=message):
      run(text, tmp_path / "whole", **options | {"exit_loss": other})


def test_a_finished_run_only_saves_again(text, tmp_path):
  run(text, tmp_path)
  before = tiny_training.lines(tmp_path)
  run(text, tmp_path)
  assert tiny_training.lines(tmp_path) == before


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"seed": 1}, "seed was 0 and is 1"),
    ({"optimizer": {"learning_rate": 0.1}}, "learning_rate was 0.03 and is"),
    ({"optimizer": {"name": "adafactor"}}, "name was 'scaled_adam' and is"),
    ({"z_loss": 0.0}, r"objective\.z_loss was 0\.0001 and is 0\.0"),
    ({"tokens_per_batch": 128}, r"rows\.64 was 1 and is 2"),
    ({"microbatches": 1, "widths": (64, 72)}, r"rows\.72 was None and is 1"),
    ({"dtype": "bfloat16"}, "dtype was 'float32' and is 'bfloat16'"),
  ],
)
def test_another_configuration_is_refused(text, whole, change, message):
  before = tiny_training.lines(whole)
  with pytest.raises(ValueError, match=message):
    run(text, whole, steps=STEPS, **change)
  assert tiny_training.lines(whole) == before


def test_another_shape_or_other_examples_are_refused(text, whole):
  with pytest.raises(ValueError, match=r"model\.emb_dim was 16 and is 8"):
    run(text, whole, steps=STEPS, model=t5_config(text, emb_dim=8))
  with pytest.raises(ValueError, match="examples was '.*' and is '.*'"):
    run(text, whole, steps=STEPS, data=files(text, origins=("help",)))


def test_steps_are_fixed_once_the_decay_has_begun(text, whole):
  message = (
    rf"steps was {STEPS} and is 500, but {STEPS} steps are done, and the two"
    rf" runs are the same only until step {STEPS - 2}"
  )
  with pytest.raises(ValueError, match=message):
    run(text, whole, steps=500)
  with pytest.raises(ValueError, match="the same only until step 28"):
    run(text, whole, steps=30)


def test_a_run_may_be_made_longer(text, tmp_path, monkeypatch):
  run(text, tmp_path / "long", steps=12)
  folder = tmp_path / "short"
  run_until(4, monkeypatch, text, folder, steps=7)
  # Intervals may change as well.
  run(text, folder, steps=12, loop={"checkpoint_every": 5})
  check_equal(folder, tmp_path / "long")


def test_a_run_may_start_afresh(text, tmp_path):
  run(text, tmp_path / "wanted", steps=4, seed=1)
  run(text, tmp_path / "again", steps=4)
  run(text, tmp_path / "again", steps=4, seed=1, resume=False)
  check_equal(tmp_path / "again", tmp_path / "wanted")


def test_metrics_of_no_known_run_are_refused(text, tmp_path):
  (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
  with pytest.raises(ValueError, match=r"has no manifest\.json beside it"):
    run(text, tmp_path)


def test_a_damaged_checkpoint_is_named(text, tmp_path):
  run(text, tmp_path)
  state = tmp_path / "checkpoints" / "8" / "state"
  for path in sorted(state.rglob("*"), reverse=True):
    if path.is_file():
      path.unlink()
  with pytest.raises(ValueError, match=r"checkpoints/8 cannot be read"):
    run(text, tmp_path)
  assert pathlib.Path(tmp_path / "checkpoints" / "6").exists()
