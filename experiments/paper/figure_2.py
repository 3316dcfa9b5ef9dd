"""Figure 2: expected tokens of a round.

python -m experiments.paper.figure_2 --gin_file=paper/figure_2.gin
"""

import functools

import numpy as np

from experiments.paper import curves, page
from specdec_jax import analysis

CURVES: dict[str, curves.Curve] = {
  f"γ = {'∞' if gamma == np.inf else gamma}": functools.partial(
    analysis.expected_tokens, gamma=gamma
  )
  for gamma in (1, 3, 5, 7, np.inf)
}


def make() -> page.Page:
  """Returns the page."""
  figure, diagram = curves.axes("E(tokens per round)", 10)
  curves.draw(diagram, CURVES)
  diagram.axhline(1, color="black", linestyle=":", label="baseline")
  diagram.legend()
  return page.Page(
    "Figure 2: expected tokens per round",
    "Equation 1.\n\n" + curves.marked_table(CURVES),
    figure,
  )


if __name__ == "__main__":
  page.main(make, "figure_2")
