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


class Bucket(NamedTuple):
  """How wide a batch's sides are."""

  source_width: int
  target_width: int


@dataclasses.dataclass(frozen=True)
class Batching:
  """How examples are put together.

  A batch is of one bucket: its sources and its targets are padded to that
  bucket's widths, so there are no more shapes to compile than buckets.

  Attributes:
    tokens: Padded tokens of the wider side of a batch; it has `tokens // width`
      rows.
    widths: The buckets' widths, ascending; of both sides, if there are no
      target_widths.
    target_widths: Widths of targets that are much shorter than their sources,
      as summaries are; then a bucket is a width of either kind. None if both
      sides of a bucket are as wide.
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
  target_widths: tuple[int, ...] | None = None
  seed: int = 0
  pad_id: int = 0
  joined: bool = False
  rows_multiple: int = 1

  def __post_init__(self):
    for name in ("widths", "target_widths"):
      widths = getattr(self, name)
      if name == "target_widths" and widths is None:
        continue
      widths = tuple(widths)
      object.__setattr__(self, name, widths)
      if list(widths) != sorted(set(widths)) or not widths:
        raise ValueError(
          f"{name} is {widths}; give bucket widths in ascending order."
        )
    self._check_target_widths()
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

  @property
  def buckets(self) -> tuple["Bucket", ...]:
    """All shapes of batches."""
    if self.target_widths is None:
      return tuple(Bucket(width, width) for width in self.widths)
    return tuple(
      Bucket(width, target_width)
      for width in self.widths
      for target_width in self.target_widths
    )

  def rows(self, width: int) -> int:
    """How many rows a batch has whose wider side is that wide."""
    rows = self.tokens // width
    return rows - rows % self.rows_multiple

  def fits(self, source: Sequence[int], target: Sequence[int]) -> bool:
    """Whether an example is no longer than the widest bucket."""
    sides = self.lengths(source, target)
    return sides[0] <= self.widths[-1] and sides[1] <= self._last_target_width

  def lengths(
    self, source: Sequence[int], target: Sequence[int]
  ) -> tuple[int, int]:
    """How wide a bucket's two sides must be for an example."""
    if self.joined:
      both = len(source) + len(target)
      return both, both
    if self.target_widths is None:
      longer = max(len(source), len(target))
      return longer, longer
    return len(source), len(target)

  @property
  def _last_target_width(self) -> int:
    return (self.target_widths or self.widths)[-1]

  def _check_target_widths(self) -> None:
    if self.target_widths is None:
      return
    if self.joined:
      raise ValueError(
        f"target_widths is {self.target_widths}, but source and target are one"
        " text for a decoder without an encoder; set it to None."
      )
    if self.target_widths[-1] > self.widths[-1]:
      raise ValueError(
        f"target_widths is {self.target_widths}, wider than the widest of"
        f" widths ({self.widths[-1]}); leave such widths out."
      )


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
      len(indices) // batching.rows(max(bucket))
      for bucket, indices in self._buckets.items()
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
    bucket, indices = self._plan[position]
    return _pad(self._examples, indices, bucket, len(indices), self._batching)

  def _shuffled(self, epoch: int):
    generator = np.random.default_rng((self._batching.seed, epoch))
    plan = []
    for bucket, indices in self._buckets.items():
      rows = self._batching.rows(max(bucket))
      indices = generator.permutation(indices)
      for start in range(0, len(indices) - rows + 1, rows):
        plan.append((bucket, indices[start : start + rows]))
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
  for bucket, indices in _buckets(examples, batching).items():
    rows = batching.rows(max(bucket))
    for start in range(0, len(indices), rows):
      chosen = indices[start : start + rows]
      batches.append(_pad(examples, chosen, bucket, rows, batching))
  return batches


def _buckets(
  examples: Examples, batching: Batching
) -> dict[Bucket, np.ndarray]:
  """Returns the indices of the examples of each bucket."""
  lengths = np.array(
    [batching.lengths(*each) for each in examples], np.int64
  ).reshape(-1, 2)
  widths = (batching.widths, batching.target_widths or batching.widths)
  places = []
  for side, (name, allowed) in enumerate(
    zip(("source", "target"), widths, strict=True)
  ):
    longest = lengths[:, side].max(initial=0)
    if longest > allowed[-1]:
      raise ValueError(
        f"An example has {longest} tokens, more than the widest bucket for its"
        f" {name} ({allowed[-1]}); drop such examples or add a width."
      )
    places.append(np.array(allowed)[np.searchsorted(allowed, lengths[:, side])])
  return {
    bucket: np.flatnonzero(
      (places[0] == bucket.source_width) & (places[1] == bucket.target_width)
    )
    for bucket in batching.buckets
  }


def _pad(
  examples: Examples, indices, bucket: Bucket, rows: int, batching: Batching
) -> Batch:
  inputs, targets = (
    np.full((rows, width), batching.pad_id, np.int32) for width in bucket
  )
  for row, index in enumerate(indices):
    source, target = examples[index]
    inputs[row, : len(source)] = source
    start = len(source) if batching.joined else 0
    targets[row, start : start + len(target)] = target
  return Batch(inputs, targets)
