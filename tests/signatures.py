"""The check of jaxtyping annotations that pytest's options name."""

from beartype import BeartypeConf, beartype

# An int passes for a float, as it does for static checkers.
_checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check(function):
  """Returns `function` with its annotations checked at every call.

  Not the constructors of dataclasses: those of configurations have checks
  and messages of their own, and those of pytrees meet leaves that are no
  arrays, as `jax.tree.map` and `jax.eval_shape` make them.
  """
  if function.__name__ == "__init__":
    return function
  return _checked(function)
