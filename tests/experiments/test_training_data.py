import pytest

from experiments.training_data import check_kind, checksum


def test_a_checksum_names_ids_and_where_they_are():
  pairs = [([5, 1], [7, 8, 1]), ([6, 1], [9, 1])]
  others = [
    pairs[::-1],
    pairs[:1],
    [([5], [1, 7, 8, 1]), ([6, 1], [9, 1])],
    [([5, 1], [7, 8]), ([6, 1], [1, 9, 1])],
    [([5, 1], [7, 8, 1]), ([6, 1], [9, 2])],
  ]
  assert len({checksum(each) for each in (pairs, *others)}) == 6
  assert checksum([(list(s), list(t)) for s, t in pairs]) == checksum(pairs)


def test_an_encoder_needs_something_to_read():
  pairs = [([5, 1], [7, 1]), ([], [9, 1])]
  check_kind(pairs, decoder_only=True, split="train")
  check_kind(pairs[:1], decoder_only=False, split="train")
  with pytest.raises(ValueError, match="Example 1 of the train split has no"):
    check_kind(pairs, decoder_only=False, split="train")
