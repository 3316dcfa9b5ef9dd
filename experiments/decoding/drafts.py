"""Several drafts of one target."""

import dataclasses
from collections.abc import Sequence

from experiments.decoding.pair import Pair, PairConfig

_OF_THE_TARGET = ("target", "target_config", "vocabulary", "extra_ids", "dtype")


def check_one_target(pairs: Sequence[PairConfig], what: str) -> None:
  """Checks that pairs differ in their drafts alone.

  Args:
    pairs: The target with each of its drafts.
    what: The argument that holds them, for the error.

  Raises:
    ValueError: If one has another target, or reads it in another way.
  """
  for field in _OF_THE_TARGET:
    values = list(dict.fromkeys(getattr(each, field) for each in pairs))
    if len(values) > 1:
      raise ValueError(
        f"PairConfig.{field} is {values[0]!r} in one of {what} and"
        f" {values[1]!r} in another, but they have one target; give other"
        " targets runs of their own."
      )


def load_drafts(first: Pair, others: Sequence[PairConfig]) -> list[Pair]:
  """Reads more drafts of a target, whose weights are held once.

  Args:
    first: The target and one of its drafts, in memory.
    others: The target with each of the others; `check_one_target` passes all.

  Returns:
    All pairs, the first one first.

  Raises:
    FileNotFoundError: If something is not there.
    ValueError: If something does not fit; see `PairConfig.load`.
  """
  return [
    first,
    *(
      dataclasses.replace(
        each.load(first.vocabulary),
        target=first.target,
        target_params=first.target_params,
      )
      for each in others
    ),
  ]
