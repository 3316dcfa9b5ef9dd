"""Random keys: one per row, new in every round, consumed once.

A row's randomness follows from its own key and from how many tokens it has
committed. So it depends neither on its neighbours nor on its place in the
batch, and a guess that was thrown away leaves nothing behind that the next
round would use again.
"""

import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Float, Int, Key


def row_keys(
  key: Key[Array, ""] | Key[Array, "B"], batch: int
) -> Key[Array, "B"]:
  """Returns a key per row: those given, or derived from the one by index.

  Args:
    key: A typed key (`jax.random.key`), or an array of them, one per row.
    batch: The number of rows.

  Raises:
    ValueError: If the key is not typed, or there is not one per row.
  """
  dtype = getattr(key, "dtype", None)
  if dtype is None or not jnp.issubdtype(dtype, jax.dtypes.prng_key):
    raise ValueError(
      f"key is {key!r}; give a typed key, jax.random.key(seed), or an array"
      " of them, one per row."
    )
  if key.ndim == 0:
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(
      key, jnp.arange(batch)
    )
  if key.shape != (batch,):
    raise ValueError(
      f"key has shape {key.shape}; give one key, or one per row: ({batch},)."
    )
  return key


def fold_in_rows(
  keys: Key[Array, "B"], data: Int[Array, "B"]
) -> Key[Array, "B"]:
  """Folds a number of its own into each row's key."""
  return jax.vmap(jax.random.fold_in)(keys, data)


def split_rows(keys: Key[Array, "B"], num: int) -> Key[Array, "num B"]:
  """Splits each row's key into `num`, split first and row second."""
  return jax.vmap(lambda each: jax.random.split(each, num), out_axes=1)(keys)


def uniform_rows(keys: Key[Array, "B"], num: int) -> Float[Array, "B num"]:
  """Draws float32[B, num] in [0, 1), a row from each key."""
  return jax.vmap(lambda each: jax.random.uniform(each, (num,)))(keys)
