"""Figure 4: speed and operations, if a draft costs nothing.

python -m experiments.paper.figure_4 --gin_file=paper/figure_4.gin
"""

import functools
from collections.abc import Sequence

from experiments.paper import curves, measured, page
from specdec_jax import analysis

GAMMAS = (1, 3, 5, 7, 10)
SPEED: dict[str, curves.Curve] = {
  f"γ = {gamma}": functools.partial(
    analysis.wall_time_improvement, gamma=gamma, cost_ratio=0
  )
  for gamma in GAMMAS
}
OPERATIONS: dict[str, curves.Curve] = {
  f"γ = {gamma}, operations": functools.partial(
    analysis.operations_increase, gamma=gamma, operations_ratio=0
  )
  for gamma in GAMMAS
}


def make(results: Sequence[str] = ()) -> page.Page:
  """Returns the page.

  Args:
    results: Files speed.jsonl, for points; none for the curves alone.

  Raises:
    FileNotFoundError: See `measured.read`.
    ValueError: Likewise.
  """
  lines = measured.read(results, measured.SPEED) if results else []
  figure, diagram = curves.axes("speed (solid), operations (dotted)", 10)
  curves.draw(diagram, SPEED)
  curves.draw(diagram, OPERATIONS, ":")
  diagram.axhline(1, color="black")
  diagram.legend(*_solid(diagram))
  curves.mark(
    diagram, lines, lambda line: line["speedup"]["median"], list(SPEED)
  )
  return page.Page(
    "Figure 4: inference speed and arithmetic operations",
    "\n\n".join(
      [
        "Theorems 3.8 (speed) and 3.11 (operations); c and ĉ are 0.",
        curves.marked_table(SPEED),
        curves.marked_table(OPERATIONS),
        *curves.points(
          lines,
          ("c", "Theorem 3.8 at α̂, c = 0", "at our c", "speed, ours"),
          lambda line: (
            f"{line['cost_ratio']:.3f}",
            _free(line),
            f"{line['theorem_3_8']:.2f}x",
            measured.spread(line["speedup"]),
          ),
        ),
      ]
    ),
    figure,
  )


def _solid(diagram):
  """Half of the legend says it: colours are the same for both."""
  handles, labels = diagram.get_legend_handles_labels()
  return handles[: len(GAMMAS)], labels[: len(GAMMAS)]


def _free(line: measured.Line) -> str:
  speed = analysis.wall_time_improvement(
    line["alpha_hat"]["mean"], line["gamma"], 0
  )
  return f"{speed:.2f}x"


if __name__ == "__main__":
  page.main_with_results(make, "figure_4")
