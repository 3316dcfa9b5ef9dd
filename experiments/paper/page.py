"""A generated page: one table or figure, and what made it."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from experiments import environment, figures, gin_cli


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


def write(
  page: Page, folder: pathlib.Path, name: str, results: Sequence[str] = ()
) -> pathlib.Path:
  """Writes name.md and, if there is a picture, name.svg beside it.

  Args:
    page: What to write.
    folder: Where to.
    name: The command's.
    results: Files of what was measured, if the page was made of any.

  Returns:
    The page's path.
  """
  folder.mkdir(parents=True, exist_ok=True)
  parts = [f"# {page.title}", page.text]
  if page.figure is not None:
    figures.save(page.figure, folder / f"{name}.svg")
    parts.insert(1, f"![{page.title}]({name}.svg)")
  parts += [
    f"Made by\n\n```\n{_command(name, results)}\n```",
    f"on {environment.line(environment.describe('float64'))}.",
  ]
  path = folder / f"{name}.md"
  path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
  return path


def _command(name: str, results: Sequence[str]) -> str:
  command = f"python -m experiments.paper.{name} --gin_file=paper/{name}.gin"
  if results:
    command += f' --gin.{name}.results="{list(results)}"'
  return command


def main(make: Callable[[], Page], name: str, argv=None) -> pathlib.Path:
  """A page's command line; `output_dir` is where it goes."""

  def run(*, output_dir: str) -> pathlib.Path:
    """Writes the page.

    Args:
      output_dir: Where it goes.
    """
    return _write(make(), output_dir, name)

  return gin_cli.main(run, name=name, configurables=(), argv=argv)


def main_with_results(
  make: Callable[[Sequence[str]], Page], name: str, argv=None
) -> pathlib.Path:
  """The command line of a page that shows what was measured."""

  def run(*, output_dir: str, results: Sequence[str] = ()) -> pathlib.Path:
    """Writes the page.

    Args:
      output_dir: Where it goes.
      results: Files of what was measured.
    """
    return _write(make(results), output_dir, name, results)

  return gin_cli.main(run, name=name, configurables=(), argv=argv)


def _write(
  page: Page, output_dir: str, name: str, results: Sequence[str] = ()
) -> pathlib.Path:
  path = write(page, pathlib.Path(output_dir), name, results)
  print(path)
  return path
