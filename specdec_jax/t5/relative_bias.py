"""T5's relative position biases, for whole stacks and for cached steps.

A cached step needs, per row, the biases of a few queries at that row's own
positions. They are looked up in the bucket table once per request, by
distance; a step then cuts one contiguous window out of that line, in which
what lies in a query's future is already masked.
"""

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.array_typing import Array, Float, Int
from specdec_jax.tree import Tree

MASKED = -1e10
"""Added to the logits of what must not be attended to, as in T5X."""


def bucket(
  relative_position: np.ndarray,
  *,
  bidirectional: bool,
  num_buckets: int,
  max_distance: int,
) -> np.ndarray:
  """The bucket of each relative position (key minus query).

  Half of the buckets are exact distances, the other half grow with the
  logarithm up to `max_distance`.

  Args:
    relative_position: Integers of any shape.
    bidirectional: Whether keys after the query have buckets of their own (the
      encoder), or share bucket 0 (the decoder).
    num_buckets: Buckets in all.
    max_distance: From here on there is one bucket.

  Returns:
    int32, of the same shape.
  """
  offset = np.zeros_like(relative_position)
  distance = -relative_position
  if bidirectional:
    num_buckets //= 2
    offset = (distance < 0) * num_buckets
    distance = np.abs(distance)
  else:
    distance = np.maximum(distance, 0)
  max_exact = num_buckets // 2
  far = max_exact + (
    np.log(distance.astype(np.float32) / max_exact + np.finfo(np.float32).eps)
    / np.log(max_distance / max_exact)
    * (num_buckets - max_exact)
  ).astype(np.int32)
  far = np.minimum(far, num_buckets - 1)
  return (offset + np.where(distance < max_exact, distance, far)).astype(
    np.int32
  )


def full_bias(
  table: Float[Array, "H buckets"],
  length: int,
  *,
  bidirectional: bool,
  max_distance: int,
) -> Float[Array, "1 H T T"]:
  """The biases between all positions of a stack, float32[1, H, T, T]."""
  position = np.arange(length)
  buckets = bucket(
    position[None, :] - position[:, None],
    bidirectional=bidirectional,
    num_buckets=table.shape[1],
    max_distance=max_distance,
  )
  return table[:, buckets][None].astype(jnp.float32)


def causal_mask(length: int) -> Float[Array, "T T"]:
  """What to add so that no position of a stack sees a later one."""
  return jnp.where(jnp.tril(jnp.ones((length, length), bool)), 0.0, MASKED)


def line_of_biases(
  table: Float[Array, "H buckets"], length: int, *, max_distance: int
) -> Float[Array, "H LL"]:
  """The decoder's biases by distance, from the farthest past to the future.

  Args:
    table: float[H, buckets].
    length: L, the length of the cache.
    max_distance: As in `bucket`.

  Returns:
    float32[H, 2 L]. Entry L - 1 - d is the bias of a key d positions before
    the query; from entry L on lie the keys after it, masked.
  """
  distance = np.arange(length - 1, -1, -1)
  buckets = bucket(
    -distance,
    bidirectional=False,
    num_buckets=table.shape[1],
    max_distance=max_distance,
  )
  past = table[:, buckets].astype(jnp.float32)
  future = jnp.full((table.shape[0], length), MASKED, jnp.float32)
  return jnp.concatenate([past, future], axis=1)


def step_bias(
  line: Float[Array, "B H LL"], positions: Int[Array, "B"], num_tokens: int
) -> Float[Array, "B H Q L"]:
  """The biases and the causal mask of a cached step.

  Args:
    line: float32[B, H, 2 L], from `line_of_biases`.
    positions: int32[B], of each row's first query.
    num_tokens: Q.

  Returns:
    float32[B, H, Q, L]; row i belongs to the query at `positions[b] + i`.
  """
  num_heads, length = line.shape[1], line.shape[2] // 2
  # Query i begins at L - 1 - (position + i): one window holds all of them.
  # Padding keeps the window inside for a query in the buffer's last slots.
  line = jnp.pad(line, ((0, 0), (0, 0), (num_tokens, 0)))
  starts = length - positions
  window = jax.vmap(
    lambda row, start: jax.lax.dynamic_slice(
      row, (0, start), (num_heads, length + num_tokens - 1)
    )
  )(line, starts)
  return jnp.stack(
    [
      window[:, :, num_tokens - 1 - i : num_tokens - 1 - i + length]
      for i in range(num_tokens)
    ],
    axis=2,
  )


def tree_bias(
  line: Float[Array, "B H LL"], positions: Int[Array, "B"], tree: Tree
) -> Float[Array, "B H M L"]:
  """The biases of a cached step whose queries are the nodes of a tree.

  Args:
    line: float32[B, H, 2 L], from `line_of_biases`.
    positions: int32[B], of each row's root; node i is in the slot `positions[b]
      + i`.
    tree: Who sees whom.

  Returns:
    float32[B, H, M, L].
  """
  length = line.shape[2] // 2
  depths = tree.depths
  # From what is committed a node is as far as the query of a plain step.
  bias = step_bias(line, positions, tree.gamma + 1)[:, :, depths]
  distances = np.where(tree.sees, depths[:, None] - depths, 0)
  among = jnp.where(tree.sees, line[:, :, length - 1 - distances], MASKED)
  return jax.vmap(
    lambda row, nodes, start: jax.lax.dynamic_update_slice(
      row, nodes, (0, 0, start)
    )
  )(bias, among, positions)
