"""Several drafts of one target."""

import pathlib
from collections.abc import Mapping, Sequence

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


def check_drafts(drafts: Mapping[str, PairConfig], what: str) -> None:
  """Checks drafts that have names of their own, as a folder's name can be.

  Args:
    drafts: By what to call each draft, the target with it.
    what: The argument that holds them, for the error.

  Raises:
    ValueError: If there is none, or they have not one target and one name for
      all pairs, or one has no draft.
  """
  if not drafts:
    raise ValueError(
      f"{what} is empty; give a PairConfig by the name of its draft."
    )
  pairs = list(drafts.values())
  check_one_target(pairs, what)
  names = list(dict.fromkeys(each.name for each in pairs))
  if len(names) > 1:
    raise ValueError(
      f"PairConfig.name is {names[0]!r} in one of {what} and {names[1]!r} in"
      " another; it names the target and all its drafts, so give one."
    )
  for name, each in drafts.items():
    if pathlib.PurePath(name).name != name:
      raise ValueError(
        f"{what} has the name {name!r}, which names files too; give one without"
        " a slash."
      )
    if not each.has_drafter:
      raise ValueError(
        f"PairConfig.draft of {what}[{name!r}] is None; there is nothing to"
        " measure without a draft, so name one, or leave it out."
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
    *(each.load(first.vocabulary, first) for each in others),
  ]
