"""A bar in the terminal; nothing where there is none."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import Progress


@contextlib.contextmanager
def progress_bar(
  what: str, *, total: int, done: int = 0
) -> Iterator[Callable[[int], None]]:
  """Shows a bar on standard error while its block runs.

  Args:
    what: What to call it.
    total: Where it ends.
    done: Where it begins.

  Yields:
    A function that advances it.
  """
  console = Console(stderr=True)
  # Not on standard output, so that results can be piped on their own.
  with Progress(
    console=console, transient=True, disable=not console.is_terminal
  ) as progress:
    bar = progress.add_task(what, total=total, completed=done)
    yield lambda count: progress.advance(bar, count)
