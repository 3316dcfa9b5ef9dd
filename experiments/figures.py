"""Pictures in files."""

import pathlib

import matplotlib
from matplotlib.figure import Figure


def save(figure: Figure, path: pathlib.Path) -> None:
  """Saves a picture as SVG; the same one is the same file."""
  # Neither a date nor random names.
  with matplotlib.rc_context({"svg.hashsalt": path.stem}):
    figure.savefig(path, metadata={"Date": None})
