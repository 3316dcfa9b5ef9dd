"""How fast a training step is, beside what its matrix products alone allow.

    python -m experiments.measure_training --gin_file=measure_training.gin

The step is the trainer's own (`step.make_train_step`): forward, backward and
the optimizer's update. Its matrix products are read off its jaxpr, every
`dot_general` with its shapes, dimensions and dtypes, each as often as it is
there. A second program does these products and nothing else: the same
compiler, the same process, every product with a left operand of its own, so
that none is merged with another, and with a result that is kept. Nothing in
it waits for anything else, and right operands of one shape are one array,
which is warmer in the caches than the step's are: so its time is, if anything,
less than what the products take inside the step, and the ratio that is
reported is not flattered.

Both programs run in turns, after one run each that compiles them; a ratio is
formed within each turn, and min, median and max over the turns are reported.
Batches are full: every one of its tokens counts. Text fills them less (the
trainer's own log has tokens that count), and slows both programs alike.
"""

import logging
import pathlib
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments import compilation_cache, environment, gin_cli
from experiments.records import write_json
from experiments.spread import spread
from experiments.training import model as training_model
from experiments.training import precision as training_precision
from specdec_jax import lm, t5
from specdec_jax.training import step
from specdec_jax.training.optimizer import OptimizerConfig

log = logging.getLogger(__name__)

RESULT = "measure_training.json"


class Product(NamedTuple):
  """A matrix product; hashable.

  Attributes:
    left: Shape and dtype.
    right: Shape and dtype.
    dimension_numbers: Of `lax.dot_general`.
    result_dtype: Of the result.
  """

  left: tuple[tuple[int, ...], str]
  right: tuple[tuple[int, ...], str]
  dimension_numbers: Any
  result_dtype: str

  @property
  def operations(self) -> int:
    """Multiplications and additions."""
    (contracted, _), (batch, _) = self.dimension_numbers
    shape, other = self.left[0], self.right[0]
    both = [shape[i] for i in (*contracted, *batch)]
    return 2 * int(
      np.prod(shape, dtype=np.int64)
      * np.prod(other, dtype=np.int64)
      // np.prod(both, dtype=np.int64)
    )


def run(
  *,
  model: training_model.Config | str,
  optimizer: OptimizerConfig,
  output_dir: str,
  width: int = 64,
  tokens_per_batch: int = 1024,
  turns: int = 10,
  dtype: str | None = None,
  matmul_precision: str | None = None,
  seed: int = 0,
) -> dict[str, Any]:
  """Measures.

  Args:
    model: As in `train.run`.
    optimizer: As in `train.run`.
    output_dir: Where measure_training.json goes.
    width: Tokens of a row, on both sides.
    tokens_per_batch: Target tokens of a step.
    turns: How often to run both programs.
    dtype: As in `train.run`.
    matmul_precision: As in `train.run`.
    seed: Of parameters and tokens.

  Returns:
    What the file says.
  """
  training_precision.check(matmul_precision)
  network = training_model.make(model, dtype)
  chosen = optimizer.make(optimizer.warmup_steps + optimizer.decay_steps + 1)
  rows = tokens_per_batch // width
  tokens = np.random.default_rng(seed).integers(
    3, network.vocab_size, (2, rows, width), dtype=np.int32
  )
  inputs, targets = jax.device_put(tokens)
  if training_model.is_decoder_only(network):
    inputs = jnp.zeros_like(inputs)
  key = jax.random.key(seed)
  state = step.init(network.init(key), chosen)
  train_step = step.make_train_step(network, chosen, z_loss=1e-4)

  step_seconds, product_seconds = [], []
  with training_precision.context(matmul_precision):
    jaxpr = jax.make_jaxpr(train_step)(state, inputs, targets, key)
    products = list(products_of(jaxpr.jaxpr))
    only_products, operands = program_of(products, seed)
    for turn in range(turns + 1):
      start = time.perf_counter()
      state, metrics = train_step(state, inputs, targets, key)
      jax.block_until_ready((state, metrics))
      middle = time.perf_counter()
      jax.block_until_ready(only_products(*operands))
      end = time.perf_counter()
      if turn:  # The first compiles.
        step_seconds.append(middle - start)
        product_seconds.append(end - middle)
  counted = rows * width
  result = {
    "model": str(network.config),
    "parameters": sum(each.size for each in jax.tree.leaves(state.params)),
    "rows": rows,
    "width": width,
    "matmul_precision": matmul_precision,
    "turns": turns,
    "products": len(products),
    "operations": sum(each.operations for each in products),
    "target_tokens_per_second": spread(
      [counted / each for each in step_seconds]
    ),
    "products_alone_tokens_per_second": spread(
      [counted / each for each in product_seconds]
    ),
    "share": spread(
      [
        alone / whole
        for alone, whole in zip(product_seconds, step_seconds, strict=True)
      ]
    ),
    "environment": environment.describe(network.config.dtype),
  }
  write_json(pathlib.Path(output_dir) / RESULT, result)
  log.info(
    "%.0f target tokens/s; the step's %d products alone: %.0f; share %.2f",
    result["target_tokens_per_second"]["median"],
    len(products),
    result["products_alone_tokens_per_second"]["median"],
    result["share"]["median"],
  )
  return result


def products_of(jaxpr: Any) -> Iterator[Product]:
  """Yields the matrix products of a jaxpr and of those inside it.

  Raises:
    ValueError: If one is inside a loop, whose turns the jaxpr does not tell.
  """
  for equation in jaxpr.eqns:
    if equation.primitive.name == "dot_general":
      left, right = (each.aval for each in equation.invars)
      yield Product(
        (left.shape, left.dtype.name),
        (right.shape, right.dtype.name),
        equation.params["dimension_numbers"],
        equation.outvars[0].aval.dtype.name,
      )
      continue
    inner = [
      product
      for each in jax.tree.leaves(
        list(equation.params.values()),
        is_leaf=lambda value: _jaxpr_in(value) is not None,
      )
      if (found := _jaxpr_in(each)) is not None
      for product in products_of(found)
    ]
    if inner and equation.primitive.name in ("scan", "while", "cond"):
      raise ValueError(
        f"The step has matrix products inside a {equation.primitive.name},"
        " whose count is not known; measure with microbatches=1."
      )
    yield from inner


def program_of(products: list[Product], seed: int = 0):
  """Returns a program that does only these products, and its arguments."""
  generator = np.random.default_rng(seed)

  def random(shape, dtype):
    values = generator.standard_normal(shape, dtype=np.float32)
    return jnp.asarray(values, dtype)

  lefts = [random(*each.left) for each in products]
  rights = {each.right: random(*each.right) for each in products}

  @jax.jit
  def program(lefts, rights):
    return [
      jax.lax.dot_general(
        left,
        right,
        each.dimension_numbers,
        preferred_element_type=each.result_dtype,
      )
      for left, right, each in zip(lefts, rights, products, strict=True)
    ]

  return program, (lefts, [rights[each.right] for each in products])


def _jaxpr_in(value: Any) -> Any:
  value = getattr(value, "jaxpr", value)
  return value if hasattr(value, "eqns") else None


if __name__ == "__main__":
  logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
  compilation_cache.enable()
  gin_cli.main(
    run,
    name="measure_training",
    configurables=(lm.LMConfig, t5.T5Config, OptimizerConfig),
  )
