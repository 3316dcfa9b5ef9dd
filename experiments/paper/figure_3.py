"""Figure 3: the gamma of the highest speed.

python -m experiments.paper.figure_3 --gin_file=paper/figure_3.gin
"""

import functools
from collections.abc import Sequence

from experiments.paper import curves, measured, page
from specdec_jax import analysis

CURVES: dict[str, curves.Curve] = {
  f"c = {cost_ratio}": functools.partial(
    analysis.optimal_gamma, cost_ratio=cost_ratio
  )
  for cost_ratio in (0.01, 0.02, 0.05, 0.1)
}

_GRID = (
  "pair",
  "task",
  "draft",
  "batch_size",
  "temperature",
  "lenience",
  "verification",
  "synthetic",
)
"""What two lines have in common that differ in gamma alone."""


def make(results: Sequence[str] = ()) -> page.Page:
  """Returns the page.

  Args:
    results: Files speed.jsonl, for points; none for the curves alone.

  Raises:
    FileNotFoundError: See `measured.read`.
    ValueError: Likewise.
  """
  lines = measured.read(results, measured.SPEED) if results else []
  best = _best(lines)
  figure, diagram = curves.axes("best γ", 25)
  curves.draw(diagram, CURVES, drawstyle="steps-post")
  diagram.legend()
  curves.mark(diagram, best, lambda line: line["gamma"], ())
  return page.Page(
    "Figure 3: the best γ",
    "\n\n".join(
      [
        "The integer at which Theorem 3.8 is largest (section 3.5).",
        curves.marked_table(CURVES, digits=0),
        *curves.points(
          best,
          ("c", "best γ at α̂ and c", "γ tried", "speed, ours"),
          lambda line: (
            f"{line['cost_ratio']:.3f}",
            _optimal(line),
            ", ".join(map(str, line["tried"])),
            measured.spread(line["speedup"]),
          ),
        ),
      ]
    ),
    figure,
  )


def _best(lines: Sequence[measured.Line]) -> list[measured.Line]:
  """Returns the fastest line of each grid over gamma, with those "tried".

  A grid of a single gamma has no best one.
  """
  grids: dict[tuple, list[measured.Line]] = {}
  for line in lines:
    grids.setdefault(tuple(line.get(name) for name in _GRID), []).append(line)
  best = []
  for grid in grids.values():
    tried = sorted({line["gamma"] for line in grid})
    if len(tried) > 1:
      fastest = max(grid, key=lambda line: line["speedup"]["median"])
      best.append(fastest | {"tried": tried})
  return best


def _optimal(line: measured.Line) -> str:
  """The formula's; bounded, since a free draft may always guess more."""
  return str(
    analysis.optimal_gamma(
      line["alpha_hat"]["mean"], line["cost_ratio"], max_gamma=1000
    )
  )


if __name__ == "__main__":
  page.main_with_results(make, "figure_3")
