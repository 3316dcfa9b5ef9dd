"""What a cache holds is the committed prefix, whatever happened before."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_jax import model_drafter, speculative
from specdec_jax.base import Context
from specdec_jax.kv_cache import KVCache
from specdec_jax.sampling import Sampler
from tests import toy

GAMMA = 3
ROWS = 3
ROUNDS = 4
LENGTH = 1 + ROUNDS * (GAMMA + 1)
CAPACITY = LENGTH + GAMMA + 1
T5 = toy.Pair(
  toy.T5_TARGET,
  toy.t5_params(toy.T5_TARGET, 0),
  toy.T5_DRAFT,
  toy.t5_params(toy.T5_DRAFT, 1),
)
SAMPLER = Sampler(jnp.ones(ROWS), 0, 1.0, False)
INPUTS = jnp.asarray(toy.inputs(ROWS, 7))


@functools.partial(jax.jit, static_argnums=0)
def _uncached(model, params, inputs, tokens):
  """Logits after every prefix of tokens that begin with the start token."""
  return model.decode(params, model.encode(params, inputs), inputs, tokens)


@jax.jit
def _prefill():
  target = T5.target.prefill(T5.target_params, INPUTS, CAPACITY)
  drafter = model_drafter(T5.draft)
  draft_cache = drafter.prefill(T5.draft_params, INPUTS, CAPACITY, target)
  return target.cache, draft_cache


@jax.jit
def _round(tokens, lengths, caches, key):
  """Guesses and scores; the verdict is the caller's."""
  target_cache, draft_cache = caches
  position = jnp.zeros_like(lengths)
  draft, draft_cache = model_drafter(T5.draft).draft(
    T5.draft_params,
    Context(tokens, lengths, position),
    draft_cache,
    jax.random.split(key, ROWS),
    SAMPLER,
    GAMMA,
  )
  last = jnp.take_along_axis(tokens, lengths[:, None] - 1, axis=1)
  logits, target_cache = T5.target.extend(
    T5.target_params,
    jnp.concatenate([last, draft.tokens], axis=1),
    lengths - 1,
    target_cache,
  )
  return draft, logits, (target_cache, draft_cache)


def _play(history, seed, poison=lambda caches, lengths: caches):
  """Plays rounds with the given verdicts.

  Args:
    history: [rounds, ROWS], how many guesses of each row are kept.
    seed: Of the guesses and of the tokens after them.
    poison: Is applied to the caches before each round.

  Returns:
    Of each round: lengths before it, guesses, their laws, and the target's
    logits. And the tokens, and the caches at the end.
  """
  random = np.random.default_rng(seed)
  tokens = np.zeros((ROWS, LENGTH), np.int32)
  lengths = np.ones(ROWS, np.int32)
  caches = _prefill()
  seen = []
  for i, kept in enumerate(history):
    caches = poison(caches, lengths)
    draft, logits, caches = _round(
      tokens, lengths, caches, jax.random.key(100 * seed + i)
    )
    guesses = np.asarray(draft.tokens)
    seen.append((lengths.copy(), guesses, draft.probs, logits))
    for row, count in enumerate(kept):
      new = [*guesses[row, :count], random.integers(2, 48)]
      tokens[row, lengths[row] : lengths[row] + count + 1] = new
      lengths[row] += count + 1
  return seen, tokens, caches


histories = st.lists(
  st.tuples(*[st.integers(0, GAMMA)] * ROWS), min_size=1, max_size=ROUNDS
)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(history=histories, seed=st.integers(0, 99))
def test_after_any_history_the_laws_are_those_of_the_prefix(history, seed):
  # A round more, whose laws are checked too.
  rounds, tokens, _ = _play([*history, (0,) * ROWS][:ROUNDS], seed)
  for lengths, guesses, draft_probs, target_logits in rounds:
    sequence = np.zeros((ROWS, CAPACITY), np.int32)
    for row, length in enumerate(lengths):
      sequence[row, :length] = tokens[row, :length]
      sequence[row, length : length + GAMMA] = guesses[row]
    wanted = lengths[:, None, None] - 1 + np.arange(GAMMA + 1)[:, None]
    target, draft = (
      np.take_along_axis(
        np.asarray(_uncached(model, params, INPUTS, sequence)), wanted, 1
      )
      for model, params in (
        (T5.target, T5.target_params),
        (T5.draft, T5.draft_params),
      )
    )
    np.testing.assert_allclose(target_logits, target, atol=2e-5)
    np.testing.assert_allclose(
      draft_probs, jax.nn.softmax(draft[:, :GAMMA]), atol=1e-5
    )


def _spoil(cache, firsts):
  """Puts 1000 in all self-attention slots from each row's first one on."""

  def spoil(buffer, axis):
    shape = [1] * buffer.ndim
    shape[axis] = buffer.shape[axis]
    slots = jnp.arange(buffer.shape[axis]).reshape(shape)
    firsts_ = firsts.reshape(-1, *[1] * (buffer.ndim - 1))
    return jnp.where(slots >= firsts_, 1e3, buffer)

  layers = [
    dataclasses.replace(
      layer,
      self_attention=KVCache(
        spoil(layer.self_attention.key, 3),
        spoil(layer.self_attention.value, 2),
      ),
    )
    for layer in cache.layers
  ]
  return dataclasses.replace(cache, layers=tuple(layers))


VERDICTS = [(0, 3, 1), (3, 3, 0), (2, 0, 3), (1, 3, 2)]


def test_unused_cache_slots_are_never_seen():

  def poison(caches, lengths):
    target, draft = caches
    # The last committed token has not been fed. The draft feeds the one
    # before it again, since its entry can be missing.
    return _spoil(target, lengths - 1), _spoil(
      draft, np.maximum(lengths - 2, 0)
    )

  clean, tokens, _ = _play(VERDICTS, 0)
  spoiled, tokens_spoiled, caches = _play(VERDICTS, 0, poison)
  np.testing.assert_array_equal(tokens, tokens_spoiled)
  for one, other in zip(clean, spoiled, strict=True):
    for x, y in zip(one, other, strict=True):
      np.testing.assert_array_equal(x, y)
  # The poison was there, and a slot that is in use feels it.
  assert np.max(caches[0].layers[0].self_attention.key) == 1e3
  felt, _, _ = _play(
    VERDICTS,
    0,
    lambda caches, lengths: (_spoil(caches[0], lengths - 2), caches[1]),
  )
  assert np.any(np.asarray(felt[1][3]) != np.asarray(clean[1][3]))


def test_unused_slots_of_the_token_buffer_are_never_seen():
  run, inputs = speculative.prepare(
    jax.random.key(0),
    INPUTS,
    config=toy.config(
      gamma=GAMMA, max_new_tokens=(9, 4, 7), temperature=(0.0, 1.0, 0.7)
    ),
    **T5.models,
  )
  step = jax.jit(lambda state: speculative.step(run, state)[0])
  clean = spoiled = jax.jit(lambda: speculative.start(run, inputs))()
  for _ in range(9):
    is_unused = np.arange(10) >= np.asarray(spoiled.lengths)[:, None]
    spoiled = dataclasses.replace(
      spoiled, tokens=jnp.where(is_unused, 1000, spoiled.tokens)
    )
    clean, spoiled = step(clean), step(spoiled)
  assert np.all(clean.is_done)
  np.testing.assert_array_equal(clean.lengths, spoiled.lengths)
  is_used = np.arange(10) < np.asarray(clean.lengths)[:, None]
  np.testing.assert_array_equal(
    clean.tokens, np.where(is_used, spoiled.tokens, 0)
  )
  np.testing.assert_array_equal(clean.log_probs, spoiled.log_probs)


def test_what_does_not_depend_on_the_output_never_changes():
  before = _prefill()
  _, _, after = _play(VERDICTS, 0)
  for one, other in zip(before, after, strict=True):
    fixed = [
      [
        [(layer.cross_attention, layer.bias_line) for layer in cache.layers],
        cache.bias_line,
        cache.encoder_mask,
      ]
      for cache in (one, other)
    ]
    assert len(jax.tree.leaves(fixed[0])) > 3
    jax.tree.map(np.testing.assert_array_equal, *fixed)
    # What does depend on it has changed.
    assert np.any(
      np.asarray(one.layers[0].self_attention.key)
      != np.asarray(other.layers[0].self_attention.key)
    )


# Distances are buckets of their own below 16, and one bucket from 128 on.
PREFIXES = np.array([0, 1, 15, 16, 127, 128, 129])
QUERIES = 5


@pytest.fixture(scope="module")
def long_decode():
  """The cache of a long sequence, and its logits without a cache."""
  model, params = T5.target, T5.target_params
  rows = len(PREFIXES)
  random = np.random.default_rng(0)
  length = int(PREFIXES[-1]) + QUERIES
  tokens = random.integers(2, 48, (rows, length)).astype(np.int32)
  tokens[:, 0] = 0
  inputs = jnp.asarray(toy.inputs(rows, 7))
  cache = jax.jit(model.prefill, static_argnums=2)(params, inputs, length).cache
  _, cache = jax.jit(model.extend)(
    params, tokens, np.zeros(rows, np.int32), cache
  )
  logits = np.asarray(_uncached(model, params, inputs, tokens))
  at = PREFIXES[:, None] + np.arange(QUERIES)
  return (
    cache,
    np.take_along_axis(tokens, at, axis=1),
    np.take_along_axis(logits, at[..., None], axis=1),
  )


def test_several_tokens_at_once_are_as_many_single_steps(long_decode):
  model, params = T5.target, T5.target_params
  cache, tokens, expected = long_decode
  extend = jax.jit(model.extend)
  positions = np.int32(PREFIXES)
  at_once, _ = extend(params, tokens, positions, cache)
  singles = []
  for i in range(QUERIES):
    logits, cache = extend(params, tokens[:, i : i + 1], positions + i, cache)
    singles.append(logits[:, 0])
  np.testing.assert_allclose(at_once, expected, atol=2e-5)
  np.testing.assert_allclose(np.stack(singles, 1), expected, atol=2e-5)


def test_a_rejected_token_leaves_nothing_behind(long_decode):
  # Overwriting, not adding: feed something else first.
  model, params = T5.target, T5.target_params
  cache, tokens, expected = long_decode
  extend = jax.jit(model.extend)
  positions = np.int32(PREFIXES)
  wrong, cache = extend(params, (tokens + 3) % 48, positions, cache)
  assert np.max(np.abs(np.asarray(wrong) - expected)) > 0.1
  again, _ = extend(params, tokens, positions, cache)
  np.testing.assert_allclose(again, expected, atol=2e-5)


@pytest.mark.parametrize(
  ("position", "written"), [(0, [0, 1, 2]), (3, [3, 4]), (4, [4]), (5, [])]
)
def test_writes_past_the_end_are_dropped(position, written):
  cache = KVCache.create(2, 2, 5, 3, "float32")
  new = 1.0 + np.arange(2 * 3 * 2 * 3).reshape(2, 3, 2, 3)
  after = cache.write(
    jnp.asarray(new), jnp.asarray(-new), jnp.array([position, 0])
  )
  key = np.asarray(after.key).transpose(0, 3, 1, 2)  # [B, L, H, K]
  value = np.asarray(after.value).transpose(0, 2, 1, 3)
  expected = np.zeros((2, 5, 2, 3))
  expected[1, :3] = new[1]
  expected[0, written] = new[0, : len(written)]
  np.testing.assert_array_equal(key, expected)
  np.testing.assert_array_equal(value, -expected)


@pytest.mark.parametrize("position", [0, 3])
def test_an_aligned_write_is_the_write_at_one_position(position):
  cache = KVCache(jnp.full((2, 4, 3, 5), 7.0), jnp.full((2, 4, 5, 3), 8.0))
  key, value = jax.random.normal(jax.random.key(2), (2, 2, 2, 4, 3))
  jax.tree.map(
    np.testing.assert_array_equal,
    cache.write_aligned(key, value, jnp.int32(position)),
    cache.write(key, value, jnp.full(2, position)),
  )


@dataclasses.dataclass(frozen=True)
class GuardedModel(toy.TableModel):
  """A table that remembers the farthest slot written, and its capacity."""

  def prefill(self, params, inputs, length):
    prefill = super().prefill(params, inputs, length)
    farthest = jnp.zeros((inputs.shape[0],), jnp.int32)
    return prefill._replace(cache=(prefill.cache, farthest))

  def extend(self, params, tokens, positions, cache):
    cache, farthest = cache
    logits, cache = super().extend(params, tokens, positions, cache)
    last = positions + tokens.shape[1] - 1
    return logits, (cache, jnp.maximum(farthest, last))


@pytest.mark.parametrize("gamma", [0, 3])
def test_no_write_is_ever_past_the_end(gamma):
  model = GuardedModel(5)
  pair = toy.table_pair()
  pair = dataclasses.replace(pair, target=model, draft=model).same
  run, inputs = speculative.prepare(
    jax.random.key(0),
    jnp.arange(7)[:, None],
    config=toy.config(
      gamma=gamma, max_new_tokens=(1, 2, 3, 4, 5, 6, 7), eos_id=-1
    ),
    **pair.models,
  )
  step = jax.jit(lambda state: speculative.step(run, state)[0])
  state = jax.jit(speculative.start)(run, inputs)
  while not np.all(state.is_done):
    state = step(state)
  state = step(state)  # Rows that are all done write as well.
  caches = [state.target_cache] + ([state.draft_cache] if gamma else [])
  for cache, farthest in caches:
    assert np.all(farthest < cache["fed"].shape[1])
    assert np.max(farthest) >= 7  # The last row did come to its end.
