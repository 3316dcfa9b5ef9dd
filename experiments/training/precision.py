"""How precise the products of a run are."""

import contextlib

import jax

from specdec_jax.t5 import matmul

_CHOICES = ("float32", matmul.ROUNDED)


def check(precision: str | None) -> None:
  """Checks the name of a precision.

  Raises:
    ValueError: If there is no such precision.
  """
  if precision is not None and precision not in _CHOICES:
    raise ValueError(
      f"matmul_precision is {precision!r}; use 'float32', {matmul.ROUNDED!r}"
      " for operands rounded to bfloat16, or None for what the device does by"
      " itself."
    )


def context(precision: str | None) -> contextlib.AbstractContextManager:
  """Returns where programs are traced with it; None changes nothing."""
  if precision is None:
    return contextlib.nullcontext()
  return jax.default_matmul_precision(precision)
