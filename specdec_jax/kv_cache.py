"""A fixed-size key/value buffer, overwritten at each row's own position.

There is no index in it: what is valid follows from the position of the query
alone, so that rolling back is no operation at all. Entries beyond a row's
length are stale and invisible, and are overwritten before they can be seen.
"""

import dataclasses

import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Float, Int


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class KVCache:
  """Keys and values of one attention layer.

  Heads come before positions, so that a step's two products contract over
  contiguous memory.

  Attributes:
    key: [B, H, L, K].
    value: [B, H, L, K].
  """

  key: Float[Array, "B H L K"]
  value: Float[Array, "B H L K"]

  @classmethod
  def create(cls, batch, num_heads, length, head_dim, dtype) -> "KVCache":
    """Returns a buffer of zeros."""
    shape = (batch, num_heads, length, head_dim)
    return cls(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype))

  def write(
      self,
      key: Float[Array, "B Q H K"],
      value: Float[Array, "B Q H K"],
      positions: Int[Array, "B"],
  ) -> "KVCache":
    """Returns the buffer with Q entries a row overwritten.

    Args:
      key: [B, Q, H, K], for the slots `positions[b] .. positions[b] + Q - 1`.
      value: [B, Q, H, K].
      positions: int32[B]. A slot outside the buffer is dropped, never moved
        onto another one; buffers are made wide enough for none to be.
    """
    batch, num_tokens = key.shape[:2]
    rows = jnp.arange(batch)[:, None]
    slots = positions[:, None] + jnp.arange(num_tokens)

    def overwrite(buffer, new):
      return buffer.at[rows, :, slots].set(
          new.astype(buffer.dtype), mode="drop", unique_indices=True
      )

    return KVCache(overwrite(self.key, key), overwrite(self.value, value))
