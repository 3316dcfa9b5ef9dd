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
    longest = np.array([batching.length(*each) for each in examples], np.int64)
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
    return self._batching.rows(self._batching.widths[bucket])

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
    inputs, targets = (
      np.full((len(indices), width), self._batching.pad_id, np.int32)
      for _ in range(2)
    )
    for row, index in enumerate(indices):
      source, target = self._examples[index]
      inputs[row, : len(source)] = source
      start = len(source) if self._batching.joined else 0
      targets[row, start : start + len(target)] = target
    return Batch(inputs, targets)
