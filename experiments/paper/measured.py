"""Lines that were measured, as the pages read and show them."""

import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from experiments import environment
from experiments.markdown import NOT_MEASURED
from experiments.paths import resolve
from experiments.records import read_records

Line = dict[str, Any]


class Kind(NamedTuple):
  """A kind of file.

  Attributes:
    name: What the file is called.
    command: What makes it.
    fields: What each of its lines must have, beside its environment.
  """

  name: str
  command: str
  fields: tuple[str, ...]


SPEED = Kind(
  "speed.jsonl",
  "python -m experiments.measure_speed --gin_file=measure_speed.gin",
  (
    "pair",
    "task",
    "draft",
    "temperature",
    "gamma",
    "batch_size",
    "lenience",
    "synthetic",
    "alpha_hat",
    "block_efficiency",
    "cost_ratio",
    "verification_ratio",
    "theorem_3_8",
    "predicted",
    "speedup",
    "error_terms",
  ),
)
ALPHA = Kind(
  "alpha.jsonl",
  "python -m experiments.measure_alpha --gin_file=measure_alpha.gin",
  (
    "pair",
    "task",
    "draft",
    "temperature",
    "lenience",
    "tokens",
    "alpha",
    "alpha_hat",
  ),
)
TRACE = Kind(
  "trace.jsonl",
  "python -m experiments.measure_trace --gin_file=measure_trace.gin",
  (
    "pair",
    "task",
    "temperature",
    "gamma",
    "lenience",
    "text",
    "rounds",
    "baseline_calls",
    "parts_ms",
    "speedup",
    "predicted",
  ),
)


class NotMeasuredError(ValueError):
  """What a page needs has not been measured; names the command."""


def read(paths: Sequence[str], kind: Kind) -> list[Line]:
  """Reads files of one kind, one after the other.

  Args:
    paths: Of the files; "results" of a page.
    kind: What they must be.

  Returns:
    Their lines.

  Raises:
    FileNotFoundError: If one is not there; names the command that makes it.
    ValueError: If a line is damaged.
    NotMeasuredError: If there is no file or no line, or one is of another kind.
  """
  if isinstance(paths, str):
    raise ValueError(f"results is {paths!r}; give a list of files.")
  if not paths:
    raise NotMeasuredError(
      f"results is empty; name one or more {kind.name}, which {kind.command}"
      " makes."
    )
  return [line for path in paths for line in _read_file(path, kind)]


def _read_file(path: str, kind: Kind) -> list[Line]:
  file = pathlib.Path(resolve(path))
  if not file.is_file():
    raise FileNotFoundError(
      f"There is no file {path}; {kind.command}"
      f" --output_dir={pathlib.Path(path).parent} makes it."
    )
  lines = read_records(file)
  if not lines:
    raise NotMeasuredError(
      f"{path} holds no line; {kind.command}"
      f" --output_dir={pathlib.Path(path).parent} makes them."
    )
  for number, line in enumerate(lines, start=1):
    missing = [
      name
      for name in (*kind.fields, "environment", "command")
      if name not in line
    ]
    if missing:
      raise NotMeasuredError(
        f"{path}:{number} has no {', '.join(missing)}, so it is no line of a"
        f" {kind.name}; {kind.command} makes such lines."
      )
  return lines


class Runs:
  """Numbers of the runs that lines come from, for tables to refer to."""

  def __init__(self, lines: Iterable[Line]):
    """Numbers them from 1, in the lines' order."""
    self._names = list(dict.fromkeys(map(_run_of, lines)))

  def number(self, line: Line) -> str:
    """Returns a table's cell."""
    return str(self._names.index(_run_of(line)) + 1)

  def listed(self) -> str:
    """Returns, for the end of a page, what each was made by and on."""
    return "Runs of our own\n\n" + "\n".join(
      f"{number}. `{command}` on {place}."
      for number, (command, place) in enumerate(self._names, start=1)
    )


def _run_of(line: Line) -> tuple[str, str]:
  return line["command"], environment.line(line["environment"])


def pair_name(line: Line) -> str:
  """Returns the pair's name, with what must never be overlooked."""
  name = line["pair"]
  if line.get("synthetic"):
    name += " (SYNTHETIC)"
  if line["lenience"] != 1:
    name += f" (LOSSY: lenience {line['lenience']:g})"
  # Lines of before there was a choice have none.
  if line.get("verification", "token") != "token":
    name += f" ({line['verification']} verification)"
  return name


def warnings(lines: Sequence[Line]) -> list[str]:
  """Returns what a page must say of such lines; nothing if all is plain."""
  found = []
  if any(each.get("synthetic") for each in lines):
    found.append(
      "SYNTHETIC rows have random weights of the published sizes, and keep"
      " each guess by chance with the paper's α. Their times are those of the"
      " real shapes; their texts mean nothing. The pair is named by its"
      " target's size, which is the paper's in rows of t5_1_1_xxl alone."
    )
  if any(each["lenience"] != 1 for each in lines):
    found.append(
      "LOSSY rows are decoded with lenience below 1 (appendix A.5): what they"
      " write is not distributed as the target's own text."
    )
  return found


def interval(values: dict[str, float | None] | None, digits: int = 3) -> str:
  """Returns a mean and its 95% interval, "mean", "low" and "high"."""
  if values is None or values["mean"] is None:
    return NOT_MEASURED
  mean = f"{values['mean']:.{digits}f}"
  if values["low"] is None:
    return mean
  return f"{mean} ({values['low']:.{digits}f}–{values['high']:.{digits}f})"


def spread(values: dict[str, float]) -> str:
  """Returns a speed-up: its median over the repeats, lowest and highest."""
  low, middle, high = (values[name] for name in ("min", "median", "max"))
  return f"{middle:.2f}x ({low:.2f}–{high:.2f})"


# Which of the paper's tasks a task of ours is, or stands in for.
_TASKS = {
  "EnDe": "ende",
  "ende": "ende",
  "ende_sentences": "ende",
  "CNNDM": "cnndm",
  "summary": "cnndm",
}


def published_task(line: Line) -> str | None:
  """Returns "ende" or "cnndm", or None if the paper has no such task."""
  return _TASKS.get(line["task"])


def published_draft(line: Line) -> str:
  """Returns "small", "base", "large", "unigram" ... or what it is called."""
  return line["draft"].removeprefix("t5_1_1_")
