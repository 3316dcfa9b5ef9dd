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

  Each is laid out as its product wants it, so that no step transposes a whole
  buffer: logits are [Q, K] @ [K, L], the mix is [Q, L] @ [L, K].

  Attributes:
    key: [B, H, K, L].
    value: [B, H, L, K].
  """

  key: Float[Array, "B H K L"]
  value: Float[Array, "B H L K"]

  @classmethod
  def create(cls, batch, num_heads, length, head_dim, dtype) -> "KVCache":
    """Returns a buffer of zeros."""
    return cls(
      jnp.zeros((batch, num_heads, head_dim, length), dtype),
      jnp.zeros((batch, num_heads, length, head_dim), dtype),
    )

  @classmethod
  def of_sequence(
    cls, key: Float[Array, "B L H K"], value: Float[Array, "B L H K"]
  ) -> "KVCache":
    """Returns the buffer that holds these and nothing else."""
    return cls(key.transpose(0, 2, 3, 1), value.transpose(0, 2, 1, 3))

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
    if batch * num_tokens == 1:
      # Of a scatter of one entry XLA's CPU compiler makes a
      # dynamic-update-slice, for which it copies the whole buffer four times.
      # One more entry, outside the buffer and so dropped, prevents that.
      outside = jnp.full_like(slots, self.value.shape[2])
      slots = jnp.concatenate([slots, outside], axis=1)
      key, value = jnp.repeat(key, 2, axis=1), jnp.repeat(value, 2, axis=1)

    key = key.astype(self.key.dtype)
    value = value.astype(self.value.dtype)
    return KVCache(
      self.key.at[rows, :, :, slots].set(key, mode="drop", unique_indices=True),
      self.value.at[rows, :, slots].set(
        value, mode="drop", unique_indices=True
      ),
    )

  def move(
    self, sources: Int[Array, "B G"], positions: Int[Array, "B"]
  ) -> "KVCache":
    """Returns the buffer with G entries a row copied to where others stood.

    Args:
      sources: int32[B, G], slots to copy from; all are read before any is
        written.
      positions: int32[B]; they go to `positions[b] .. positions[b] + G - 1`.
    """
    rows = jnp.arange(len(sources))[:, None]
    return self.write(
      self.key[rows, :, :, sources], self.value[rows, :, sources], positions
    )
