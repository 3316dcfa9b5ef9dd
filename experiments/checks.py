"""Checks of a script's arguments, before anything is read or computed."""


def check_integers(lowest: int, **values: int) -> None:
  """Checks that arguments are integers, and none of them too small.

  Args:
    lowest: The least that they may be.
    **values: By name.

  Raises:
    ValueError: If one is not; names it.
  """
  for name, value in values.items():
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
      raise ValueError(
        f"{name} is {value!r}; it must be an integer, at least {lowest}."
      )
