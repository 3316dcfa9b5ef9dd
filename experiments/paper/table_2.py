"""Table 2: speed-ups, measured.

python -m experiments.paper.table_2 --gin_file=paper/table_2.gin
"""

from collections.abc import Sequence

from experiments import markdown
from experiments.paper import measured, page
from experiments.paper.published import TABLES_2_AND_4
from experiments.paper.table_4 import TASKS, expected

_PAPER = ("task", "draft", "T", "γ", "α", "speed, paper", "Theorem 3.8")
_OURS = (
  "pair",
  "task",
  "draft",
  "batch",
  "T",
  "γ",
  "α̂",
  "tokens per target call",
  "speed, paper",
  "Theorem 3.8",
  "predicted",
  "speed, ours",
  "at given α",
  "run",
)


def make(results: Sequence[str]) -> page.Page:
  """Returns the page.

  Args:
    results: Files speed.jsonl.

  Raises:
    FileNotFoundError: See `measured.read`.
    ValueError: Likewise.
  """
  lines = measured.read(results, measured.SPEED)
  runs = measured.Runs(lines)
  return page.Page(
    "Table 2: empirical speed",
    "\n\n".join(
      [
        "The paper's own: T5-XXL on one TPU-v4, batch 1.",
        markdown.table(
          _PAPER,
          [
            (
              TASKS[row.task],
              f"T5-{row.draft}",
              str(row.temperature),
              str(row.gamma),
              f"{row.alpha:.2f}",
              f"{row.empirical}x",
              f"{expected(row):.2f}x",
            )
            for row in TABLES_2_AND_4
          ],
        ),
        "Ours, each against its own baseline in the same run: median"
        " (lowest–highest) of the repeats, and 95% intervals over texts. Where"
        " the paper has a row of this task or the one that it stands in for,"
        " with a draft of this name, at this temperature and γ, its speed is"
        " beside ours; models, texts and machine are others. Theorem 3.8 is of"
        " our α̂ and c; predicted is from counted rounds and the parts' times,"
        " without the theorem's assumptions. Synthetic rows are given an α, and"
        " have their speed with as many rounds as it leads to expect.",
        markdown.table(_OURS, [_row(line, runs) for line in lines]),
        *measured.warnings(lines),
        runs.listed(),
      ]
    ),
  )


def published_speed(line: measured.Line) -> str:
  """Returns what the paper's row of a line's cell says, or a dash."""
  cell = (
    measured.published_task(line),
    measured.published_draft(line),
    line["temperature"],
    line["gamma"],
  )
  for row in TABLES_2_AND_4:
    if (row.task, row.draft, row.temperature, row.gamma) == cell:
      return f"{row.empirical}x"
  return markdown.NOT_MEASURED


def _row(line: measured.Line, runs: measured.Runs) -> tuple[str, ...]:
  return (
    measured.pair_name(line),
    line["task"],
    line["draft"],
    str(line["batch_size"]),
    f"{line['temperature']:g}",
    str(line["gamma"]),
    measured.interval(line["alpha_hat"]),
    measured.interval(line["block_efficiency"], digits=2),
    published_speed(line),
    f"{line['theorem_3_8']:.2f}x",
    measured.spread(line["predicted"]),
    measured.spread(line["speedup"]),
    _at_given_alpha(line),
    runs.number(line),
  )


def _at_given_alpha(line: measured.Line) -> str:
  """Synthetic lines alone are given an alpha, from which chance departs."""
  if "speedup_at_alpha" not in line:
    return markdown.NOT_MEASURED
  return f"{measured.spread(line['speedup_at_alpha'])}, α = {line['alpha']:g}"


if __name__ == "__main__":
  page.main_with_results(make, "table_2")
