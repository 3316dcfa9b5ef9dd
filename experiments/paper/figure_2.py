"""Figure 2: expected tokens of a round.

python -m experiments.paper.figure_2 --gin_file=paper/figure_2.gin
"""

import functools
from collections.abc import Sequence

import numpy as np

from experiments.paper import curves, measured, page
from specdec_jax import analysis

CURVES: dict[str, curves.Curve] = {
  f"γ = {'∞' if gamma == np.inf else gamma}": functools.partial(
    analysis.expected_tokens, gamma=gamma
  )
  for gamma in (1, 3, 5, 7, np.inf)
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
  figure, diagram = curves.axes("E(tokens per round)", 10)
  curves.draw(diagram, CURVES)
  diagram.axhline(1, color="black", linestyle=":", label="baseline")
  diagram.legend()
  curves.mark(
    diagram, lines, lambda line: line["block_efficiency"]["mean"], list(CURVES)
  )
  return page.Page(
    "Figure 2: expected tokens per round",
    "\n\n".join(
      [
        "Equation 1.",
        curves.marked_table(CURVES),
        *curves.points(
          lines,
          ("Equation 1 at α̂", "tokens per target call, ours"),
          lambda line: (
            _expected(line),
            measured.interval(line["block_efficiency"], digits=2),
          ),
        ),
      ]
    ),
    figure,
  )


def _expected(line: measured.Line) -> str:
  return (
    f"{analysis.expected_tokens(line['alpha_hat']['mean'], line['gamma']):.2f}"
  )


if __name__ == "__main__":
  page.main_with_results(make, "figure_2")
