"""The product of activations and a kernel, at the precision that JAX is told.

`jax.default_matmul_precision("BF16_BF16_F32")` asks for operands rounded to
bfloat16 and sums in float32, which is also what a TPU does with float32 unless
told otherwise. XLA heeds it on accelerators. On a processor it does not, so
there the operands are rounded here: processors with matrix units for bfloat16
(AMX) are then several times as fast.
"""

from typing import Any

import jax
import jax.numpy as jnp

from specdec_jax.array_typing import Array, Float

ROUNDED = "BF16_BF16_F32"


def dot(
  x: Float[Array, "*B i"],
  kernel: Float[Array, "i o"],
  preferred_element_type: Any = None,
) -> Float[Array, "*B o"]:
  """Returns x @ kernel.

  Args:
    x: Of any leading dimensions.
    kernel: Of the same dtype.
    preferred_element_type: The result's dtype; None for the operands'.
  """
  wanted = jax.config.jax_default_matmul_precision  # type: ignore
  if (
    wanted == ROUNDED
    and x.dtype == jnp.float32
    and jax.default_backend() == "cpu"
  ):
    rows = x.reshape(-1, x.shape[-1])
    return _rounded(rows, kernel).reshape(*x.shape[:-1], -1)
  return jnp.dot(x, kernel, preferred_element_type=preferred_element_type)


@jax.custom_vjp
def _rounded(x: Float[Array, "N i"], kernel: Float[Array, "i o"]):
  """As `dot`; the gradients' products round their operands too."""
  return _product(x, kernel, (1, 0))


def _forward(x, kernel):
  return _rounded(x, kernel), (x, kernel)


def _backward(operands, cotangent):
  x, kernel = operands
  return _product(cotangent, kernel, (1, 1)), _product(x, cotangent, (0, 0))


_rounded.defvjp(_forward, _backward)


def _product(left, right, contracted: tuple[int, int]):
  left_axis, right_axis = contracted
  return jax.lax.dot_general(
    left.astype(jnp.bfloat16),
    right.astype(jnp.bfloat16),
    (((left_axis,), (right_axis,)), ((), ())),
    preferred_element_type=jnp.float32,
  )
