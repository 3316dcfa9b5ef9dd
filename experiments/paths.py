"""Where a script finds the files that a configuration names."""

import pathlib

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


def resolve(path: str) -> str:
  """Returns a path as it is, or inside the repository if it is there only.

  So the configurations in `gin_configs` work from any folder.

  Args:
    path: A local path or an address such as gs://.
  """
  if "://" in path:
    return path
  here = pathlib.Path(path).expanduser()
  there = REPOSITORY / here
  return str(there if there.exists() and not here.exists() else here)
