"""Batches of similar lengths, a function of the seed and the step alone."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from specdec_jax.array_typing import Int


class Batch(NamedTuple):
  """Padded token ids.

  Attributes:
    inputs: Encoder tokens, EOS included; or prompts, without it.
    targets: Decoder tokens, EOS included. Those that are not 0 count.
  """

  inputs: Int[np.ndarray, "B S"]
  targets: Int[np.ndarray, "B T"]


@dataclasses.dataclass(frozen=True)
class Batching:
  """How examples are put together.

  Both sides of a batch are as wide as the bucket of its longest example, so
  there are no more shapes to compile than widths.

  Attributes:
    tokens: Padded target tokens of a batch; it has `tokens // width` rows.
    widths: The buckets, ascending.
    seed: Of the order.
    pad_id: Fills the rows.
    joined: Whether source and target are one text, for a decoder without an
      encoder. Then the target begins in the column after its source's last,
      and a row is as long as both.
    rows_multiple: Rows of a batch are a multiple of this: of the devices and
      microbatches that share them.
  """

  tokens: int
  widths: tuple[int, ...] = (16, 24, 32, 48, 64, 96)
  seed: int = 0
  pad_id: int = 0
  joined: bool = False
  rows_multiple: int = 1

  def __post_init__(self):
    object.__setattr__(self, "widths", tuple(self.widths))
    if list(self.widths) != sorted(set(self.widths)) or not self.widths:
      raise ValueError(
        f"widths is {self.widths}; give bucket widths in ascending order."
      )
    if self.rows_multiple < 1:
      raise ValueError(
        f"rows_multiple is {self.rows_multiple}; it must be positive."
      )
    if not self.rows(self.widths[-1]):
      raise ValueError(
        f"tokens is {self.tokens}, less than {_rows(self.rows_multiple)} of"
        f" the widest bucket ({self.widths[-1]}); raise tokens or drop the"
        " bucket."
      )

  def rows(self, width: int) -> int:
    """How many rows a batch of a bucket has."""
    rows = self.tokens // width
    return rows - rows % self.rows_multiple

  def length(self, source: Sequence[int], target: Sequence[int]) -> int:
    """How wide a bucket an example needs."""
    if self.joined:
      return len(source) + len(target)
    return max(len(source), len(target))


def _rows(count: int) -> str:
  return "one row" if count == 1 else f"{count} rows"


Examples = Sequence[tuple[Sequence[int], Sequence[int]]]
"""Pairs of token ids: source and target."""


class Batches:
  """The endless, shuffled sequence of training batches.

  Batch i is a function of the examples, the settings and i, so a run that
  starts again needs nothing but its step to go on with the same data.
  """

  def __init__(self, examples: Examples, batching: Batching):
    """Sorts examples into buckets.

    Args:
      examples: Pairs of token ids (source, target), each with its EOS.
      batching: See `Batching`.

    Raises:
      ValueError: If an example is longer than the widest bucket, or no bucket
        has a batch's worth of examples.
    """
    self._examples = examples
    self._batching = batching
    self._buckets = _buckets(examples, batching)
    self.per_epoch = sum(
      len(indices) // batching.rows(width)
      for width, indices in self._buckets.items()
    )
    if not self.per_epoch:
      raise ValueError(
        f"{len(examples)} examples do not fill one batch of"
        f" {batching.tokens} tokens; lower tokens or give more text."
      )
    self._epoch, self._plan = -1, []

  def __getitem__(self, step: int) -> Batch:
    """Returns the batch of a step."""
    epoch, position = divmod(step, self.per_epoch)
    if epoch != self._epoch:
      self._epoch, self._plan = epoch, self._shuffled(epoch)
    width, indices = self._plan[position]
    return _pad(self._examples, indices, width, len(indices), self._batching)

  def _shuffled(self, epoch: int):
    generator = np.random.default_rng((self._batching.seed, epoch))
    plan = []
    for width, indices in self._buckets.items():
      rows = self._batching.rows(width)
      indices = generator.permutation(indices)
      for start in range(0, len(indices) - rows + 1, rows):
        plan.append((width, indices[start : start + rows]))
    return [plan[i] for i in generator.permutation(len(plan))]


def in_order(examples: Examples, batching: Batching) -> list[Batch]:
  """Returns every example once, unshuffled; short batches end in pads.

  Args:
    examples: As in `Batches`.
    batching: See `Batching`.

  Raises:
    ValueError: If an example is longer than the widest bucket.
  """
  batches = []
  for width, indices in _buckets(examples, batching).items():
    rows = batching.rows(width)
    for start in range(0, len(indices), rows):
      chosen = indices[start : start + rows]
      batches.append(_pad(examples, chosen, width, rows, batching))
  return batches


def _buckets(examples: Examples, batching: Batching) -> dict[int, np.ndarray]:
  """Returns the indices of the examples of each width."""
  lengths = np.array([batching.length(*each) for each in examples], np.int64)
  if lengths.size and lengths.max() > batching.widths[-1]:
    raise ValueError(
      f"An example has {lengths.max()} tokens, more than the widest bucket"
      f" ({batching.widths[-1]}); drop such examples or add a width."
    )
  bucket = np.searchsorted(batching.widths, lengths)
  return {
    width: np.flatnonzero(bucket == i)
    for i, width in enumerate(batching.widths)
  }


def _pad(
  examples: Examples, indices, width: int, rows: int, batching: Batching
) -> Batch:
  inputs, targets = (
    np.full((rows, width), batching.pad_id, np.int32) for _ in range(2)
  )
  for row, index in enumerate(indices):
    source, target = examples[index]
    inputs[row, : len(source)] = source
    start = len(source) if batching.joined else 0
    targets[row, start : start + len(target)] = target
  return Batch(inputs, targets)
