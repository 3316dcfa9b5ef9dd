"""What memory decoding takes, in bytes, known before anything is decoded."""

import math

import jax
import numpy as np

import specdec_jax as sd
from experiments import memory
from experiments.decoding.pair import Pair
from specdec_jax import speculative
from specdec_jax.array_typing import PyTree


def footprint(
  pair: Pair,
  config: sd.SpeculativeConfig,
  *,
  batch_size: int,
  input_length: int,
) -> dict[str, int]:
  """Returns the bytes of a generation, part by part, and at once at most.

  Args:
    pair: Who decodes; the target alone if gamma is 0.
    config: How.
    batch_size: Rows side by side.
    input_length: Tokens of an input.

  Returns:
    Of parameters and caches of target and draft; `total` is what the compiled
    program holds at most, these and its temporaries, as the compiler says.
  """
  run, inputs = speculative.prepare(
    jax.random.split(jax.random.key(0), batch_size),
    np.ones((batch_size, input_length), np.int32),
    target=pair.target,
    target_params=pair.target_params,
    drafter=pair.drafter,
    draft_params=pair.drafter_params,
    config=config,
  )
  state = jax.eval_shape(speculative.start, run, inputs)
  compiled = speculative._generate.lower(run, inputs).compile()
  return {
    "target_parameters": _bytes(run.target_params),
    "draft_parameters": _bytes(run.draft_params),
    "target_cache": _bytes(state.target_cache),
    "draft_cache": _bytes(state.draft_cache),
    "total": memory.of_program(compiled)["total"],
  }


def _bytes(tree: PyTree) -> int:
  return sum(
    math.prod(each.shape) * each.dtype.itemsize
    for each in jax.tree.leaves(tree)
  )
