"""Figure 3: the gamma of the highest speed.

python -m experiments.paper.figure_3 --gin_file=paper/figure_3.gin
"""

import functools

from experiments.paper import curves, page
from specdec_jax import analysis

CURVES: dict[str, curves.Curve] = {
  f"c = {cost_ratio}": functools.partial(
    analysis.optimal_gamma, cost_ratio=cost_ratio
  )
  for cost_ratio in (0.01, 0.02, 0.05, 0.1)
}


def make() -> page.Page:
  """Returns the page."""
  figure, diagram = curves.axes("best γ", 25)
  curves.draw(diagram, CURVES, drawstyle="steps-post")
  diagram.legend()
  return page.Page(
    "Figure 3: the best γ",
    "The integer at which Theorem 3.8 is largest (section 3.5).\n\n"
    + curves.marked_table(CURVES, digits=0),
    figure,
  )


if __name__ == "__main__":
  page.main(make, "figure_3")
