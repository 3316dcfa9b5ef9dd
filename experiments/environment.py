"""What a measurement was made on."""

import datetime
import hashlib
import os
import pathlib
import platform
import shlex
import subprocess
import sys

import jax

import specdec_jax
from experiments.paths import REPOSITORY


def describe(dtype: str) -> dict[str, str | int | None]:
  """Returns what results depend on, besides the configuration."""
  if hasattr(os, "sched_getaffinity"):
    cores = len(os.sched_getaffinity(0))
  else:
    cores = os.cpu_count()
  return {
    "python": platform.python_version(),
    "jax": jax.__version__,
    "backend": jax.default_backend(),
    "device": jax.devices()[0].device_kind,
    "cpu": _cpu_model(),
    "cores": cores,
    "dtype": dtype,
    "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    "commit": _commit(),
  }


def machine(
  environment: dict[str, str | int | None],
) -> dict[str, str | int | None]:
  """Returns the part of a description that times depend on."""
  return {
    name: value
    for name, value in environment.items()
    if name not in ("date", "commit")
  }


def line(environment: dict[str, str | int | None]) -> str:
  """Returns a description in one line."""
  device = environment["device"]
  where = "" if environment["backend"] == "cpu" else f"{device}, "
  return (
    f"{where}{environment['cpu']}, {environment['cores']} cores,"
    f" {environment['dtype']}, Python {environment['python']}, jax"
    f" {environment['jax']}, {environment['date']}, commit"
    f" {environment['commit'] or 'unknown'}"
  )


def command() -> str:
  """Returns the command line of this process, as a reader would type it."""
  spec = getattr(sys.modules["__main__"], "__spec__", None)
  program = ["-m", spec.name] if spec else sys.argv[:1]
  return shlex.join(["python", *program, *sys.argv[1:]])


def code_checksum() -> str:
  """Returns a number of the package's own code, the same for the same code."""
  package = pathlib.Path(specdec_jax.__file__).parent
  digest = hashlib.sha256()
  for path in sorted(package.rglob("*.py")):
    digest.update(str(path.relative_to(package)).encode() + b"\0")
    digest.update(path.read_bytes() + b"\0")
  return digest.hexdigest()[:16]


def _cpu_model() -> str:
  try:
    with open("/proc/cpuinfo", encoding="utf-8") as f:
      for each in f:
        if each.startswith("model name"):
          return each.split(":", 1)[1].strip()
  except OSError:
    pass
  return platform.processor() or platform.machine()


def _commit() -> str | None:
  """The commit, with a plus sign if tracked files differ from it."""

  def git(*arguments):
    return subprocess.run(
      ["git", "-C", str(REPOSITORY), *arguments],
      capture_output=True,
      text=True,
      check=True,
      timeout=10,
    ).stdout.strip()

  try:
    changes = git("status", "--porcelain", "--untracked-files=no")
    return git("rev-parse", "--short", "HEAD") + ("+" if changes else "")
  except (OSError, subprocess.SubprocessError):
    return None
