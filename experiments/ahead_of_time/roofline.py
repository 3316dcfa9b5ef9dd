"""What a decoder call takes at least, from shapes and a chip's figures.

A call reads its weights and its cache once and multiplies them: it takes the
longer of the two times. What is left out: activations, what tiles add to
arrays, collectives between chips, and that no chip reaches its figures.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.ahead_of_time.chips import Chip
from experiments.decoding.random_pair import RandomModel
from specdec_jax import analysis
from specdec_jax.t5 import T5Model
from specdec_jax.t5.network import T5Cache


class Call(NamedTuple):
  """A decoder call.

  Attributes:
    bytes: What it reads of weights and caches.
    operations: Multiplications and additions.
  """

  bytes: int
  operations: int


class Estimate(NamedTuple):
  """A pair on a slice.

  Attributes:
    target_ms: A target call of one token.
    verify_ms: A target call of gamma + 1 tokens.
    draft_ms: A draft call of one token.
    cost_ratio: c, draft_ms / target_ms.
    verification_ratio: verify_ms / target_ms.
    speedup: Of these and alpha, over plain decoding.
  """

  target_ms: float
  verify_ms: float
  draft_ms: float
  cost_ratio: float
  verification_ratio: float
  speedup: float


def decoder_call(
  model: RandomModel,
  *,
  tokens: int,
  batch_size: int,
  input_length: int,
  cache_length: int,
) -> Call:
  """Counts what a call of the decoder against its cache needs.

  Args:
    model: The model.
    tokens: Of each row.
    batch_size: Rows.
    input_length: Tokens of an input.
    cache_length: Slots of the self-attention cache; all of them are read.
  """
  shape = model.model.config
  read, multiplied = 0, 0
  for name, leaf in model.leaves.items():
    if not _is_read(name, shape.logits_via_embedding):
      continue
    size = int(np.prod(leaf.shape))
    read += size * leaf.dtype.itemsize
    if leaf.ndim == 2:
      multiplied += size
  rows = batch_size * tokens
  embedding = model.leaves["token_embedder/embedding"]
  read += rows * shape.emb_dim * embedding.dtype.itemsize
  cache = cache_of_a_layer(
    model,
    batch_size=batch_size,
    input_length=input_length,
    cache_length=cache_length,
  )
  read += shape.num_decoder_layers * _bytes(cache.layers)
  read += _bytes((cache.bias_line, cache.encoder_mask))
  # Logits and mix, over what was written and what was read in.
  attended = cache_length + input_length
  attention = 2 * shape.num_heads * shape.head_dim * attended
  return Call(
    read,
    2 * rows * (multiplied + shape.num_decoder_layers * attention),
  )


def cache_of_a_layer(
  model: RandomModel, *, batch_size: int, input_length: int, cache_length: int
) -> T5Cache:
  """The cache, as if the decoder had one layer; `jax.ShapeDtypeStruct`s.

  All layers' are the same, and tracing a large model takes seconds.

  Args:
    model: The model.
    batch_size: Rows.
    input_length: Tokens of an input.
    cache_length: Slots of the self-attention cache.
  """
  shallow = T5Model(
    dataclasses.replace(
      model.model.config, num_encoder_layers=1, num_decoder_layers=1
    )
  )
  return _cache(shallow, batch_size, input_length, cache_length)


@functools.lru_cache(maxsize=256)
def _cache(model: T5Model, batch_size, input_length, cache_length) -> T5Cache:
  return jax.eval_shape(
    functools.partial(model.prefill, length=cache_length),
    model.param_shapes(),
    jax.ShapeDtypeStruct((batch_size, input_length), jnp.int32),
  ).cache


def _bytes(arrays: Any) -> int:
  return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(arrays))


def _is_read(parameter: str, logits_via_embedding: bool) -> bool:
  """Whether a decoder call reads a parameter as a whole."""
  parts = parameter.split("/")
  if parts[0] == "token_embedder":
    return logits_via_embedding
  if parts[0] != "decoder" or parts[-1] == "rel_embedding":
    return False
  # The keys and values of the inputs are in the cache.
  return "encoder_decoder_attention" not in parts or parts[-2] not in (
    "key",
    "value",
  )


def milliseconds(call: Call, chip: Chip, parts: int = 1) -> float:
  """The least time of a call that is cut into equal parts.

  Args:
    call: From `decoder_call`.
    chip: What it runs on.
    parts: How many chips share it.
  """
  return (
    1000
    * max(call.bytes / chip.bandwidth, call.operations / chip.operations)
    / parts
  )


def estimate(
  target: RandomModel,
  draft: RandomModel,
  chip: Chip,
  *,
  alpha: float,
  gamma: int,
  batch_size: int,
  input_length: int,
  cache_length: int,
  target_parts: int = 1,
  draft_parts: int = 1,
) -> Estimate:
  """Estimates a pair's ratios, and the speed-up that they give.

  Args:
    target: The target.
    draft: The draft.
    chip: What both run on.
    alpha: How likely a guess is kept.
    gamma: Guesses per round.
    batch_size: Rows.
    input_length: Tokens of an input.
    cache_length: Slots of both self-attention caches.
    target_parts: How many chips share the target.
    draft_parts: How many share the draft; 1 if each holds it whole.
  """

  def time(model, tokens, parts):
    call = decoder_call(
      model,
      tokens=tokens,
      batch_size=batch_size,
      input_length=input_length,
      cache_length=cache_length,
    )
    return milliseconds(call, chip, parts)

  target_ms = time(target, 1, target_parts)
  verify_ms = time(target, gamma + 1, target_parts)
  draft_ms = time(draft, 1, draft_parts)
  cost_ratio, verification_ratio = draft_ms / target_ms, verify_ms / target_ms
  return Estimate(
    target_ms,
    verify_ms,
    draft_ms,
    cost_ratio,
    verification_ratio,
    float(
      analysis.wall_time_improvement(
        alpha, gamma, cost_ratio, verification_ratio
      )
    ),
  )
