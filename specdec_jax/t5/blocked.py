"""Kernels laid out for a processor's products of few rows, a step's.

XLA's CPU backend hands a product of two rows or more to a library that repacks
the whole kernel before it multiplies, and for few rows the repacking is what
takes the time. Of blocks that are 64 columns wide it need not: there the same
library multiplies a few rows at nearly the cost of one, and one row faster than
XLA's own loop does. So a kernel [i, o] becomes blocks [o / 64, i, 64], and the
product a sum over i, which XLA knows again as a product.

It does not where several products have one left side, since it then writes that
side out once for each column. So kernels that are applied to the same input are
one array of blocks, side by side.

A row's result is the same, bit for bit, for any number of rows up to
`MOST_ROWS`.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.array_typing import Array, Float, Params

BLOCKS = "blocks"
"""The name of blocks that stand in a kernel's place."""

QUERY_KEY_VALUE = "query_key_value"
"""Self-attention's blocks of three kernels."""

INPUTS = "wi_blocks"
"""The feed-forward block's, of all kernels that its input goes through."""

MOST_ROWS = 16
"""For more rows the repacking pays."""

Kernel = Float[Array | np.ndarray, "i o"]

_WIDTHS = (64, 48, 32)
_LEAST_ENTRIES = 2**17
"""Smaller kernels stay in a processor's caches, and calling the library takes
longer than the product."""


def product(
  x: Float[Array, "*B i"], blocks: Float[Array, "n i w"]
) -> Float[Array, "*B o"]:
  """Returns x @ kernel, or kernels side by side.

  Args:
    x: Of any leading dimensions.
    blocks: From `lay_out`.
  """
  rows = x.reshape(-1, x.shape[-1])
  num_rows = rows.shape[0]
  if num_rows > MOST_ROWS:
    y = jax.lax.dot_general(rows, blocks, (((1,), (1,)), ((), ())))
  else:
    # One row alone would be made another kind of product.
    rows = jnp.pad(rows, ((0, max(2 - num_rows, 0)), (0, 0)))
    y = jnp.sum(rows[:, None, :, None] * blocks, axis=2)[:num_rows]
  return y.reshape(*x.shape[:-1], -1)


def lay_out(params: Params) -> Params:
  """Returns a model's parameters with the kernels of its steps in blocks.

  Those are the decoder's, without the keys and values of its inputs, which are
  computed once. Small kernels stay as they are, and so do those that cannot be
  cut into blocks of 64, 48 or 32 columns.

  Args:
    params: A T5's or a language model's, as `load` returns them.
  """
  return params | {"decoder": _of_stack(params["decoder"])}


def _of_stack(tree):
  changed = {}
  for name, child in tree.items():
    if name == "self_attention":
      changed[name] = _merged(child, ("query", "key", "value"), QUERY_KEY_VALUE)
    elif name == "mlp":
      inputs = sorted(each for each in child if each.startswith("wi"))
      changed[name] = _merged(child, inputs, INPUTS)
    elif name == "encoder_decoder_attention":
      changed[name] = child | {
        each: _of_dense(child[each]) for each in ("query", "out")
      }
    elif name == "logits_dense":
      changed[name] = _of_dense(child)
    else:
      changed[name] = _of_stack(child) if "layers_" in name else child
  return changed


def _merged(tree, names: Sequence[str], merged: str):
  """Blocks what is in a layer's part: some kernels as one, others alone."""
  changed = {
    name: child if name in names else _of_dense(child)
    for name, child in tree.items()
  }
  kernels = [changed[name]["kernel"] for name in names]
  if all(map(_fits, kernels)):
    for name in names:
      del changed[name]
    changed[merged] = jnp.concatenate(list(map(_block, kernels)))
  return changed


def _of_dense(tree):
  kernel = tree["kernel"]
  return {BLOCKS: _block(kernel)} if _fits(kernel) else tree


def _block(kernel: Kernel) -> Float[Array, "n i w"]:
  width = _width(kernel)
  assert width is not None
  rows, columns = kernel.shape
  return (
    jnp.asarray(kernel).reshape(rows, columns // width, width).swapaxes(0, 1)
  )


def _fits(kernel: Kernel) -> bool:
  return kernel.size >= _LEAST_ENTRIES and _width(kernel) is not None


def _width(kernel: Kernel) -> int | None:
  columns = kernel.shape[1]
  return next((each for each in _WIDTHS if columns % each == 0), None)
