"""What a service was like: delays, throughput, how full the slots were."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from experiments.serving.open_loop import Served, Service

PERCENTILES = (50, 90, 99)


def summarise(
  service: Service, *, first: int, count: int, slots: int
) -> dict[str, Any]:
  """Returns the measures of a service, for JSON; times in seconds.

  The requests before `first` only fill the slots. From the turn in which that
  one starts to the end of the last one that counts, all is seen that the slots
  did, for other requests too.

  Args:
    service: From `serve`.
    first: The number of the first request that counts.
    count: The number of the first one after them, as in `serve`.
    slots: How many there were.
  """
  counted = service.requests[first:count]
  closed = max(_known(each.finish) for each in counted)
  turns = [
    each
    for each in service.turns
    if counted[0].start < each.end and each.end <= closed
  ]
  opened = turns[0].begin
  seconds = closed - opened
  finished = [
    each
    for each in service.requests
    if each.finish is not None and opened < each.finish <= closed
  ]
  return {
    "requests": len(counted),
    "tokens": sum(each.tokens for each in counted),
    "seconds": seconds,
    "tokens_per_second": sum(each.emitted for each in turns) / seconds,
    "requests_per_second": len(finished) / seconds,
    "utilisation": sum(each.busy * (each.end - each.begin) for each in turns)
    / (slots * seconds),
    "queue_on_arrival": _queue(service.requests, counted),
    "waiting": percentiles(
      each.start - each.request.arrival for each in counted
    ),
    "time_to_first_token": percentiles(
      _known(each.first_token) - each.request.arrival for each in counted
    ),
    "time_per_output_token": percentiles(
      (_known(each.finish) - _known(each.first_token)) / (each.tokens - 1)
      for each in counted
      if each.tokens > 1
    ),
    "latency": percentiles(
      _known(each.finish) - each.request.arrival for each in counted
    ),
  }


def percentiles(values: Iterable[float]) -> dict[str, float] | None:
  """Returns "mean", "p50", "p90" and "p99"; None of nothing."""
  found = np.fromiter(values, float)
  if not len(found):
    return None
  return {
    "mean": float(np.mean(found)),
    **{f"p{each}": float(np.percentile(found, each)) for each in PERCENTILES},
  }


def _queue(
  requests: Sequence[Served], counted: Sequence[Served]
) -> dict[str, float]:
  """How many requests waited when another one came."""
  found = [
    sum(
      before.start > each.request.arrival
      for before in requests[: each.request.number]
    )
    for each in counted
  ]
  return {"mean": float(np.mean(found)), "max": float(max(found))}


def _known(moment: float | None) -> float:
  assert moment is not None, "the request has not ended"
  return moment
