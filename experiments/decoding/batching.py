"""Token ids in batches of few shapes, so that few programs are compiled."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from experiments.decoding.task import Example
from specdec_jax.array_typing import Array, Int, Key


class Batch(NamedTuple):
  """Rows that decode side by side.

  Attributes:
    inputs: int32[B, S], padded with 0. The last rows may be dummies that fill
      the batch up.
    indices: The examples' indices, one for each row that is no dummy.
  """

  inputs: Int[Array, "B S"]
  indices: tuple[int, ...]

  @property
  def size(self) -> int:
    """How many rows are examples."""
    return len(self.indices)


def encode(
  examples: list[Example], vocabulary, *, max_input_length: int, source: str
) -> list[list[int]]:
  """Encodes all texts and checks their lengths.

  Args:
    examples: The texts.
    vocabulary: What to encode them with.
    max_input_length: Most tokens of a text, EOS included.
    source: What to call their file in the error.

  Raises:
    ValueError: If a text is longer; nothing is cut.
  """
  encoded = [vocabulary.encode(each.text) for each in examples]
  too_long = [i for i, ids in enumerate(encoded) if len(ids) > max_input_length]
  if too_long:
    first = too_long[0]
    longest = max(len(encoded[i]) for i in too_long)
    raise ValueError(
      f"{source}:{examples[first].line}: the text has"
      f" {len(encoded[first])} tokens, more than max_input_length ="
      f" {max_input_length}; so have {len(too_long)} of {len(encoded)}"
      f" texts. Set max_input_length={longest}, or shorten them."
    )
  return encoded


def make_batches(
  encoded: list[list[int]],
  indices: Sequence[int],
  *,
  batch_size: int,
  length_multiple: int,
) -> list[Batch]:
  """Cuts texts into batches, in their order.

  Args:
    encoded: Token ids of all texts.
    indices: Which of them to take.
    batch_size: Rows of every batch, the last one included.
    length_multiple: A batch is as wide as its longest row, rounded up to a
      multiple of this.
  """
  batches = []
  for start in range(0, len(indices), batch_size):
    chosen = tuple(indices[start : start + batch_size])
    rows = [encoded[i] for i in chosen]
    longest = max(map(len, rows))
    width = -(-longest // length_multiple) * length_multiple
    inputs = np.zeros((batch_size, width), np.int32)
    for row, ids in zip(inputs, rows, strict=False):
      row[: len(ids)] = ids
    # Something to attend to for dummies too: one token.
    inputs[len(rows) :, 0] = 1
    batches.append(Batch(jax.device_put(inputs), chosen))
  return batches


def spread_indices(num_examples: int, count: int) -> list[int]:
  """Returns indices of `count` texts, or of all, evenly spread."""
  count = min(count, num_examples)
  return [i * num_examples // count for i in range(count)]


def budgets(batch: Batch, max_new_tokens: int) -> int | tuple[int, ...]:
  """Most tokens of each row: dummies end at once."""
  dummies = len(batch.inputs) - batch.size
  if not dummies:
    return max_new_tokens
  return (max_new_tokens,) * batch.size + (1,) * dummies


def example_keys(seed: int, batch: Batch) -> Key[Array, "B"]:
  """A key per row that follows from seed and example index alone.

  So an example's sample does not depend on how examples are batched, or on
  where an interrupted run went on.
  """
  index = np.zeros(len(batch.inputs), np.int32)
  index[: batch.size] = batch.indices
  return _fold_in(jax.random.key(seed), index)


@jax.jit
def _fold_in(key, index):
  return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, index)
