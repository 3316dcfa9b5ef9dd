"""Texts of a split that a model is evaluated on."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.training import data as training_data
from experiments.training.text import EncodedRow, TokenPair


class Split(NamedTuple):
  """Texts of a split.

  Attributes:
    rows: Those to evaluate on.
    left_out: How many others are too long.
  """

  rows: list[EncodedRow]
  left_out: int

  @property
  def pairs(self) -> list[TokenPair]:
    """The ids of the rows."""
    return [row[:2] for row in self.rows]

  def by_origin(self) -> dict[str, list[int]]:
    """Returns the indices of the rows of each kind of origin, if it is known.

    Kinds are in alphabetical order.
    """
    return {
      kind: [i for i, row in enumerate(self.rows) if row.kind == kind]
      for kind in sorted({row.kind for row in self.rows} - {""})
    }

  def counts(self) -> dict[str, Any]:
    """Returns how many texts and target tokens there are, for a report."""

    def count(rows: Sequence[EncodedRow]):
      tokens = sum(len(row.target) for row in rows)
      return {"texts": len(rows), "tokens": tokens}

    return count(self.rows) | {
      "left_out": self.left_out,
      "by_origin": {
        kind: count([self.rows[i] for i in indices])
        for kind, indices in self.by_origin().items()
      },
    }


def load(
  data: training_data.Examples,
  split: str,
  *,
  max_input_length: int,
  limit: int | None,
  seed: int,
) -> Split:
  """Reads a split; its rows come in an order drawn at random.

  Who takes the first of them has texts of all files and origins.

  Args:
    data: The examples.
    split: "validation" or "test".
    max_input_length: Rows with a longer side, EOS included, are left out.
    limit: How many rows to take; None for all.
    seed: Of the order.

  Raises:
    FileNotFoundError: If a file is missing.
    ValueError: If a row is bad, or none is left.
  """
  rows = data.load_rows(split)
  fitting = [row for row in rows if row.longest <= max_input_length]
  if not fitting:
    raise ValueError(
      f"None of the {len(rows)} texts of the {split} split has at most"
      f" {max_input_length} tokens a side; raise max_input_length, or give"
      " other texts."
    )
  order = np.random.default_rng(seed).permutation(len(fitting))[:limit]
  return Split([fitting[i] for i in order], len(rows) - len(fitting))
