"""Models small enough to enumerate, and T5 pairs small enough to run often.

A `TableModel` looks the law of the next token up in a table, by the last few
tokens. It sees them through a cache like a real one: a buffer of fixed size,
overwritten at positions. A hole, a stale entry or a position that is one off
gives another context, hence another law.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import specdec_jax as sd
from specdec_jax import t5
from specdec_jax.base import Prefill
from specdec_jax.drafters import NgramModel

NO_TARGET = Prefill(None, None, None)
"""For drafters that do not look at what the target prefilled."""


@dataclasses.dataclass(frozen=True)
class TableModel:
  """A Markov chain of some order behind the seam of a decoder.

  Its parameters are the logits, float32[N, (V + 1) ** order, V]. Which of the
  N tables a row uses follows from the sum of its inputs, so that padding
  changes nothing; which row of the table, from the last tokens fed, the
  nearest first, where V stands for "before the first one".

  Attributes:
    vocab_size: V.
    order: How many tokens back it looks.
    prompted: Whether the inputs are a prompt that the output continues, as in
      a decoder-only model; rows then begin at positions of their own.
  """

  vocab_size: int
  order: int = 2
  prompted: bool = False

  def prefill(self, params, inputs, length):
    batch = inputs.shape[0]
    # Entries that no call has written hold a token, so that reading one of
    # them is a mistake and not an accident without consequence.
    fed = jnp.full((batch, length), self.vocab_size - 1, jnp.int32)
    token = position = jnp.zeros((batch,), jnp.int32)
    if self.prompted:
      fed = jnp.concatenate([inputs.astype(jnp.int32), fed], axis=1)
      position = jnp.sum(inputs > 0, axis=1, dtype=jnp.int32) - 1
      token = jnp.take_along_axis(fed, position[:, None], axis=1)[:, 0]
    source = jnp.sum(inputs, axis=1) % params.shape[0]
    return Prefill({"fed": fed, "source": source}, token, position)

  def extend(self, params, tokens, positions, cache):
    batch, num_tokens = tokens.shape
    slots = positions[:, None] + jnp.arange(num_tokens)
    fed = (
      cache["fed"]
      .at[jnp.arange(batch)[:, None], slots]
      .set(tokens, mode="drop")
    )
    context = jnp.zeros_like(slots)
    for back in range(self.order):
      seen = jnp.take_along_axis(fed, jnp.maximum(slots - back, 0), axis=1)
      seen = jnp.where(slots >= back, seen, self.vocab_size)
      context = context * (self.vocab_size + 1) + seen
    logits = params.at[cache["source"][:, None], context].get(
      mode="fill", fill_value=jnp.nan
    )
    return logits, {**cache, "fed": fed}

  def context(self, tokens) -> int:
    """The row of the table after these tokens, the first input included."""
    index = 0
    for back in range(self.order):
      seen = tokens[-1 - back] if back < len(tokens) else self.vocab_size
      index = index * (self.vocab_size + 1) + int(seen)
    return index


def random_table(
  model: TableModel, seed, *, sources=1, zeros=0.0, sharpness=1.5
):
  """Random logits; a share of them is -inf, which is probability zero."""
  random = np.random.default_rng(seed)
  shape = (sources, (model.vocab_size + 1) ** model.order, model.vocab_size)
  logits = sharpness * random.standard_normal(shape)
  dropped = random.random(shape) < zeros
  np.put_along_axis(
    dropped, random.integers(shape[-1], size=(*shape[:2], 1)), False, axis=-1
  )
  return np.where(dropped, -np.inf, logits).astype(np.float32)


@dataclasses.dataclass(frozen=True, eq=False)
class Pair:
  """A target and a draft model, each with its parameters."""

  target: Any
  target_params: Any
  draft: Any
  draft_params: Any

  def speculative(self, inputs, key=0, **options) -> sd.GenerateOutput:
    """Decodes; a key may be its seed, options are those of both configs."""
    return sd.speculative_generate(
      _key(key), jnp.asarray(inputs), config=config(**options), **self.models
    )

  def baseline(self, inputs, key=0, **options) -> sd.GenerateOutput:
    return sd.autoregressive_generate(
      _key(key),
      jnp.asarray(inputs),
      model=self.target,
      params=self.target_params,
      config=config(**options),
    )

  @property
  def models(self) -> dict[str, Any]:
    return {
      "target": self.target,
      "target_params": self.target_params,
      "drafter": sd.model_drafter(self.draft),
      "draft_params": self.draft_params,
    }

  @property
  def same(self) -> "Pair":
    """The target as its own draft."""
    return dataclasses.replace(
      self, draft=self.target, draft_params=self.target_params
    )


def config(**options) -> sd.SpeculativeConfig:
  """A configuration from the options of sampling and decoding alike."""
  fields = {field.name for field in dataclasses.fields(sd.SamplingConfig)}
  sampling = {name: options.pop(name) for name in fields & options.keys()}
  return sd.SpeculativeConfig(sampling=sd.SamplingConfig(**sampling), **options)


def _key(key):
  return jax.random.key(key) if isinstance(key, int) else key


def table_pair(
  vocab_size=5, *, order=2, sources=3, seed=0, apart=1.0, **options
) -> Pair:
  """Two tables; the draft's is the target's and `apart` times another."""
  model = TableModel(vocab_size, order, **options)
  target, noise = (
    random_table(model, seed + i, sources=sources) for i in range(2)
  )
  return Pair(
    model, jnp.asarray(target), model, jnp.asarray(target + apart * noise)
  )


def texts_of(model: TableModel, table, count, length, *, seed=0, eos_id=1):
  """What a table writes: lists of words that end with EOS or are cut off."""
  random = np.random.default_rng(seed)
  laws = np.exp(np.float64(table))
  laws /= laws.sum(axis=-1, keepdims=True)
  texts = []
  for i in range(count):
    tokens = [0]
    while len(tokens) <= length and (len(tokens) == 1 or tokens[-1] != eos_id):
      law = laws[i % len(laws), model.context(tokens)]
      tokens.append(int(random.choice(len(law), p=law)))
    texts.append(tokens[1:])
  return texts


def ngram_pair(vocab_size=5, *, ngram_order=2, seed=0, **options) -> Pair:
  """A table, and the n-grams of what it writes as its draft."""
  pair = table_pair(vocab_size, seed=seed, **options)
  texts = texts_of(pair.target, pair.target_params, 60, 9)
  table = sd.count_ngrams(texts, vocab_size=vocab_size, order=ngram_order)
  return dataclasses.replace(
    pair, draft=NgramModel(vocab_size), draft_params=table
  )


T5_TARGET = t5.T5Model(
  t5.T5Config(
    vocab_size=48,
    emb_dim=16,
    num_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=2,
    head_dim=8,
    mlp_dim=32,
    mlp_activations=("gelu", "linear"),
    logits_via_embedding=False,
  )
)
T5_DRAFT = t5.T5Model(
  dataclasses.replace(T5_TARGET.config, num_decoder_layers=1)
)


@functools.cache
def t5_params(model: t5.T5Model, seed: int):
  """Random parameters."""
  return model.init(jax.random.key(seed))


@functools.cache
def disturbed_params(model: t5.T5Model, seed: int, noise: float):
  """The parameters of `seed` and noise: a draft that is often right."""
  params = t5_params(model, seed)
  leaves, tree = jax.tree.flatten(params)
  keys = jax.random.split(jax.random.key(seed + 1), len(leaves))
  return jax.tree.unflatten(
    tree,
    [
      leaf + noise * jnp.std(leaf) * jax.random.normal(key, leaf.shape)
      for leaf, key in zip(leaves, keys, strict=True)
    ],
  )


def inputs(rows: int, width: int, *, seed: int = 0, vocab_size: int = 48):
  """Token ids, int32[rows, width], rows of every length, padded with 0."""
  random = np.random.default_rng(seed)
  tokens = random.integers(2, vocab_size, (rows, width))
  lengths = random.integers(1, width + 1, (rows, 1))
  return np.where(np.arange(width) < lengths, tokens, 0).astype(np.int32)
