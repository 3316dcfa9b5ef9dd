import dataclasses

import pytest

from experiments import gin_cli


@dataclasses.dataclass(frozen=True)
class Engine:
  size: int
  fuel: str = "coal"


def travel(*, engine: Engine, output_dir: str, speed: int = 1):
  """Goes somewhere."""
  return engine, output_dir, speed


@pytest.fixture
def call(tmp_path, monkeypatch):
  (tmp_path / "fragments").mkdir()
  (tmp_path / "fragments" / "engine.gin").write_text(
    "SIZE = %gin.REQUIRED\n"
    "SPEED = 3\n"
    "Engine.size = %SIZE\n"
    "travel.engine = @Engine()\n"
    "travel.speed = %SPEED\n"
  )
  (tmp_path / "small.gin").write_text(
    'include "fragments/engine.gin"\nSIZE = 2\n'
  )
  (tmp_path / "large.gin").write_text("SIZE = 20\n")
  elsewhere = tmp_path / "elsewhere"
  elsewhere.mkdir()
  monkeypatch.chdir(elsewhere)

  def main(*argv):
    return gin_cli.main(
      travel,
      name="travel",
      configurables=(Engine,),
      argv=[f"--gin_search_paths={tmp_path}", *argv],
    )

  return main


def test_files_and_bindings_override_in_order(call, tmp_path):
  out = str(tmp_path / "out")
  flags = ["--gin_file=small.gin", f"--output_dir={out}"]
  assert call(*flags) == (Engine(2), out, 3)
  assert call(*flags, "--gin_file=large.gin") == (Engine(20), out, 3)
  engine, _, speed = call(
    *flags,
    "--gin.SIZE=7",
    '--gin.Engine.fuel="wood = good"',
    "--gin.travel.speed = 9",
  )
  assert engine == Engine(7, "wood = good")
  assert speed == 9
  assert (
    "Engine.fuel = 'wood = good'"
    in (tmp_path / "out" / "config.gin").read_text()
  )


def test_one_call_leaves_nothing_for_the_next(call, tmp_path):
  flags = ["--gin_file=small.gin", f"--output_dir={tmp_path / 'out'}"]
  call(*flags, "--gin.travel.speed=9")
  assert call(*flags)[2] == 3


@pytest.mark.parametrize(
  ("argv", "message"),
  [
    ([], "No value for engine, output_dir"),
    (["--gin_file=small.gin"], "--output_dir=FOLDER"),
    (["--gin_file=none.gin"], "none.gin"),
    (["--gin_file=fragments/engine.gin"], "SIZE"),
    (["--gin_file=small.gin", "--gin.SIZ=3"], "has a macro SIZ"),
    (["--gin_file=small.gin", "--gin.travel.sped=3"], "sped"),
    (["--gin_file=small.gin", "--gin.Engin.size=3"], "Engin"),
    (["--gin_file=small.gin", "--gin.SIZE=[3"], "no Python literal"),
    (["--gin_file=small.gin", "--gin.Engine.fuel=a/b"], "quotes"),
  ],
)
def test_mistakes_are_named(call, tmp_path, argv, message):
  if message in ("SIZE",):
    argv = [*argv, f"--output_dir={tmp_path / 'out'}"]
  with pytest.raises(SystemExit, match=message):
    call(*argv)
  assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("flag", ["--gin.SIZE", "--speed=3", "--gin_fil=x.gin"])
def test_unknown_flags_are_refused(call, flag, capsys):
  with pytest.raises(SystemExit):
    call("--gin_file=small.gin", flag)
  assert flag.split("=")[0] in capsys.readouterr().err
