"""Figure 4: speed and operations, if a draft costs nothing.

python -m experiments.paper.figure_4 --gin_file=paper/figure_4.gin
"""

import functools

from experiments.paper import curves, page
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


def make() -> page.Page:
  """Returns the page."""
  figure, diagram = curves.axes("speed (solid), operations (dotted)", 10)
  curves.draw(diagram, SPEED)
  curves.draw(diagram, OPERATIONS, ":")
  diagram.axhline(1, color="black")
  diagram.legend(*_solid(diagram))
  return page.Page(
    "Figure 4: inference speed and arithmetic operations",
    "\n\n".join(
      [
        "Theorems 3.8 (speed) and 3.11 (operations); c and ĉ are 0.",
        curves.marked_table(SPEED),
        curves.marked_table(OPERATIONS),
      ]
    ),
    figure,
  )


def _solid(diagram):
  """Half of the legend says it: colours are the same for both."""
  handles, labels = diagram.get_legend_handles_labels()
  return handles[: len(GAMMAS)], labels[: len(GAMMAS)]


if __name__ == "__main__":
  page.main(make, "figure_4")
