"""Files of unpacked packages."""

import bz2
import gzip
import os
from collections.abc import Callable, Iterator


def read(path: str) -> str:
  """The text of a file, unpacked if its name says that it is packed."""
  if path.endswith(".gz"):
    opener = gzip.open
  elif path.endswith(".bz2"):
    opener = bz2.open
  else:
    opener = open
  with opener(path, "rb") as file:
    return file.read().decode("utf-8", "replace")


def pairs(
  english: str,
  german: str,
  suffix: str | tuple[str, ...],
  rename: Callable[[str], str] = lambda path: path,
) -> Iterator[tuple[str, str]]:
  """Yields the paths of each page that both folders have.

  Args:
    english: The folder of the English pages.
    german: The folder of the German ones.
    suffix: How a German page's name ends; several are allowed.
    rename: Takes a German page's path in its folder to the English one's.
  """
  for folder, _, names in sorted(os.walk(german)):
    for name in sorted(names):
      if not name.endswith(suffix):
        continue
      there = os.path.join(folder, name)
      here = os.path.join(english, rename(os.path.relpath(there, german)))
      if os.path.isfile(here) and not os.path.islink(there):
        yield here, there
