import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import gin_cli, measure_training
from experiments.measure_training import products_of, program_of
from specdec_jax import lm, t5
from specdec_jax.training.optimizer import OptimizerConfig


def products(function, *arguments):
  return list(products_of(jax.make_jaxpr(function)(*arguments).jaxpr))


def test_products_are_found_with_their_gradients():
  left, right = jnp.ones((3, 4)), jnp.ones((4, 5))

  @jax.jit
  def inner(left, right):
    return jnp.sum(jnp.sin(left @ right))

  (forward,) = products(inner, left, right)
  assert forward.left == ((3, 4), "float32")
  assert forward.operations == 2 * 3 * 4 * 5
  found = products(jax.grad(inner, argnums=(0, 1)), left, right)
  assert [each.operations for each in found] == [120] * 3


def test_operations_of_a_batched_product():
  (found,) = products(
    lambda a, b: jnp.einsum("bhqk,bhkl->bhql", a, b),
    jnp.ones((2, 3, 4, 5)),
    jnp.ones((2, 3, 5, 6)),
  )
  assert found.operations == 2 * (2 * 3) * 4 * 5 * 6


def test_a_loop_is_refused():
  def loop(x):
    return jax.lax.fori_loop(0, 3, lambda _, x: x @ x, x)

  with pytest.raises(ValueError, match="products inside a scan"):
    products(loop, jnp.ones((2, 2)))


def test_the_program_does_each_product():
  left = jnp.ones((3, 4), jnp.bfloat16)
  found = products(
    lambda a, b: [
      a @ b,
      a @ b,
      jnp.dot(a, b, preferred_element_type=jnp.float32),
    ],
    left,
    left.T,
  )
  program, operands = program_of(found)
  results = program(*operands)
  assert [each.dtype.name for each in results] == [
    "bfloat16",
    "bfloat16",
    "float32",
  ]
  for result, one, other in zip(results, *operands, strict=True):
    wanted = np.asarray(one, np.float32) @ np.asarray(other, np.float32)
    np.testing.assert_allclose(
      np.asarray(result, np.float32), wanted, rtol=0.02, atol=0.02
    )


@pytest.mark.parametrize("kind", ["T5Config", "LMConfig"])
def test_it_measures(tmp_path, kind):
  layers = {
    "T5Config": ("num_encoder_layers=1", "num_decoder_layers=1"),
    "LMConfig": ("num_layers=2",),
  }[kind]
  result = gin_cli.main(
    measure_training.run,
    name="measure_training",
    configurables=(lm.LMConfig, t5.T5Config, OptimizerConfig),
    argv=[
      "--gin_file=measure_training.gin",
      f"--output_dir={tmp_path}",
      f"--gin.measure_training.model=@{kind}()",
      *(f"--gin.{kind}.{each}" for each in layers),
      f"--gin.{kind}.vocab_size=32",
      f"--gin.{kind}.emb_dim=8",
      f"--gin.{kind}.mlp_dim=16",
      f"--gin.{kind}.num_heads=1",
      "--gin.measure_training.width=4",
      "--gin.measure_training.tokens_per_batch=8",
      "--gin.measure_training.turns=2",
    ],
  )
  written = json.loads((tmp_path / measure_training.RESULT).read_text())
  assert written == result
  assert result["rows"] == 2
  for field in ("target_tokens_per_second", "share"):
    found = result[field]
    assert 0 < found["min"] <= found["median"] <= found["max"]
  if kind == "LMConfig":
    # 4 + 2 products a layer and the logits, and each twice in the gradient;
    # attention has 2 more a layer.
    assert result["products"] == 3 * (2 * (4 + 2 + 2) + 1)
