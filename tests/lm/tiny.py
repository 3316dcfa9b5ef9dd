"""A decoder-only pair small enough to run often."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util

from specdec_jax import lm
from tests import toy

VOCAB = 48
TARGET = lm.LMModel(
  lm.LMConfig(
    vocab_size=VOCAB,
    emb_dim=16,
    num_heads=2,
    num_layers=2,
    head_dim=8,
    mlp_dim=32,
  )
)
DRAFT = lm.LMModel(dataclasses.replace(TARGET.config, num_layers=1))


@functools.cache
def params(model: lm.LMModel, seed: int = 0):
  """Random parameters; norms' scales too, so that swapped ones show."""
  random = np.random.default_rng(seed)
  flat = {}
  shapes = traverse_util.flatten_dict(model.param_shapes(), sep="/")
  for name, leaf in shapes.items():
    array = random.standard_normal(leaf.shape)
    if name.endswith("kernel"):
      array *= leaf.shape[0] ** -0.5
    if name.endswith("scale"):
      array = 1 + 0.3 * array
    flat[name] = jnp.asarray(array, jnp.float32)
  return traverse_util.unflatten_dict(flat, sep="/")


def pair(seed: int = 0) -> toy.Pair:
  """A draft with the target's own first layer: it is often right."""
  target = params(TARGET, seed)
  decoder = {k: v for k, v in target["decoder"].items() if k != "layers_1"}
  return toy.Pair(TARGET, target, DRAFT, {"decoder": decoder})


def prompts(lengths, width=None, *, seed=1):
  """Random prompts of these lengths, int32[B, S], padded with 0."""
  width = width or max(lengths)
  random = np.random.default_rng(seed)
  tokens = random.integers(2, VOCAB, (len(lengths), 200))[:, :width]
  kept = np.arange(width) < np.array(lengths)[:, None]
  return np.where(kept, tokens, 0).astype(np.int32)


def sequences(inputs, lengths, continuations):
  """What the model reads: the start token, the prompt, what follows."""
  width = 1 + max(lengths) + continuations.shape[1]
  tokens = np.zeros((len(lengths), width), np.int32)
  for row, length in enumerate(lengths):
    text = [*inputs[row, :length], *continuations[row]]
    tokens[row, 1 : 1 + len(text)] = text
  return tokens


@functools.partial(jax.jit, static_argnums=0)
def decode(model, params, tokens):
  """Logits without a cache."""
  return model.decode(params, jnp.asarray(tokens))


def at(logits, positions, count):
  """Some rows of [B, T, V], `count` from each position on."""
  wanted = np.array(positions)[:, None] + np.arange(count)
  return np.take_along_axis(np.asarray(logits), wanted[..., None], axis=1)
