"""Curves over alpha, from 0.5 to 0.9, as the paper draws them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import markdown
from experiments.paper import measured

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


def mark(
  diagram: Axes,
  lines: Sequence[measured.Line],
  height: Callable[[measured.Line], float],
  names: Sequence[str],
) -> None:
  """Marks what was measured: a point per line, at its alpha-hat.

  Args:
    diagram: Where to.
    lines: Of speed.jsonl. Points of lines that are synthetic or lossy are
      hollow.
    height: How high a line's point stands.
    names: The curves', by colour; a point has the colour of its gamma's curve,
      or black.
  """
  for line in lines:
    name = f"γ = {line['gamma']}"
    colour = f"C{names.index(name)}" if name in names else "black"
    plain = not line["synthetic"] and line["lenience"] == 1
    diagram.plot(
      [line["alpha_hat"]["mean"]],
      [height(line)],
      "o",
      color=colour,
      markerfacecolor=colour if plain else "none",
    )


def points(
  lines: Sequence[measured.Line],
  headings: Sequence[str],
  cells: Callable[[measured.Line], Sequence[str]],
) -> list[str]:
  """Returns what a page says of the points that it marks.

  Args:
    lines: As they were marked; nothing is said of none.
    headings: Of the columns behind those that name a point.
    cells: What stands in them.
  """
  if not lines:
    return []
  runs = measured.Runs(lines)
  return [
    "Points are ours, at α̂ (95% interval over texts), in the colour of their"
    " γ; black where there is no such curve, hollow where they are SYNTHETIC or"
    " LOSSY. A point with α̂ outside 0.5 to 0.9 is only in the table.",
    markdown.table(
      ("pair", "task", "draft", "batch", "T", "γ", "α̂", *headings, "run"),
      [
        (
          measured.pair_name(line),
          line["task"],
          line["draft"],
          str(line["batch_size"]),
          f"{line['temperature']:g}",
          str(line["gamma"]),
          measured.interval(line["alpha_hat"]),
          *cells(line),
          runs.number(line),
        )
        for line in lines
      ],
    ),
    *measured.warnings(lines),
    runs.listed(),
  ]
