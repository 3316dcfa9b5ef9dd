"""Downloads and unpacks Debian packages; installs nothing."""

import glob
import logging
import os
import shutil
import subprocess
from collections.abc import Sequence

log = logging.getLogger(__name__)

# Lists and downloads of our own, so that the machine's are left alone.
_CONFIGURATION = """\
#clear Acquire::Languages;
Acquire::Languages {{ "en"; "de"; }};
{sources}Dir::State::Lists "{folder}/lists";
Dir::Cache "{folder}/cache";
APT::Sandbox::User "root";
#clear APT::Update::Post-Invoke-Success;
"""
_DEBIAN = "/etc/apt/sources.list.d/debian.sources"


def fetch(work: str, packages: Sequence[str]) -> None:
  """Fetches what is not there yet.

  Args:
    work: Gets apt/ (indexes), deb/ (packages) and root/ (their files).
    packages: Names of binary packages.

  Raises:
    FileNotFoundError: If the machine has no apt.
    RuntimeError: If apt or dpkg fails.
  """
  for tool in ("apt-get", "dpkg-deb"):
    if shutil.which(tool) is None:
      raise FileNotFoundError(
        f"There is no {tool} here; the corpora are built from Debian's"
        " archive, on a machine or in a container with Debian 12 (bookworm)."
      )
  work = os.path.abspath(work)
  configuration = _configure(work)
  if not glob.glob(f"{work}/apt/lists/*Translation-de*"):
    _run(["apt-get", "-qq", "-c", configuration, "update"])
  _download(work, configuration, packages)
  _unpack(work)


def _configure(work: str) -> str:
  folder = f"{work}/apt"
  for name in ("lists/partial", "cache/archives/partial"):
    os.makedirs(f"{folder}/{name}", exist_ok=True)
  sources = ""
  if os.path.exists(_DEBIAN):  # Debian's own archive only.
    sources = f'Dir::Etc::sourcelist "{_DEBIAN}";\nDir::Etc::sourceparts "-";\n'
  path = f"{folder}/apt.conf"
  with open(path, "w", encoding="utf-8") as file:
    file.write(_CONFIGURATION.format(folder=folder, sources=sources))
  return path


def _download(work, configuration, packages) -> None:
  os.makedirs(f"{work}/deb", exist_ok=True)
  there = {_package(path) for path in glob.glob(f"{work}/deb/*.deb")}
  missing = [name for name in packages if name not in there]
  if missing:
    log.info("downloading %d packages", len(missing))
    _run(
      ["apt-get", "-qq", "-c", configuration, "download", *missing],
      folder=f"{work}/deb",
    )


def _unpack(work: str) -> None:
  for path in sorted(glob.glob(f"{work}/deb/*.deb")):
    root = os.path.join(work, "root", _package(path))
    if not os.path.isdir(root):
      # Whole or not at all, if this is interrupted.
      partial = f"{work}/unpacking"
      shutil.rmtree(partial, ignore_errors=True)
      os.makedirs(partial)
      _run(["dpkg-deb", "-x", path, partial])
      os.makedirs(os.path.dirname(root), exist_ok=True)
      os.rename(partial, root)


def _package(path: str) -> str:
  return os.path.basename(path).split("_")[0]


def _run(command: list[str], folder: str | None = None) -> None:
  done = subprocess.run(
    command, cwd=folder, check=False, capture_output=True, text=True
  )
  if done.returncode:
    raise RuntimeError(
      f"{' '.join(command)} failed:\n{done.stderr.strip()}\nRun again to go"
      " on; what is downloaded is kept."
    )
