"""A generated page: one table or figure, and what made it."""

import dataclasses
import pathlib
from collections.abc import Callable

import matplotlib
from matplotlib.figure import Figure

from experiments import environment, gin_cli


@dataclasses.dataclass(frozen=True)
class Page:
  """What a page says.

  Attributes:
    title: Its heading.
    text: Markdown.
    figure: A picture, or None.
  """

  title: str
  text: str
  figure: Figure | None = None


def write(page: Page, folder: pathlib.Path, name: str) -> pathlib.Path:
  """Writes name.md and, if there is a picture, name.svg beside it.

  Returns:
    The page's path.
  """
  folder.mkdir(parents=True, exist_ok=True)
  parts = [f"# {page.title}", page.text]
  if page.figure is not None:
    # Neither a date nor random names: the same picture is the same file.
    with matplotlib.rc_context({"svg.hashsalt": name}):
      page.figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    parts.insert(1, f"![{page.title}]({name}.svg)")
  parts += [
    f"Made by\n\n```\n{_command(name)}\n```",
    f"on {environment.line(environment.describe('float64'))}.",
  ]
  path = folder / f"{name}.md"
  path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
  return path


def _command(name: str) -> str:
  return f"python -m experiments.paper.{name} --gin_file=paper/{name}.gin"


def main(make: Callable[[], Page], name: str, argv=None) -> pathlib.Path:
  """A page's command line; `output_dir` is where it goes."""

  def run(*, output_dir: str) -> pathlib.Path:
    """Writes the page.

    Args:
      output_dir: Where it goes.
    """
    path = write(make(), pathlib.Path(output_dir), name)
    print(path)
    return path

  return gin_cli.main(run, name=name, configurables=(), argv=argv)
