"""Requests into slots, first come, first served, by any clock and any engine.

The loop is that of a server with one device: fill the slots that are free, let
the device decode for a moment, see what has changed.
"""

import dataclasses
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from experiments.serving.arrivals import Request
from specdec_jax.array_typing import Int


class Clock(Protocol):
  """Seconds since the first request could arrive."""

  def now(self) -> float:
    """The time."""
    ...

  def wait_until(self, moment: float) -> None:
    """Comes back at that time, at once if it is past."""
    ...


class Engine(Protocol):
  """What decodes in slots; `engine.TextEngine` is the real one."""

  @property
  def free(self) -> Sequence[int]:
    """The slots without a request."""
    ...

  @property
  def lengths(self) -> Int[np.ndarray, "B"]:
    """Tokens that each slot's request has; the last one's if it is free."""
    ...

  def insert(self, slot: int, request: Request) -> None:
    """Puts a request into a free slot."""
    ...

  def advance(self, max_rounds: int) -> list[int]:
    """Decodes up to so many rounds; returns the slots that became free."""
    ...


class WallClock:
  """The real time."""

  def __init__(self):
    """Starts at 0 now."""
    self._start = time.perf_counter()

  def now(self) -> float:
    return time.perf_counter() - self._start

  def wait_until(self, moment: float) -> None:
    time.sleep(max(moment - self.now(), 0.0))


@dataclasses.dataclass
class Served:
  """What became of a request; times in seconds by the clock.

  Attributes:
    request: The request.
    start: When it left the queue for a slot.
    first_token: When its first token was there; None if not yet.
    finish: When its last one was; None if not yet.
    tokens: How many there are.
  """

  request: Request
  start: float
  first_token: float | None = None
  finish: float | None = None
  tokens: int = 0


class Turn(NamedTuple):
  """One time around the loop.

  Attributes:
    begin: Seconds, before slots were filled.
    end: Seconds, when the device was done.
    busy: How many slots had a request.
    emitted: Tokens of all of them.
  """

  begin: float
  end: float
  busy: int
  emitted: int


class Service(NamedTuple):
  """All that happened.

  Attributes:
    requests: Those that left the queue, in their order; the last ones are
      unfinished.
    turns: In their order; between them there was nothing to do.
  """

  requests: list[Served]
  turns: list[Turn]


def serve(
  requests: Iterable[Request],
  engine: Engine,
  clock: Clock,
  *,
  count: int,
  max_rounds: int,
) -> Service:
  """Serves until the first `count` requests have ended.

  Later ones go on arriving until then, so that the last of these decode in as
  full a batch as the others.

  Args:
    requests: Without end, in the order of their arrivals.
    engine: With all of its slots free.
    clock: At 0.
    count: How many requests to finish.
    max_rounds: How many rounds to decode before looking for new requests and
      tokens. A request's first token is waited for a round at a time.
  """
  incoming = iter(requests)
  head = next(incoming)
  served: list[Served] = []
  turns: list[Turn] = []
  running: dict[int, Served] = {}
  unfinished = count
  while unfinished:
    begin = clock.now()
    for slot in engine.free:
      if head.arrival > begin:
        break
      running[slot] = Served(head, start=clock.now())
      served.append(running[slot])
      engine.insert(slot, head)
      head = next(incoming)
    if not running:
      clock.wait_until(head.arrival)
      continue

    is_new = any(each.first_token is None for each in running.values())
    ended = engine.advance(1 if is_new else max_rounds)
    end = clock.now()
    busy, emitted = len(running), 0
    for slot, each in running.items():
      tokens = int(engine.lengths[slot])
      emitted += tokens - each.tokens
      each.tokens = tokens
      if each.first_token is None and tokens:
        each.first_token = end
    for slot in ended:
      each = running.pop(slot)
      each.finish = end
      unfinished -= each.request.number < count
    turns.append(Turn(begin, end, busy, emitted))
  return Service(served, turns)
