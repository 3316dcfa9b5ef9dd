import collections

import numpy as np
import pytest

from experiments.training.data_mixture import Fractions, MixedBatches
from specdec_jax.training.batching import Batches, Batching


def batches(token, count=12):
  """Examples whose first source token tells kind and number."""
  pairs = [([token + i, 1], [1]) for i in range(count)]
  return Batches(pairs, Batching(4, widths=(2,)))


KINDS = {"corpus": 100, "target": 200, "draft": 300}
FRACTIONS = Fractions(corpus=0.2, target=0.3, draft=0.5)


def mixed(fractions=FRACTIONS):
  return MixedBatches(
    fractions,
    {
      kind: batches(token)
      for kind, token in KINDS.items()
      if getattr(fractions, kind)
    },
  )


@pytest.mark.parametrize("steps", [1, 7, 10, 100, 333])
def test_every_kind_has_its_share(steps):
  mixture = mixed()
  counts = collections.Counter(mixture.kind(step) for step in range(steps))
  for kind in KINDS:
    share = getattr(FRACTIONS, kind) * steps
    assert abs(counts[kind] - share) <= 1, kind


def test_a_batch_is_the_next_of_its_kind():
  mixture = mixed()
  seen = collections.Counter()
  for step in range(30):
    kind = mixture.kind(step)
    found = mixture[step]
    wanted = batches(KINDS[kind])[seen[kind]]
    np.testing.assert_array_equal(found.inputs, wanted.inputs)
    assert np.all(found.inputs[:, 0] // 100 == KINDS[kind] // 100)
    seen[kind] += 1
  assert len(seen) == 3


def test_a_batch_follows_from_its_step():
  """A run that goes on asks for a late step first."""
  steps = [17, 3, 40]
  for step in steps:
    late, early = mixed(), mixed()
    kinds = [early.kind(each) for each in range(step + 1)]
    assert late.kind(step) == kinds[-1]
    np.testing.assert_array_equal(late[step].inputs, early[step].inputs)


def test_a_single_kind_needs_no_others():
  mixture = mixed(Fractions(corpus=1.0, target=0.0))
  assert {mixture.kind(step) for step in range(20)} == {"corpus"}


@pytest.mark.parametrize(
  "shares", [(0.5, 0.5, 0.5), (-0.5, 1.0, 0.5), (0.0, 0.0, 0.0)]
)
def test_shares_that_cannot_be(shares):
  with pytest.raises(ValueError, match="Fractions are .*must add up to 1"):
    Fractions(*shares)


def test_a_kind_without_examples_is_named():
  with pytest.raises(ValueError, match=r"Fractions\.draft is 0\.5, but there"):
    MixedBatches(FRACTIONS, {"corpus": batches(100), "target": batches(200)})
