"""Numbers that the theory is given: float64, and within their ranges."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

MOST_GUESSES = 2**53
"""Beyond it float64 has no odd numbers."""


def checked(
  name: str,
  value: ArrayLike,
  holds: Callable[[np.ndarray], np.ndarray],
  demand: str,
) -> np.ndarray:
  """Returns the numbers as float64.

  Args:
    name: The argument's.
    value: One or many.
    holds: Which of them are in range. NaN compares as false, so it is in none.
    demand: What each of them must do, for the message.

  Raises:
    ValueError: If a number is out of range.
  """
  array = np.asarray(value, np.float64)
  bad = ~holds(array)
  if np.any(bad):
    raise ValueError(f"{name} is {array[bad][0]}; it must {demand}.")
  return array


def rate(name: str, value: ArrayLike) -> np.ndarray:
  """Returns numbers in [0, 1], by `checked`."""
  return checked(name, value, lambda x: (x >= 0) & (x <= 1), "lie in [0, 1]")


def cost(name: str, value: ArrayLike) -> np.ndarray:
  """Returns finite numbers from 0, by `checked`."""
  return checked(
    name, value, lambda x: (x >= 0) & (x < np.inf), "be 0 or more, and finite"
  )


def positive(name: str, value: ArrayLike) -> np.ndarray:
  """Returns finite numbers above 0, by `checked`."""
  return checked(
    name, value, lambda x: (x > 0) & (x < np.inf), "be positive, and finite"
  )


def guesses(
  value: ArrayLike, *, name: str = "gamma", allow_infinity: bool = False
) -> np.ndarray:
  """Returns whole numbers from 0, by `checked`."""
  most = np.inf if allow_infinity else MOST_GUESSES
  return checked(
    name,
    value,
    lambda x: (x >= 0) & (x == np.floor(x)) & (x <= most),
    f"be a whole number, 0 or more{', or infinity' if allow_infinity else ''}",
  )
