"""Pairs of the published sizes with random weights: for timings, not texts."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util

import specdec_jax as sd
from experiments.decoding.pair import Pair, PairConfig
from specdec_jax import t5
from specdec_jax.array_typing import Params
from specdec_jax.t5.checkpoints.assemble import held_dtype

_PROGRAMS = 2**29
"""Bytes allowed for compiled programs and what XLA needs beside them."""


@dataclasses.dataclass(frozen=True)
class RandomModel:
  """A published size without its weights.

  Attributes:
    size: One of `t5.CONFIGS`.
    dtype: What it computes in, and holds its matrices in.
  """

  size: str
  dtype: str

  @property
  def model(self) -> t5.T5Model:
    """The model.

    Raises:
      ValueError: If there is no such size or dtype.
    """
    return t5.T5Model(
      dataclasses.replace(t5.get_config(self.size), dtype=self.dtype)
    )

  @functools.cached_property
  def leaves(self) -> dict[str, jax.ShapeDtypeStruct]:
    """The parameters, laid out for decoding, as a checkpoint would be held."""
    shapes: dict[str, Any] = traverse_util.flatten_dict(
      jax.eval_shape(self.model.lay_out, self.model.param_shapes()), sep="/"
    )
    return {
      name: jax.ShapeDtypeStruct(each.shape, held_dtype(name, self.dtype))
      for name, each in shapes.items()
    }

  def make(self, seed: int) -> Params:
    """Returns random parameters, made on the device one after the other.

    So beside the weights there is never more than one matrix. Matrices are
    uniform, of the variance 1 / rows (embeddings: 1), so that activations stay
    finite; norms are ones.

    Args:
      seed: Of the weights.
    """
    # The generator of XLA's own, which is quick for billions of numbers.
    key = jax.random.key(seed, impl="rbg")
    params = {
      name: jax.block_until_ready(
        _draw(
          jax.random.fold_in(key, i),
          shape=leaf.shape,
          dtype=leaf.dtype.name,
          deviation=None
          if leaf.ndim == 1
          else 1.0
          if name.endswith("embedding")
          # Of a kernel [i, o], or of blocks [n, i, w].
          else leaf.shape[-2] ** -0.5,
        )
      )
      for i, (name, leaf) in enumerate(self.leaves.items())
    }
    return traverse_util.unflatten_dict(params, sep="/")


@functools.partial(jax.jit, static_argnames=("shape", "dtype", "deviation"))
def _draw(key, *, shape, dtype, deviation):
  if deviation is None:
    return jnp.ones(shape, dtype)
  end = deviation * math.sqrt(3)
  return jax.random.uniform(key, shape, dtype, -end, end)


def make_pair(
  target: RandomModel,
  target_params: Params,
  draft: RandomModel,
  draft_params: Params,
) -> Pair:
  """Returns a pair that has no vocabulary, and so no texts."""
  return Pair(
    PairConfig(
      name=target.size,
      target=target.size,
      draft=draft.size,
      dtype=target.dtype,
    ),
    None,  # type: ignore
    target.model,
    target_params,
    draft.model,
    draft_params,
  )


def check_vocabularies(target: RandomModel, draft: RandomModel) -> None:
  """Checks that both models have one vocabulary.

  Raises:
    ValueError: If they have not, or one of them is no published size.
  """
  sizes = [each.model.vocab_size for each in (target, draft)]
  if len(set(sizes)) > 1:
    raise ValueError(
      f"The target {target.size} has a vocabulary of {sizes[0]} entries, the"
      f" draft {draft.size} one of {sizes[1]}; give two sizes of one family."
    )


def bytes_needed(
  target: RandomModel,
  draft: RandomModel,
  *,
  config: sd.SpeculativeConfig,
  batch_size: int,
  input_length: int,
) -> int:
  """Estimates the memory that timing a pair takes, weights included.

  Weights are counted once. Of the caches there are four at a time: what the
  parts' timings begin with, a program's loop, its result, and one to spare;
  of the laws of a round eight arrays, from the logits to the residual.

  Args:
    target: The target.
    draft: The draft.
    config: How they decode.
    batch_size: Rows side by side.
    input_length: Tokens of an input.
  """
  length = config.width + config.gamma + 1
  weights, caches, largest, encoder = 0, 0, 0, 0
  for each in (target, draft):
    shape = each.model.config
    sizes = [_bytes(leaf) for leaf in each.leaves.values()]
    weights += sum(sizes)
    # The bits, the floats, and what they become.
    largest = max(largest, 3 * max(sizes))
    params = traverse_util.unflatten_dict(each.leaves, sep="/")
    inputs = jax.ShapeDtypeStruct((batch_size, input_length), jnp.int32)
    start = jax.eval_shape(
      functools.partial(each.model.prefill, length=length), params, inputs
    )
    caches += sum(map(_bytes, jax.tree.leaves(start)))
    encoder = max(
      encoder,
      4
      * batch_size
      * input_length
      * (3 * shape.mlp_dim + 2 * shape.num_heads * input_length),
    )
  laws = 4 * batch_size * (config.gamma + 1) * target.model.vocab_size
  return weights + max(largest, 4 * caches + 8 * laws + encoder) + _PROGRAMS


def _bytes(leaf: jax.ShapeDtypeStruct) -> int:
  return math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize
