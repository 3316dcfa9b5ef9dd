"""Tables in Markdown, and what the figures in them were made by."""

from collections.abc import Iterable, Sequence
from typing import Any

from experiments import environment

NOT_MEASURED = "–"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
  """Returns a table; the columns are its first line."""
  return "\n".join(map(_line, (columns, ["---"] * len(columns), *rows)))


def number(value: float | None, digits: int, unit: str = "") -> str:
  """Returns a cell; None is what was not measured."""
  return NOT_MEASURED if value is None else f"{value:.{digits}f}{unit}"


def made_by(reports: Sequence[dict[str, Any]]) -> str:
  """Returns the commands that made reports, and where; each once.

  Raises:
    KeyError: If a report lacks "command" or "environment".
  """
  commands = [each["command"] for each in reports]
  places = [environment.line(each["environment"]) for each in reports]
  return "\n".join(
    [
      "Made by",
      "",
      "```",
      *dict.fromkeys(commands),
      "```",
      "",
      *(f"on {each}." for each in dict.fromkeys(places)),
    ]
  )


def _line(cells: Sequence[str]) -> str:
  return f"| {' | '.join(cells)} |"
