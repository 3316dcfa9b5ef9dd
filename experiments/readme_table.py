"""Fills README's results table from reports that `experiments.generate` wrote.

    python -m experiments.readme_table runs/demo/report.json

One row per report; beneath the table the commands that made them, and the
environment they ran in.
"""

import argparse
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from experiments import markdown
from experiments.markdown import NOT_MEASURED, number
from experiments.paths import REPOSITORY

BEGIN = "<!-- results:begin -->"
END = "<!-- results:end -->"

_COLUMNS = (
  "pair",
  "task",
  "batch",
  "T",
  "γ",
  "α̂",
  "τ",
  "baseline, ms/token",
  "speculative, ms/token",
  "speedup",
  "predicted",
  "same text",
)


def run(*, reports: Sequence[pathlib.Path], readme: pathlib.Path) -> None:
  """Writes the table between the two marks.

  Args:
    reports: Files of `experiments.generate`, a row each.
    readme: What to write into.

  Raises:
    ValueError: If a report lacks a field, or the file lacks the marks.
  """
  loaded = []
  for path in reports:
    try:
      loaded.append(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
      raise ValueError(
        f"{path} is no report ({error}); make one with python -m"
        " experiments.generate."
      ) from error
  text = readme.read_text(encoding="utf-8")
  try:
    text = insert(text, table(loaded))
  except ValueError as error:
    raise ValueError(f"{readme}: {error}") from error
  readme.write_text(text, encoding="utf-8")


def table(reports: Sequence[dict[str, Any]]) -> str:
  """Returns the table, its commands and its environment, in Markdown.

  Raises:
    ValueError: If a report lacks a field.
  """
  try:
    rows = markdown.table(_COLUMNS, map(_row, reports))
    return f"{rows}\n\n{markdown.made_by(reports)}"
  except KeyError as error:
    raise ValueError(
      f"the report has no field {error}; make it anew with this version of"
      " experiments.generate."
    ) from error


def insert(text: str, new: str) -> str:
  """Returns `text` with `new` in place of what stands between the marks.

  Raises:
    ValueError: If the marks are not there, once each and in order.
  """
  if text.count(BEGIN) != 1 or text.count(END) != 1:
    raise ValueError(f"{BEGIN} and {END} must each stand there once.")
  before, rest = text.split(BEGIN)
  if END not in rest:
    raise ValueError(f"{END} must stand after {BEGIN}.")
  after = rest.split(END)[1]
  return f"{before}{BEGIN}\n{new}\n{END}{after}"


def _row(report: dict[str, Any]) -> list[str]:
  # Reports of before there was lenience have none.
  lenience = report.get("lenience", 1)
  lossy = "" if lenience == 1 else f" (lossy: lenience {lenience:g})"
  return [
    report["pair"] + lossy,
    report["task"],
    str(report["batch_size"]),
    f"{report['temperature']:g}",
    str(report["gamma"]),
    number(report["acceptance_rate"], 2),
    number(report["block_efficiency"], 2),
    _spread(report["baseline_ms_per_token"]),
    _spread(report["speculative_ms_per_token"]),
    number(report["speedup"], 2, "x"),
    number(report["predicted_speedup"], 2, "x"),
    {True: "yes", False: "no", None: NOT_MEASURED}[report["equal_to_baseline"]],
  ]


def _spread(milliseconds: dict[str, float] | None) -> str:
  if milliseconds is None:
    return NOT_MEASURED
  low, middle, high = (milliseconds[k] for k in ("min", "median", "max"))
  return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def main() -> None:
  """Reads the command line."""
  parser = argparse.ArgumentParser(description="Fills README's results table.")
  parser.add_argument("reports", nargs="+", type=pathlib.Path)
  parser.add_argument(
    "--readme", type=pathlib.Path, default=REPOSITORY / "README.md"
  )
  arguments = parser.parse_args()
  run(reports=arguments.reports, readme=arguments.readme)


if __name__ == "__main__":
  main()
