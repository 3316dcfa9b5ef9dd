"""When requests come, and with which texts: an open loop.

Nobody waits for an answer before sending the next request, so a system that is
too slow for a rate does not slow its own arrivals down.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np


class Request(NamedTuple):
  """Somebody wants a text decoded.

  Attributes:
    number: From 0 on, in the order of arrival.
    text: Which of the texts.
    arrival: Seconds since the first one's.
  """

  number: int
  text: int
  arrival: float


def poisson(
  rate: float, num_texts: int, seed: int | Sequence[int]
) -> Iterator[Request]:
  """Yields requests without end, the gaps between them exponential.

  All texts come once, in a random order, then all again in another one. With
  one seed all rates have the same requests, in the same rhythm.

  Args:
    rate: Requests per second; infinite if all are there from the start.
    num_texts: How many texts there are.
    seed: Of gaps and texts.
  """
  random = np.random.default_rng(seed)
  arrival, order = 0.0, []
  for number in itertools.count():
    if number % num_texts == 0:
      order = random.permutation(num_texts).tolist()
    yield Request(number, order[number % num_texts], arrival)
    arrival += random.exponential() / rate
