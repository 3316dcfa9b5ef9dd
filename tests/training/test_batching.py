import collections

import numpy as np
import pytest

from specdec_jax.training.batching import Batches, Batching, in_order


def examples(count=40, longest=12, seed=0):
  generator = np.random.default_rng(seed)
  pairs = []
  for i in range(count):
    sizes = generator.integers(1, longest + 1, 2)
    # The first token tells the example.
    pairs.append(tuple([i + 2] + [1] * (int(size) - 1) for size in sizes))
  return pairs


def seen(batches, steps):
  return collections.Counter(
    int(row[0]) for step in steps for row in batches[step].inputs
  )


SETTINGS = Batching(tokens=24, widths=(4, 8, 12))


def test_a_batch_follows_from_its_step():
  whole = Batches(examples(), SETTINGS)
  steps = range(2 * whole.per_epoch)
  wanted = [whole[step] for step in steps]
  for step in reversed(steps):
    again = Batches(examples(), SETTINGS)[step]
    np.testing.assert_array_equal(again.inputs, wanted[step].inputs)
    np.testing.assert_array_equal(again.targets, wanted[step].targets)


def test_epochs_and_seeds_differ_in_order():
  batches = Batches(examples(), SETTINGS)
  per_epoch = batches.per_epoch
  first = [batches[i].inputs.tobytes() for i in range(per_epoch)]
  second = [batches[i + per_epoch].inputs.tobytes() for i in range(per_epoch)]
  other = Batches(examples(), Batching(24, (4, 8, 12), seed=1))
  assert first != second
  assert first != [other[i].inputs.tobytes() for i in range(per_epoch)]


def test_an_epoch_repeats_nothing():
  batches = Batches(examples(), SETTINGS)
  counts = seen(batches, range(batches.per_epoch))
  assert set(counts.values()) == {1}
  # At most one incomplete batch of each width is left for another epoch.
  assert sum(counts.values()) > 40 - (6 + 3 + 2)


def test_batches_are_of_few_shapes_and_hold_whole_examples():
  pairs = examples()
  batches = Batches(pairs, SETTINGS)
  for step in range(batches.per_epoch):
    inputs, targets = batches[step]
    assert inputs.shape == targets.shape
    assert inputs.shape in {(6, 4), (3, 8), (2, 12)}
    for source, target in zip(inputs, targets, strict=True):
      pair = pairs[source[0] - 2]
      assert source[source > 0].tolist() == pair[0]
      assert target[target > 0].tolist() == pair[1]


def test_short_targets_have_buckets_of_their_own():
  pairs = [(source, target[:4]) for source, target in examples()]
  settings = Batching(24, (4, 8, 12), target_widths=(2, 4))
  batches = Batches(pairs, settings)
  shapes = set()
  for step in range(batches.per_epoch):
    inputs, targets = batches[step]
    shapes.add((inputs.shape, targets.shape))
    for source, target in zip(inputs, targets, strict=True):
      pair = pairs[source[0] - 2]
      assert source[source > 0].tolist() == pair[0]
      assert target[target > 0].tolist() == pair[1]
      assert target.size == (2 if len(pair[1]) <= 2 else 4)
  rows = {4: 6, 8: 3, 12: 2}
  assert shapes <= {
    ((rows[width], width), (rows[width], target_width))
    for width, target_width in settings.buckets
  }
  assert len({target for _, target in shapes}) > 3
  assert sum(len(batch.inputs) for batch in in_order(pairs, settings)) >= 40
  assert settings.fits([1] * 12, [1] * 4)
  assert not settings.fits([1] * 12, [1] * 5)
  assert not settings.fits([1] * 13, [1])


def test_joined_texts_fill_columns_in_turn():
  pairs = examples(longest=6)
  batches = Batches(pairs, Batching(24, (4, 8, 12), joined=True))
  for step in range(batches.per_epoch):
    inputs, targets = batches[step]
    assert not np.any((inputs > 0) & (targets > 0))
    for row in inputs + targets:
      source, target = pairs[row[0] - 2]
      assert row[row > 0].tolist() == [*source, *target]
  texts = [((), target) for _, target in pairs]
  inputs, targets = Batches(texts, Batching(24, (4, 8), joined=True))[0]
  assert not inputs.any()
  assert targets.all(axis=0)[0]


def test_rows_are_a_multiple():
  settings = Batching(tokens=24, widths=(4, 8, 12), rows_multiple=2)
  batches = Batches(examples(), settings)
  shapes = {batches[i].inputs.shape for i in range(batches.per_epoch)}
  assert shapes <= {(6, 4), (2, 8), (2, 12)}
  assert (2, 8) in shapes
  for batch in in_order(examples(), settings):
    assert len(batch.inputs) % 2 == 0


def test_in_order_has_every_example_once():
  counts = collections.Counter(
    int(row[0])
    for batch in in_order(examples(), SETTINGS)
    for row in batch.inputs
  )
  del counts[0]  # Rows that fill the last batches.
  assert counts == dict.fromkeys(range(2, 42), 1)


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ({"tokens": 11}, "tokens is 11, less than one row"),
    (
      {"tokens": 24, "rows_multiple": 4},
      r"tokens is 24, less than 4 rows of the widest bucket \(12\)",
    ),
    ({"tokens": 24, "rows_multiple": 0}, "rows_multiple is 0"),
    ({"tokens": 24, "widths": (8, 4)}, r"widths is \(8, 4\)"),
    ({"tokens": 24, "widths": ()}, r"widths is \(\)"),
    ({"tokens": 24, "target_widths": (4, 2)}, r"target_widths is \(4, 2\)"),
    ({"tokens": 24, "target_widths": ()}, r"target_widths is \(\)"),
    ({"tokens": 24, "target_widths": (16,)}, "wider than the widest"),
    (
      {"tokens": 24, "target_widths": (4,), "joined": True},
      "set it to None",
    ),
  ],
)
def test_settings_that_cannot_be(arguments, message):
  with pytest.raises(ValueError, match=message):
    Batching(**{"widths": (4, 12), **arguments})


def test_examples_that_do_not_fit():
  with pytest.raises(ValueError, match="has 12 tokens, more than the widest"):
    Batches(examples(), Batching(24, (4, 8)))
  with pytest.raises(ValueError, match=r"bucket for its target \(4\)"):
    Batches(examples(), Batching(24, (4, 12), target_widths=(4,)))
  with pytest.raises(ValueError, match="do not fill one batch"):
    Batches(examples(1), SETTINGS)
  (batch,) = in_order(examples(1), SETTINGS)
  assert np.count_nonzero(batch.inputs.any(axis=1)) == 1
