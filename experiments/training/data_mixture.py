"""What a draft reads at each step: text, the target's writing, or its own."""

import dataclasses
import math

from specdec_jax.training.batching import Batch, Batches

KINDS = ("corpus", "target", "draft")


@dataclasses.dataclass(frozen=True)
class Fractions:
  """Shares of a run's steps; they add up to 1.

  Attributes:
    corpus: Text as people wrote it.
    target: What the target wrote.
    draft: What the draft itself writes at that time (on-policy).
  """

  corpus: float = 0.0
  target: float = 1.0
  draft: float = 0.0

  def __post_init__(self):
    shares = dataclasses.astuple(self)
    if min(shares) < 0 or not math.isclose(sum(shares), 1.0, abs_tol=1e-6):
      raise ValueError(
        f"Fractions are {dict(zip(KINDS, shares, strict=True))}; none may be"
        " negative, and they must add up to 1."
      )


class MixedBatches:
  """Batches of several kinds in turns, a function of the step alone.

  After any number of steps each kind has had its share of them, to within a
  step.
  """

  def __init__(self, fractions: Fractions, batches: dict[str, Batches]):
    """Takes batches of each kind.

    Args:
      fractions: The shares.
      batches: By kind; those of "draft" have the sources that it will be
        given. A kind whose share is 0 may be missing.

    Raises:
      ValueError: If a kind is missing.
    """
    for kind in KINDS:
      if getattr(fractions, kind) > 0 and kind not in batches:
        raise ValueError(
          f"Fractions.{kind} is {getattr(fractions, kind)}, but there are no"
          f" examples of that kind; give some, or set Fractions.{kind}=0."
        )
    self._fractions = fractions
    self._batches = batches
    self._turns: list[tuple[str, int]] = []
    self._counts: dict[str, int] = dict.fromkeys(KINDS, 0)

  def kind(self, step: int) -> str:
    """Returns what a step reads: one of `KINDS`."""
    return self._turn(step)[0]

  def __getitem__(self, step: int) -> Batch:
    """Returns the batch of a step."""
    kind, number = self._turn(step)
    return self._batches[kind][number]

  def _turn(self, step: int) -> tuple[str, int]:
    """Returns the kind of a step, and how many of it came before."""
    while len(self._turns) <= step:
      done = len(self._turns) + 1
      kind = max(
        (kind for kind in KINDS if getattr(self._fractions, kind) > 0),
        key=lambda kind, done=done: (
          getattr(self._fractions, kind) * done - self._counts[kind]
        ),
      )
      self._turns.append((kind, self._counts[kind]))
      self._counts[kind] += 1
    return self._turns[step]
