"""Splits into training, validation and test without near duplicates."""

import collections
import hashlib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from experiments.corpora.item import Item
from experiments.corpora.text import words

SEED = 20240607
TRAIN, VALIDATION, TEST, HELD_OUT = "train", "validation", "test", "ood"
# Thousandths of the groups in validation, and as many in test.
PER_MILLE = 20
_LEAST_WORDS = 6  # Shorter texts do not tell whether they leaked.
_SHINGLE = 4
_MOST_PER_SHINGLE = 40


class Split(NamedTuple):
  """The parts, and how many items each comparison dropped."""

  parts: dict[str, list[Item]]
  dropped: dict[str, dict[str, int]]


def bucket(group: str) -> int:
  """A group's number below 1000; the same in every run."""
  digest = hashlib.sha1(f"{SEED}:{group}".encode()).hexdigest()
  return int(digest, 16) % 1000


def split(
  items: Sequence[Item],
  group: Callable[[Item], str],
  *,
  sides: Sequence[Callable[[Item], str]],
  train_only: Callable[[Item], bool] = lambda item: False,
  held_out: Callable[[Item], bool] = lambda item: False,
) -> Split:
  """Splits by groups, then drops near duplicates between the parts.

  Args:
    items: What to split.
    group: What stays together.
    sides: The texts of an item that must not occur in two parts.
    train_only: What is never evaluated on.
    held_out: What makes up a part of its own, "ood".
  """
  parts = {TRAIN: [], VALIDATION: [], TEST: [], HELD_OUT: []}
  for item in items:
    if held_out(item):
      parts[HELD_OUT].append(item)
      continue
    name = TRAIN if train_only(item) else item.part or _part(group(item))
    if name == TRAIN or len(words(item.source)) >= _LEAST_WORDS:
      parts[name].append(item)
  # Held-out parts against each other, then training against all of them.
  parts[VALIDATION], parts[TEST], _, _ = _separate(
    parts[VALIDATION], parts[TEST], sides
  )
  dropped = {}
  for name in (TEST, VALIDATION, HELD_OUT):
    parts[TRAIN], parts[name], from_train, from_held = _separate(
      parts[TRAIN], parts[name], sides
    )
    dropped[name] = {"train_dropped": from_train, "held_dropped": from_held}
    if name != HELD_OUT:
      parts[HELD_OUT], _, _, _ = _separate(
        parts[HELD_OUT], parts[name], sides, many=10**9
      )
  return Split(parts, dropped)


def _part(group: str) -> str:
  number = bucket(group)
  if number >= 2 * PER_MILLE:
    return TRAIN
  return VALIDATION if number < PER_MILLE else TEST


def _shingles(text: str) -> set[int]:
  stripped = (
    re.sub(r"\W+", "", word)
    for word in re.sub(r"\d+", "0", text.lower()).split()
  )
  found = [word for word in stripped if word]
  if len(found) < _SHINGLE:
    return {hash(" ".join(found))}
  return {
    hash(" ".join(found[i : i + _SHINGLE]))
    for i in range(len(found) - _SHINGLE + 1)
  }


def _separate(train, held, sides, many: int = 8):
  """Drops from `train` what shares half its shingles with `held`, or more.

  What is like more than `many` items of `train` is boilerplate, and is dropped
  from `held` instead.

  Returns:
    What is left of both, and how many items each lost.
  """
  index, sizes = collections.defaultdict(list), {}
  for number, item in enumerate(held):
    for side, text in enumerate(sides):
      shingles = _shingles(text(item))
      sizes[number, side] = len(shingles)
      for each in shingles:
        if len(index[side, each]) < _MOST_PER_SHINGLE:
          index[side, each].append(number)
  alike = collections.defaultdict(set)
  for position, item in enumerate(train):
    for side, text in enumerate(sides):
      shingles = _shingles(text(item))
      shared = collections.Counter(
        number for each in shingles for number in index.get((side, each), ())
      )
      for number, count in shared.items():
        if count >= 0.5 * sizes[number, side] or (
          count >= 3 and count >= 0.5 * len(shingles)
        ):
          alike[number].add(position)
  bad_held = {
    number for number, positions in alike.items() if len(positions) > many
  }
  bad_train = {
    position
    for number, positions in alike.items()
    if number not in bad_held
    for position in positions
  }
  return (
    [item for i, item in enumerate(train) if i not in bad_train],
    [item for i, item in enumerate(held) if i not in bad_held],
    len(bad_train),
    len(bad_held),
  )
