"""A pair of Llamas small enough to run often."""

import dataclasses

import numpy as np

from specdec_jax.lm import llama
from tests import toy
from tests.lm import tiny

VOCAB = 48
BOS = 1
TARGET = llama.LlamaModel(
  llama.LlamaConfig(
    vocab_size=VOCAB,
    emb_dim=16,
    num_heads=4,
    num_key_value_heads=2,
    num_layers=2,
    head_dim=8,
    mlp_dim=32,
    rope_theta=300.0,
    rope_scaling=llama.Llama3Scaling(4.0, original_length=32),
    max_positions=256,
    pad_id=BOS,
  )
)
DRAFT = llama.LlamaModel(dataclasses.replace(TARGET.config, num_layers=1))


def in_chunks(model: llama.LlamaModel, size: int) -> llama.LlamaModel:
  """The model that reads prompts in chunks of this size at most."""
  return dataclasses.replace(model, prefill_chunk=size)


def pair(seed: int = 0, prefill_chunk: int = 512) -> toy.Pair:
  """A draft with the target's own first layer: it is often right."""
  target = tiny.params(TARGET, seed)
  decoder = {k: v for k, v in target["decoder"].items() if k != "layers_1"}
  return toy.Pair(
    in_chunks(TARGET, prefill_chunk),
    target,
    in_chunks(DRAFT, prefill_chunk),
    {"decoder": decoder},
  )


def prompts(lengths, *, seed=1):
  """Random prompts of these lengths, as lists that begin with BOS."""
  random = np.random.default_rng(seed)
  return [
    [BOS, *random.integers(2, VOCAB, length - 1).tolist()] for length in lengths
  ]
