"""What `make reproduce` runs and writes; the stages themselves do not run."""

import importlib
import re
import subprocess

import pytest

from experiments import gin_cli, reproduce
from experiments.paths import REPOSITORY
from tests.experiments.paper.lines import (
  alpha_line,
  speed_line,
  trace_line,
  write,
)

NAMES = [stage.name for stage in reproduce.STAGES]


class Stages:
  """Takes the place of the stages' processes."""

  def __init__(self, results, monkeypatch, failing=()):
    self.results, self.failing, self.commands = results, failing, []
    monkeypatch.setattr(subprocess, "run", self)

  def __call__(self, command, check):
    self.commands.append(command)
    name = NAMES[len(self.commands) - 1]
    stage = next(each for each in reproduce.STAGES if each.name == name)
    if name not in self.failing:
      lines = {
        "speed.jsonl": [speed_line(), speed_line(gamma=3)],
        "alpha.jsonl": [alpha_line(), alpha_line(lenience=0.5)],
        "trace.jsonl": [trace_line()],
      }
      write(stage.file(self.results), *lines[stage.makes])
    return subprocess.CompletedProcess(command, int(name in self.failing))


def run(folder, **changes):
  return reproduce.run(
    output_dir=str(folder / "pages"),
    results_dir=str(folder / "results"),
    **changes,
  )


@pytest.mark.parametrize("stage", reproduce.STAGES, ids=lambda each: each.name)
def test_a_stage_is_a_command_that_takes_its_flags(stage):
  module = importlib.import_module(f"experiments.{stage.module}")
  assert callable(module.main)
  for flag in stage.flags:
    name, _, value = flag.partition("=")
    if name == "--gin_file":
      assert (REPOSITORY / "gin_configs" / value).is_file()
    else:
      assert name.startswith(f"--gin.{stage.module}.")


def test_each_page_has_a_command_and_a_configuration():
  modules = (REPOSITORY / "experiments" / "paper").glob("*_[1-5].py")
  configured = (REPOSITORY / "gin_configs" / "paper").glob("*.gin")
  kinds = ("table", "figure")
  expected = {f"{kind}_{i}" for kind in kinds for i in range(1, 6)}
  assert {path.stem for path in modules} == expected
  assert {path.stem for path in configured} == expected
  assert set(reproduce.PAGES) == expected


def test_pages_are_made_of_what_there_is(tmp_path):
  text = run(tmp_path, stages=()).read_text("utf-8")
  assert "Table 2: not measured yet" in text
  assert "python -m experiments.measure_alpha" in text
  targets = re.findall(r"\]\(([^)]+)\)", text)
  made = ("table_1", "table_4", "figure_2", "figure_3", "figure_4")
  assert {each for each in targets if each.endswith(".md")} == {
    f"{name}.md" for name in made
  }
  assert all((tmp_path / "pages" / each).is_file() for each in targets)


def test_all_stages_run_and_all_pages_are_made(tmp_path, monkeypatch, capsys):
  stages = Stages(tmp_path / "results", monkeypatch)
  # `environment.describe` asks git by the same function.
  monkeypatch.setattr("experiments.environment._commit", lambda: "abcdefg")
  text = run(tmp_path).read_text("utf-8")
  assert len(stages.commands) == len(NAMES)
  for command, stage in zip(stages.commands, reproduce.STAGES, strict=True):
    assert command[1:3] == ["-m", f"experiments.{stage.module}"]
    assert command[-1] == f"--output_dir={tmp_path / 'results' / stage.name}"
  assert f"[{len(NAMES)}/{len(NAMES)}]" in capsys.readouterr().out
  assert "not measured" not in text
  for name in reproduce.PAGES:
    assert f"({name}.md)" in text
  table_4 = (tmp_path / "pages" / "table_4.md").read_text("utf-8")
  assert "--gin.table_4.results=" in table_4


def test_a_stage_that_fails_is_named_and_stops_no_other(tmp_path, monkeypatch):
  stages = Stages(tmp_path / "results", monkeypatch, failing=("trace",))
  monkeypatch.setattr("experiments.environment._commit", lambda: "abcdefg")
  with pytest.raises(SystemExit, match="reproduce: trace failed"):
    run(tmp_path, fresh=True)
  assert len(stages.commands) == len(NAMES)
  assert "--gin.measure_trace.resume=False" in stages.commands[0]
  text = (tmp_path / "pages" / reproduce.INDEX).read_text("utf-8")
  assert "Figure 1: not measured yet" in text
  assert "(table_2.md)" in text


def test_a_page_that_cannot_be_made_any_more_goes(tmp_path):
  trace = tmp_path / "results" / "trace" / "trace.jsonl"
  write(trace, trace_line())
  run(tmp_path, stages=())
  assert (tmp_path / "pages" / "figure_1.svg").is_file()
  trace.unlink()
  run(tmp_path, stages=())
  assert not list((tmp_path / "pages").glob("figure_1.*"))


def test_damaged_results_are_told_and_not_called_missing(tmp_path):
  path = tmp_path / "results" / "speed" / "speed.jsonl"
  write(path, speed_line())
  path.write_text("{\n")
  with pytest.raises(ValueError, match=r"speed.jsonl:1 is damaged"):
    run(tmp_path, stages=())


def test_wrong_arguments_are_refused(tmp_path):
  with pytest.raises(ValueError, match="'sped'; the stages are trace, speed"):
    run(tmp_path, stages=("sped",))
  with pytest.raises(SystemExit, match="colour"):
    gin_cli.main(
      reproduce.run,
      name="reproduce",
      argv=["--gin_file=reproduce.gin", "--gin.reproduce.colour=1"],
    )
