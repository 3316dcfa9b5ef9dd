"""The repository's own files fit together."""

import os
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

import specdec_jax as sd

ROOT = pathlib.Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TEXT = (".cfg", ".gin", ".md", ".py", ".toml", ".yaml", ".yml")


def texts() -> list[pathlib.Path]:
  """Committed and new text files; without git, all but hidden folders."""
  try:
    listed = subprocess.run(
      ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
      cwd=ROOT,
      capture_output=True,
      text=True,
      check=True,
    ).stdout.splitlines()
    files = [ROOT / name for name in listed]
  except (OSError, subprocess.CalledProcessError):
    files = [
      path
      for path in ROOT.rglob("*")
      if not any(p.startswith(".") for p in path.relative_to(ROOT).parts)
    ]
  named = {"Makefile", "run"}
  return [
    path
    for path in files
    if path.is_file() and (path.suffix in TEXT or path.name in named)
  ]


def make(*arguments: str, check: bool = True) -> subprocess.CompletedProcess:
  """Runs make as from a shell, not as from the make that runs the tests."""
  environment = {
    name: value
    for name, value in os.environ.items()
    if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHON", "VENV")
  }
  return subprocess.run(
    ["make", *arguments],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=check,
    env=environment,
  )


def package_of(requirement: str) -> str:
  return re.match(r"[\w-]+", requirement).group()


def test_the_version_is_the_same_everywhere():
  version = PROJECT["project"]["version"]
  changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
  assert sd.__version__ == version
  assert re.search(r"^## \[(.+?)\]", changelog, re.M).group(1) == version


def test_extras():
  extras = PROJECT["project"]["optional-dependencies"]
  assert {"data", "tpu", "cuda", "t5x", "dev", "experiments"} <= extras.keys()
  assert {"seqio", "tensorflow"} <= set(map(package_of, extras["data"]))
  assert "specdec_jax[experiments]" in extras["dev"]


def test_core_dependencies_are_light():
  core = set(map(package_of, PROJECT["project"]["dependencies"]))
  assert core == {
    "etils",
    "flax",
    "jax",
    "jaxtyping",
    "numpy",
    "orbax-checkpoint",
    "safetensors",
    "tensorstore",
  }


@pytest.mark.parametrize(
  "target", ["demo", "reproduce", "test", "lint", "format", "clean"]
)
def test_make_knows_a_target(target):
  run = make("--dry-run", "--always-make", target, f"PYTHON={sys.executable}")
  expected = {
    "demo": "-m experiments.generate --gin_file=gin_configs/demo.gin",
    "reproduce": (
      "-m experiments.reproduce --gin_file=gin_configs/reproduce.gin"
    ),
    "test": "-m pytest",
    "lint": "pyright",
    "format": "ruff format",
    "clean": "rm -rf",
  }
  assert expected[target] in run.stdout
  if target in ("demo", "reproduce", "test"):
    assert "-m venv .venv-3." in run.stdout
    assert "pip" in run.stdout


def test_make_refuses_an_old_python(tmp_path):
  old = tmp_path / "python"
  old.write_text(
    '#!/bin/sh\ncase "$2" in *print*) echo 3.10;; *) exit 1;; esac\n'
  )
  old.chmod(0o755)
  run = make("test", f"PYTHON={old}", f"VENV={tmp_path}/venv", check=False)
  assert run.returncode
  assert "needs Python 3.11 or newer" in run.stderr
  assert '"3.10"' in run.stderr
  assert not (tmp_path / "venv").exists()


def test_continuous_integration_runs_the_tests():
  script = ROOT / ".ci" / "run"
  lines = script.read_text().splitlines()
  assert "set -euo pipefail" in lines
  assert "make test" in lines
  assert os.access(script, os.X_OK)


def test_the_licence_is_apache():
  assert PROJECT["project"]["license"] == "Apache-2.0"
  text = (ROOT / "LICENSE").read_text()
  assert "Apache License" in text
  assert "END OF TERMS AND CONDITIONS" in text


def test_texts_are_found():
  names = {path.name for path in texts()}
  assert {"Makefile", "README.md", "pyproject.toml", "base.py"} <= names


@pytest.mark.parametrize(
  "path", texts(), ids=lambda path: str(path.relative_to(ROOT))
)
def test_a_text_is_clean(path):
  text = path.read_bytes().decode("utf-8")
  assert "\r" not in text
  # Typographic quotes, odd spaces, byte order marks, replacement characters.
  junk = "[\u2018\u2019\u201c\u201d\u00a0\u2007\u202f\u200b-\u200f\ufeff\ufffd]"
  assert not re.search(junk, text)
  # Folders of one machine.
  assert not re.search(r"(?<![\w.~])/(home|root|Users|work)/", text)


def test_no_file_is_too_large():
  listed = subprocess.run(
    ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True
  ).stdout.split("\0")
  files = [ROOT / name for name in listed if name]
  sizes = {path: path.stat().st_size for path in files if path.is_file()}
  large = {path: size for path, size in sizes.items() if size >= 45e6}
  assert not large
