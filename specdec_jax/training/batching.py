"""Batches of similar lengths, a function of the seed and the step alone."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from specdec_jax.array_typing import Int


class Batch(NamedTuple):
  """Padded token ids.

  Attributes:
    inputs: Encoder tokens, EOS included.
    targets: Decoder tokens, EOS included.
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
  """

  tokens: int
  widths: tuple[int, ...] = (16, 24, 32, 48, 64, 96)
  seed: int = 0
  pad_id: int = 0

  def __post_init__(self):
    object.__setattr__(self, "widths", tuple(self.widths))
    if list(self.widths) != sorted(set(self.widths)) or not self.widths:
      raise ValueError(
        f"widths is {self.widths}; give bucket widths in ascending order."
      )
    if self.tokens < self.widths[-1]:
      raise ValueError(
        f"tokens is {self.tokens}, less than one row of the widest bucket"
        f" ({self.widths[-1]}); raise tokens or drop the bucket."
      )


class Batches:
  """The endless, shuffled sequence of training batches.

  Batch i is a function of the examples, the settings and i, so a run that
  starts again needs nothing but its step to go on with the same data.
  """

  def __init__(
    self,
    examples: Sequence[tuple[Sequence[int], Sequence[int]]],
    batching: Batching,
  ):
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
    longest = np.array([max(len(s), len(t)) for s, t in examples], np.int64)
    if longest.size and longest.max() > batching.widths[-1]:
      raise ValueError(
        f"An example has {longest.max()} tokens, more than the widest bucket"
        f" ({batching.widths[-1]}); drop such examples or add a width."
      )
    bucket = np.searchsorted(batching.widths, longest)
    self._buckets = [
      np.flatnonzero(bucket == i) for i in range(len(batching.widths))
    ]
    self.per_epoch = sum(
      len(indices) // self._rows(i) for i, indices in enumerate(self._buckets)
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
    return self._pad(width, indices)

  def in_order(self) -> list[Batch]:
    """Returns every example once, unshuffled; short batches end in pads."""
    batches = []
    for i, indices in enumerate(self._buckets):
      rows = self._rows(i)
      for start in range(0, len(indices), rows):
        batch = self._pad(
          self._batching.widths[i], indices[start : start + rows]
        )
        missing = rows - len(batch.inputs)
        batches.append(
          Batch(
            *(
              np.pad(
                each,
                ((0, missing), (0, 0)),
                constant_values=self._batching.pad_id,
              )
              for each in batch
            )
          )
        )
    return batches

  def _rows(self, bucket: int) -> int:
    return self._batching.tokens // self._batching.widths[bucket]

  def _shuffled(self, epoch: int):
    generator = np.random.default_rng((self._batching.seed, epoch))
    plan = []
    for i, indices in enumerate(self._buckets):
      rows = self._rows(i)
      indices = generator.permutation(indices)
      for start in range(0, len(indices) - rows + 1, rows):
        plan.append((self._batching.widths[i], indices[start : start + rows]))
    return [plan[i] for i in generator.permutation(len(plan))]

  def _pad(self, width: int, indices) -> Batch:
    sides = []
    for side in range(2):
      padded = np.full((len(indices), width), self._batching.pad_id, np.int32)
      for row, index in enumerate(indices):
        tokens = self._examples[index][side]
        padded[row, : len(tokens)] = tokens
      sides.append(padded)
    return Batch(*sides)
