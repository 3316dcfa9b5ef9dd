"""Makes every page of the paper's tables and figures, and an index of them.

    python -m experiments.reproduce --gin_file=reproduce.gin

Pages of closed forms are made anew, which takes seconds.
"""

import importlib
import pathlib

from experiments import gin_cli
from experiments.paper import page
from experiments.progress import progress_bar

PAGES = ("table_1", "table_4", "figure_2", "figure_3", "figure_4")
INDEX = "README.md"


def run(*, output_dir: str) -> pathlib.Path:
  """Writes the pages.

  Args:
    output_dir: Where they go.

  Returns:
    The index.
  """
  folder = pathlib.Path(output_dir)
  lines = ["# The paper's tables and figures"]
  with progress_bar("pages", total=len(PAGES)) as advance:
    for name in PAGES:
      made = importlib.import_module(f"experiments.paper.{name}").make()
      page.write(made, folder, name)
      lines.append(f"[{made.title}]({name}.md)")
      if made.figure is not None:
        lines.append(f"![{made.title}]({name}.svg)")
      advance(1)
  lines.append("Made by\n\n```\nmake reproduce\n```")
  index = folder / INDEX
  index.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
  print(index)
  return index


if __name__ == "__main__":
  gin_cli.main(run, name="reproduce")
