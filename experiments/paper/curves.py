"""Curves over alpha, from 0.5 to 0.9, as the paper draws them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import markdown

ALPHAS = np.linspace(0.5, 0.9, 401)
MARKED = (0.5, 0.6, 0.7, 0.8, 0.9)

Curve = Callable[..., Any]
"""From float64[N], alphas, to as many numbers."""


def axes(label: str, top: float) -> tuple[Figure, Axes]:
  """Returns an empty diagram over alpha, from 0 to `top`."""
  figure = Figure(figsize=(6, 4), layout="constrained")
  diagram = figure.add_subplot(
    xlabel="α", ylabel=label, xlim=(ALPHAS[0], ALPHAS[-1]), ylim=(0, top)
  )
  diagram.grid(alpha=0.3)
  return figure, diagram


def draw(
  diagram: Axes, curves: Mapping[str, Curve], style: str = "-", **options
) -> None:
  """Draws a line per curve, each in the next colour of the cycle."""
  for i, (name, curve) in enumerate(curves.items()):
    diagram.plot(
      ALPHAS, curve(ALPHAS), style, color=f"C{i}", label=name, **options
    )


def marked_table(curves: Mapping[str, Curve], digits: int = 2) -> str:
  """Returns a table of the curves' values at some alpha."""
  return markdown.table(
    ["", *(f"α = {each}" for each in MARKED)],
    [
      [name, *(f"{y:.{digits}f}" for y in curve(np.array(MARKED)))]
      for name, curve in curves.items()
    ],
  )
