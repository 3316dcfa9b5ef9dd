import jax
import numpy as np
import pytest

from experiments.decoding import batching
from experiments.decoding.task import Example

ENCODED = [[5, 1], [5, 6, 7, 8, 1], [9, 1]]


def test_few_shapes_and_full_batches():
  batches = batching.make_batches(
    ENCODED, [2, 0, 1], batch_size=2, length_multiple=4
  )
  np.testing.assert_array_equal(batches[0].inputs, [[9, 1, 0, 0], [5, 1, 0, 0]])
  assert batches[0].indices == (2, 0)
  np.testing.assert_array_equal(
    batches[1].inputs, [[5, 6, 7, 8, 1, 0, 0, 0], [1] + [0] * 7]
  )
  assert batches[1].indices == (1,)
  assert batching.budgets(batches[0], 9) == 9
  assert batching.budgets(batches[1], 9) == (9, 1)


def test_keys_follow_from_seed_and_index_alone():
  def batches(indices, size):
    return batching.make_batches(
      ENCODED, indices, batch_size=size, length_multiple=4
    )

  def data(seed, batch):
    return jax.random.key_data(batching.example_keys(seed, batch))

  one, two = batches(range(3), 3), batches([2, 1], 1)
  keys = data(7, one[0])
  np.testing.assert_array_equal(keys[2:], data(7, two[0]))
  np.testing.assert_array_equal(keys[1:2], data(7, two[1]))
  assert len(np.unique(keys, axis=0)) == 3
  assert not np.array_equal(keys, data(8, one[0]))


def test_long_texts_are_refused_with_their_line():
  class Words:
    def encode(self, text):
      return [*range(2, 2 + len(text.split())), 1]

  examples = [Example(2, "a b"), Example(3, "a b c d"), Example(5, "a b c d e")]

  def encode(limit):
    return batching.encode(
      examples, Words(), max_input_length=limit, source="x.tsv"
    )

  assert [len(each) for each in encode(6)] == [3, 5, 6]
  with pytest.raises(
    ValueError,
    match=r"x\.tsv:3: the text has 5 tokens.*= 4; so have 2 of 3 texts\..*"
    r"max_input_length=6",
  ):
    encode(4)
