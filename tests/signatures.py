"""The check of jaxtyping annotations that pytest's options name."""

from beartype import beartype


def check(function):
  """Returns `function` with its annotations checked at every call.

  Not the constructors of dataclasses: those of configurations have checks
  and messages of their own, and those of pytrees meet leaves that are no
  arrays, as `jax.tree.map` and `jax.eval_shape` make them.
  """
  if function.__name__ == "__init__":
    return function
  return beartype(function)
