"""Measures what this machine can, and makes the paper's tables and figures.

    python -m experiments.reproduce --gin_file=reproduce.gin

Each stage is a command of its own, which says how far it is and goes on where
it was interrupted; so does this one, stage by stage. Pages are made anew, which
takes seconds, of what has been measured; the index names what has not.
"""

import importlib
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from experiments import gin_cli
from experiments.paper import measured, page
from experiments.progress import progress_bar

INDEX = "README.md"


class Stage(NamedTuple):
  """A command that measures.

  Attributes:
    name: Its folder of results.
    makes: The file in it that pages are made of.
    kind: What that file holds.
    module: The command, in `experiments`.
    flags: Its flags, without --output_dir.
  """

  name: str
  makes: str
  kind: measured.Kind
  module: str
  flags: tuple[str, ...]

  def file(self, folder: pathlib.Path) -> pathlib.Path:
    """Where the file lies."""
    return folder / self.name / self.makes


def _full_size(size: str) -> Stage:
  """A target of a published size with drafts of two, SYNTHETIC."""
  return Stage(
    f"full_size_{size}",
    "speed.jsonl",
    measured.SPEED,
    "measure_full_size",
    (
      "--gin_file=measure_full_size.gin",
      f"--gin.measure_full_size.target='t5_1_1_{size}'",
      "--gin.measure_full_size.drafts=('t5_1_1_small', 't5_1_1_base')",
    ),
  )


STAGES = (
  Stage(
    "trace",
    "trace.jsonl",
    measured.TRACE,
    "measure_trace",
    ("--gin_file=measure_trace.gin",),
  ),
  Stage(
    "speed",
    "speed.jsonl",
    measured.SPEED,
    "measure_speed",
    ("--gin_file=measure_speed.gin",),
  ),
  Stage(
    "alpha",
    "alpha.jsonl",
    measured.ALPHA,
    "measure_alpha",
    (
      "--gin_file=measure_alpha.gin",
      "--gin.measure_alpha.leniences=(1.0, 0.5, 0.3, 0.1)",
    ),
  ),
  Stage(
    "speed_ende",
    "speed.jsonl",
    measured.SPEED,
    "measure_speed",
    ("--gin_file=measure_speed_ende.gin",),
  ),
  Stage(
    "alpha_ende",
    "alpha.jsonl",
    measured.ALPHA,
    "measure_alpha",
    ("--gin_file=measure_alpha_ende.gin",),
  ),
  _full_size("large"),
  _full_size("xl"),
)


class Source(NamedTuple):
  """What a page is made of.

  Attributes:
    kind: The files it reads; None if it reads none.
    needed: Whether there is no page without any.
  """

  kind: measured.Kind | None
  needed: bool = True


PAGES = {
  "table_1": Source(None, needed=False),
  "table_2": Source(measured.SPEED),
  "table_3": Source(measured.ALPHA),
  "table_4": Source(measured.SPEED, needed=False),
  "table_5": Source(measured.ALPHA),
  "figure_1": Source(measured.TRACE),
  "figure_2": Source(measured.SPEED, needed=False),
  "figure_3": Source(measured.SPEED, needed=False),
  "figure_4": Source(measured.SPEED, needed=False),
  "figure_5": Source(measured.TRACE),
}


def run(
  *,
  output_dir: str,
  results_dir: str,
  stages: Sequence[str] | None = None,
  fresh: bool = False,
) -> pathlib.Path:
  """Measures, then writes the pages.

  Args:
    output_dir: Where the pages go.
    results_dir: Where what is measured goes, a folder a stage.
    stages: Which stages to run, by name; None for all, () for none. Pages are
      made of whatever the folders hold.
    fresh: Whether to measure anew what is there. Otherwise stages go on from
      it; they refuse what another machine or other code measured.

  Returns:
    The index.

  Raises:
    ValueError: If there is no such stage.
    SystemExit: If a stage failed; all others are done, and the pages made.
  """
  failed = measure(_chosen(stages), results_dir, fresh)
  index = write_pages(output_dir, results_dir)
  print(index)
  if failed:
    raise SystemExit(
      f"reproduce: {', '.join(failed)} failed, for the reasons above. The same"
      " command tries them again; --gin.reproduce.fresh=True measures all anew."
    )
  return index


def measure(
  stages: Sequence[Stage], results_dir: str, fresh: bool = False
) -> list[str]:
  """Runs stages one after the other, each in a process of its own.

  So each has all of the memory, and its results name its own command.

  Args:
    stages: What to run.
    results_dir: As in `run`.
    fresh: As in `run`.

  Returns:
    The names of those that failed.
  """
  failed = []
  for number, stage in enumerate(stages, start=1):
    command = _command(stage, results_dir, fresh)
    # The stage itself has a bar for what it measures.
    print(f"[{number}/{len(stages)}] {stage.name}: {stage.module}", flush=True)
    if subprocess.run(command, check=False).returncode:
      failed.append(stage.name)
  return failed


def _command(stage: Stage, results_dir: str, fresh: bool) -> list[str]:
  command = [
    sys.executable,
    "-m",
    f"experiments.{stage.module}",
    *stage.flags,
    f"--output_dir={pathlib.Path(results_dir) / stage.name}",
  ]
  if fresh:
    command.append(f"--gin.{stage.module}.resume=False")
  return command


def _chosen(names: Sequence[str] | None) -> list[Stage]:
  known = {stage.name: stage for stage in STAGES}
  if names is None:
    return list(STAGES)
  for name in names:
    if name not in known:
      raise ValueError(
        f"reproduce.stages names {name!r}; the stages are {', '.join(known)}."
      )
  return [known[name] for name in names]


def write_pages(output_dir: str, results_dir: str) -> pathlib.Path:
  """Writes all pages that can be made, and the index.

  Args:
    output_dir: As in `run`.
    results_dir: As in `run`.

  Returns:
    The index.
  """
  folder = pathlib.Path(output_dir)
  lines = ["# The paper's tables and figures"]
  with progress_bar("pages", total=len(PAGES)) as advance:
    for name in PAGES:
      lines += _write_page(name, folder, results_dir)
      advance(1)
  lines.append("Made by\n\n```\nmake reproduce\n```")
  index = folder / INDEX
  index.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
  return index


def make_page(name: str, results_dir: str) -> tuple[page.Page, list[str]]:
  """Makes a page of what has been measured.

  Args:
    name: One of `PAGES`.
    results_dir: As in `run`.

  Returns:
    The page, and the files that it was made of.

  Raises:
    NotMeasuredError: If there is no page without results, and there are none;
      names the command that makes them.
  """
  source = PAGES[name]
  module = importlib.import_module(f"experiments.paper.{name}")
  files = [
    str(stage.file(pathlib.Path(results_dir)))
    for stage in STAGES
    if stage.kind is source.kind
    and stage.file(pathlib.Path(results_dir)).is_file()
  ]
  if source.kind is not None and (source.needed or files):
    return module.make(files), files
  return module.make(), files


def _write_page(name: str, folder: pathlib.Path, results_dir: str) -> list[str]:
  """Writes a page and returns what the index says of it."""
  try:
    made, files = make_page(name, results_dir)
  except measured.NotMeasuredError as error:
    # A page of another time must not pass for one of these results.
    for ending in (".md", ".svg"):
      (folder / f"{name}{ending}").unlink(missing_ok=True)
    title = name.replace("_", " ").capitalize()
    return [f"{title}: not measured yet. {error}"]
  page.write(made, folder, name, files)
  lines = [f"[{made.title}]({name}.md)"]
  if made.figure is not None:
    lines.append(f"![{made.title}]({name}.svg)")
  return lines


if __name__ == "__main__":
  gin_cli.main(run, name="reproduce")
