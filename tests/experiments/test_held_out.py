import pytest

from experiments import held_out
from experiments.training.text import EncodedRow


class Rows:
  """Ten rows of two kinds, of 2 to 11 tokens."""

  vocabulary = "none"

  def load(self, split, *, max_tokens, limit=None):
    raise NotImplementedError

  def load_rows(self, split):
    kinds = ["man:a/b"] * 5 + ["help:c"] * 5
    return [
      EncodedRow([5, 1], [6] * (i + 1) + [1], f"{i}", kind)
      for i, kind in enumerate(kinds)
    ]


def load(**changes):
  arguments = {"max_input_length": 11, "limit": None, "seed": 0}
  return held_out.load(Rows(), "test", **{**arguments, **changes})


def test_every_row_is_there_once_in_an_order_of_its_own():
  rows = Rows().load_rows("test")
  split = load()
  assert sorted(split.rows) == sorted(rows)
  assert split.rows != rows
  assert load() == split
  assert load(seed=1) != split
  assert load(limit=4).rows == split.rows[:4]
  assert split.pairs == [(row.source, row.target) for row in split.rows]


def test_longer_rows_are_left_out_and_counted():
  split = load(max_input_length=7)
  assert split.left_out == 4
  assert {len(row.target) for row in split.rows} == set(range(2, 8))
  # Those that the limit leaves are not too long.
  assert load(max_input_length=7, limit=2).left_out == 4
  with pytest.raises(ValueError, match="None of the 10 texts of the test"):
    load(max_input_length=1)


def test_rows_are_counted_by_the_kind_of_their_origin():
  split = load(max_input_length=7)
  indices = split.by_origin()
  assert list(indices) == ["help", "man"]
  for kind, each in indices.items():
    assert {split.rows[i].kind for i in each} == {kind}
  assert split.counts() == {
    "texts": 6,
    "tokens": 2 + 3 + 4 + 5 + 6 + 7,
    "left_out": 4,
    "by_origin": {
      "help": {"texts": 1, "tokens": 7},
      "man": {"texts": 5, "tokens": 2 + 3 + 4 + 5 + 6},
    },
  }
  unknown = held_out.Split([EncodedRow([1], [1])], 0)
  assert unknown.by_origin() == {}
