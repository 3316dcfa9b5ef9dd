"""Table 5: alpha with lenience, which is lossy.

python -m experiments.paper.table_5 --gin_file=paper/table_5.gin
"""

from collections.abc import Sequence

from experiments import markdown
from experiments.paper import measured, page
from experiments.paper.published import (
  GREEDY_LENIENT_ALPHAS,
  GREEDY_LENIENT_GAMMA,
  GREEDY_LENIENT_SPEEDS,
  LENIENCES,
  LENIENT_COST_RATIO,
  LENIENT_SPEEDS,
  TABLE_5,
)
from specdec_jax import analysis


def make(results: Sequence[str]) -> page.Page:
  """Returns the page.

  Args:
    results: Files alpha.jsonl.

  Raises:
    FileNotFoundError: See `measured.read`.
    ValueError: Likewise.
    NotMeasuredError: Likewise, or if no line is lossy.
  """
  lines = measured.read(results, measured.ALPHA)
  if all(line["lenience"] == 1 for line in lines):
    raise measured.NotMeasuredError(
      f"{', '.join(results)} have no line with lenience below 1, which Table 5"
      f' is of; {measured.ALPHA.command} --gin.measure_alpha.leniences="(1.0,'
      ' 0.5, 0.3, 0.1)" makes such lines.'
    )
  runs = measured.Runs(lines)
  leniences = sorted({line["lenience"] for line in lines}, reverse=True)
  return page.Page(
    "Table 5: α with lenience",
    "\n\n".join(
      [
        "LOSSY: with lenience l below 1 a guess is judged against l q, and what"
        " is written is not distributed as the target's own text (appendix"
        " A.5).",
        "The paper's own, T5-XXL on EnDe at T = 1:",
        markdown.table(
          ("draft", *map(_heading, LENIENCES)),
          [(row.draft, *row.alphas) for row in TABLE_5],
        ),
        _speeds(),
        "Ours: α is the mean of Σ min(p / l, q) over what the target wrote"
        " without lenience, with 95% intervals over texts. Columns with l below"
        " 1 are LOSSY.",
        markdown.table(
          (
            "pair",
            "task",
            "draft",
            "T",
            *map(_heading, leniences),
            "run",
          ),
          _rows(lines, leniences, runs),
        ),
        runs.listed(),
      ]
    ),
  )


def _heading(lenience: float) -> str:
  return f"l = {lenience:g}" + ("" if lenience == 1 else " (LOSSY)")


def _speeds() -> str:
  """The speeds of section A.5's text, and what the formula gives."""
  small = next(row for row in TABLE_5 if row.draft == "T5-small")
  rows = []
  for lenience, alpha, printed, greedy_alpha, greedy in zip(
    LENIENCES,
    map(float, small.alphas),
    LENIENT_SPEEDS,
    GREEDY_LENIENT_ALPHAS,
    GREEDY_LENIENT_SPEEDS,
    strict=True,
  ):
    best = int(analysis.optimal_gamma(alpha, LENIENT_COST_RATIO))
    rows.append(
      (
        f"{lenience:g}",
        f"{alpha:.2f}",
        f"{printed}x",
        f"{_speed(alpha, best):.2f}x with γ = {best}",
        f"{greedy_alpha:.2f}",
        f"{greedy}x",
        f"{_speed(greedy_alpha, GREEDY_LENIENT_GAMMA):.2f}x",
      )
    )
  return "\n\n".join(
    [
      f"Its text has speeds of T5-small with c = {LENIENT_COST_RATIO}; at"
      f" T = 0 with γ = {GREEDY_LENIENT_GAMMA}.",
      markdown.table(
        (
          "l",
          "α, T = 1",
          "speed, paper",
          "Theorem 3.8, best γ",
          "α, T = 0",
          "speed, paper",
          "Theorem 3.8",
        ),
        rows,
      ),
      "At T = 0 the formula gives what is printed. At T = 1 the printed α and c"
      " give less than is printed, with any γ, also where α and c are rounded;"
      " all but the last, 5x, of which 4.79 is a rounding.",
    ]
  )


def _speed(alpha: float, gamma: int) -> float:
  return float(analysis.wall_time_improvement(alpha, gamma, LENIENT_COST_RATIO))


def _rows(
  lines: Sequence[measured.Line],
  leniences: Sequence[float],
  runs: measured.Runs,
) -> list[tuple[str, ...]]:
  """A row per draft, temperature and run, a column per lenience."""
  cells: dict[tuple[str, ...], dict[float, str]] = {}
  for line in lines:
    row = (
      line["pair"],
      line["task"],
      line["draft"],
      f"{line['temperature']:g}",
      runs.number(line),
    )
    cells.setdefault(row, {})[line["lenience"]] = measured.interval(
      line["alpha"]
    )
  return [
    (
      *row[:-1],
      *(found.get(each, markdown.NOT_MEASURED) for each in leniences),
      row[-1],
    )
    for row, found in cells.items()
  ]


if __name__ == "__main__":
  page.main_with_results(make, "table_5")
