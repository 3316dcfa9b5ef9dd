"""Table 1: operations and speed for some alpha and gamma, c = c^ = 0.

python -m experiments.paper.table_1 --gin_file=paper/table_1.gin
"""

from experiments import markdown
from experiments.paper import page
from experiments.paper.published import TABLE_1
from specdec_jax import analysis


def make() -> page.Page:
  """Returns the page."""
  rows = [
    (
      f"{row.alpha:g}",
      str(row.gamma),
      f"{row.operations}x",
      f"{analysis.operations_increase(row.alpha, row.gamma, 0):.2f}x",
      f"{row.speed}x",
      f"{analysis.wall_time_improvement(row.alpha, row.gamma, 0):.2f}x",
    )
    for row in TABLE_1
  ]
  columns = (
    "α",
    "γ",
    "operations, paper",
    "Theorem 3.11",
    "speed, paper",
    "Theorem 3.8",
  )
  return page.Page(
    "Table 1: arithmetic operations and inference speed",
    markdown.table(columns, rows) + "\n\nBoth cost ratios, c and ĉ, are 0.",
  )


if __name__ == "__main__":
  page.main(make, "table_1")
