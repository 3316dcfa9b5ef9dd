"""Products whose operands are rounded to bfloat16, when JAX is told so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax import t5
from specdec_jax.t5 import matmul
from specdec_jax.training import step


def _operands():
  keys = jax.random.split(jax.random.key(0), 2)
  x = jax.random.normal(keys[0], (3, 5, 96))
  return x, jax.random.normal(keys[1], (96, 64))


def _rounded(x):
  return np.asarray(x.astype(jnp.bfloat16), np.float64)


@pytest.fixture
def only_where_xla_can():
  """Not every processor has this product; nobody else asks for it."""
  try:
    with jax.default_matmul_precision(matmul.ROUNDED):
      jax.block_until_ready(jax.jit(matmul.dot)(*_operands()))
  except jax.errors.JaxRuntimeError as error:
    if "Unsupported element type" not in str(error):
      raise
    pytest.skip("XLA has no product of bfloat16 in float32 here")


def test_product_and_gradients(only_where_xla_can):
  x, kernel = _operands()

  def total(x, kernel):
    return jnp.sum(jnp.sin(matmul.dot(x, kernel)))

  with jax.default_matmul_precision(matmul.ROUNDED):
    y = jax.jit(matmul.dot)(x, kernel)
    dx, dkernel = jax.jit(jax.grad(total, (0, 1)))(x, kernel)
  exact = _rounded(x) @ _rounded(kernel)
  np.testing.assert_allclose(y, exact, atol=1e-4)
  assert np.abs(y - np.asarray(x) @ np.asarray(kernel)).max() > 1e-2
  cotangent = _rounded(jnp.cos(y))
  np.testing.assert_allclose(dx, cotangent @ _rounded(kernel).T, atol=1e-3)
  np.testing.assert_allclose(
    dkernel,
    np.einsum("bti,bto->io", _rounded(x), cotangent),
    atol=1e-3,
  )


def test_unasked_it_is_the_plain_product():
  x, kernel = _operands()
  for precision in (None, "float32"):
    with jax.default_matmul_precision(precision):
      np.testing.assert_array_equal(
        jax.jit(matmul.dot)(x, kernel), jax.jit(jnp.dot)(x, kernel)
      )


@pytest.mark.parametrize("asked", [False, True])
def test_a_training_step_rounds_when_asked(asked):
  config = t5.T5Config(
    vocab_size=32,
    emb_dim=16,
    num_heads=2,
    head_dim=8,
    mlp_dim=32,
    num_encoder_layers=1,
    num_decoder_layers=1,
    logits_via_embedding=False,
  )
  model = t5.T5Model(config)
  params = jax.eval_shape(model.init, jax.random.key(0))
  tokens = jnp.ones((2, 4), jnp.int32)
  with jax.default_matmul_precision(matmul.ROUNDED if asked else None):
    jaxpr = jax.make_jaxpr(
      jax.grad(
        lambda params: step.token_logits(model, params, tokens, tokens).sum()
      )
    )(params)
  assert ("bf16" in str(jaxpr)) == asked
