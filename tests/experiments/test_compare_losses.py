"""The comparison of a training run with one that was logged."""

import json

import pytest

from experiments import compare_losses
from experiments.paths import REPOSITORY


def write(folder, losses, manifest=None):
  folder.mkdir()
  (folder / "manifest.json").write_text(json.dumps(manifest or {"seed": 0}))
  lines = [
    json.dumps({"step": step, "loss": loss}) + "\n"
    for step, loss in losses.items()
  ]
  lines.append(json.dumps({"step": max(losses), "validation_loss": 9.0}) + "\n")
  (folder / "metrics.jsonl").write_text("".join(lines))
  return folder


def test_the_same_course_passes_and_another_does_not(tmp_path, capsys):
  logged = write(tmp_path / "logged", {20: 3.0, 40: 2.0, 60: 1.5})
  near = write(tmp_path / "near", {20: 3.0005, 40: 2.0})
  far = write(tmp_path / "far", {20: 3.0, 40: 2.002})
  assert compare_losses.main([str(logged), str(near)]) == 0
  assert "2 lines to step 40: largest difference 5.00e-04" in (
    capsys.readouterr().out
  )
  assert compare_losses.main([str(logged), str(far)]) == 1
  assert compare_losses.main([str(logged), str(far), "--tolerance=0.01"]) == 0


def test_a_line_that_is_being_written_is_left_out(tmp_path):
  logged = write(tmp_path / "logged", {20: 3.0, 40: 2.0})
  found = write(tmp_path / "found", {20: 3.0})
  with open(found / "metrics.jsonl", "a") as f:
    f.write('{"step": 40, "lo')
  assert compare_losses.compare(logged, found) == {20: 0.0}


def test_another_run_is_refused(tmp_path):
  logged = write(tmp_path / "logged", {20: 3.0})
  other = write(tmp_path / "other", {20: 3.0}, {"seed": 1})
  with pytest.raises(ValueError, match="seed was 0 and is 1"):
    compare_losses.compare(logged, other)


def test_what_cannot_be_compared_is_named(tmp_path):
  logged = write(tmp_path / "logged", {20: 3.0})
  shifted = write(tmp_path / "shifted", {30: 3.0})
  with pytest.raises(ValueError, match="no step in common"):
    compare_losses.compare(logged, shifted)
  with pytest.raises(FileNotFoundError, match=r"nothing has no manifest\.json"):
    compare_losses.compare(logged, tmp_path / "nothing")


def test_the_log_that_is_shipped_can_be_compared_with():
  folder = REPOSITORY / "experiments" / "results" / "ende_target"
  losses = compare_losses.compare(folder, folder)
  assert list(losses) == list(range(20, 201, 20))
