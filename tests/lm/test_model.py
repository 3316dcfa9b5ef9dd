"""Prefill and cached steps are the whole sequence's own logits."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.kv_cache import KVCache
from specdec_jax.lm import LMModel
from tests.lm import tiny

# Distances are buckets of their own below 16, and one bucket from 128 on.
LENGTHS = (0, 1, 14, 15, 16, 127, 128, 129)
STEPS = 5
INPUTS = tiny.prompts(LENGTHS)
NEW = np.random.default_rng(2).integers(2, tiny.VOCAB, (len(LENGTHS), STEPS))
READ = tiny.sequences(INPUTS, LENGTHS, NEW)
# The first input of a step is the prompt's last token.
TOKENS = np.take_along_axis(
  READ, np.array(LENGTHS)[:, None] + np.arange(STEPS), axis=1
)
PREFILL = jax.jit(LMModel.prefill, static_argnums=(0, 3))
EXTEND = jax.jit(LMModel.extend, static_argnums=0)


@pytest.fixture(scope="module")
def expected():
  logits = tiny.decode(tiny.TARGET, tiny.params(tiny.TARGET), READ)
  return tiny.at(logits, LENGTHS, STEPS)


@pytest.fixture(scope="module")
def prefill():
  return PREFILL(tiny.TARGET, tiny.params(tiny.TARGET), INPUTS, STEPS)


def _steps(prefill, sizes, model=tiny.TARGET, params=None):
  """Logits of all tokens, fed in calls of these sizes."""
  params = params or tiny.params(model)
  cache, done, logits = prefill.cache, 0, []
  for size in sizes:
    some, cache = EXTEND(
      model,
      params,
      TOKENS[:, done : done + size],
      prefill.position + done,
      cache,
    )
    logits.append(some)
    done += size
  assert done == STEPS
  return np.concatenate(logits, axis=1)


def test_each_row_goes_on_from_its_own_end(prefill):
  np.testing.assert_array_equal(prefill.position, LENGTHS)
  np.testing.assert_array_equal(prefill.token, TOKENS[:, 0])
  # After an empty prompt comes the first token of a text.
  assert prefill.token[0] == 0
  for leaf in jax.tree.leaves(prefill.cache):
    assert leaf.shape[0] == len(LENGTHS)


# All five at once use the cache up to its last slot.
@pytest.mark.parametrize("sizes", [(1,) * 5, (5,), (2, 3)])
def test_cached_steps_are_the_whole_sequence(sizes, prefill, expected):
  np.testing.assert_allclose(_steps(prefill, sizes), expected, atol=3e-5)


def test_no_token_sees_what_follows(expected):
  changed = READ.copy()
  for row, length in enumerate(LENGTHS):
    changed[row, length + 2 :] = 7
  logits = tiny.decode(tiny.TARGET, tiny.params(tiny.TARGET), changed)
  found = tiny.at(logits, LENGTHS, STEPS)
  np.testing.assert_array_equal(found[:, :2], expected[:, :2])
  assert np.all(np.any(found[:, 2:] != expected[:, 2:], axis=(1, 2)))


def test_a_rejected_token_leaves_nothing_behind(prefill, expected):
  wrong, cache = EXTEND(
    tiny.TARGET,
    tiny.params(tiny.TARGET),
    (TOKENS + 3) % tiny.VOCAB,
    prefill.position,
    prefill.cache,
  )
  assert np.max(np.abs(np.asarray(wrong) - expected)) > 0.1
  again = _steps(prefill._replace(cache=cache), (2, 3))
  np.testing.assert_allclose(again, expected, atol=3e-5)


def _spoiled(prefill, firsts):
  """Puts 1000 in all slots from each row's first one on."""
  firsts = jnp.asarray(firsts)[:, None, None]

  def spoil(layer):
    is_spoiled = jnp.arange(layer.key.shape[3]) >= firsts
    return KVCache(
      jnp.where(is_spoiled[:, :, None], 1e3, layer.key),
      jnp.where(is_spoiled[..., None], 1e3, layer.value),
    )

  layers = tuple(map(spoil, prefill.cache.layers))
  return prefill._replace(
    cache=dataclasses.replace(prefill.cache, layers=layers)
  )


def test_what_lies_behind_a_rows_end_is_never_seen(prefill):
  clean = _steps(prefill, (2, 3))
  spoiled = _steps(_spoiled(prefill, prefill.position), (2, 3))
  np.testing.assert_array_equal(spoiled, clean)
  # A slot that is in use feels the poison.
  felt = _steps(_spoiled(prefill, prefill.position - 1), (2, 3))
  differs = np.any(felt != clean, axis=(1, 2))
  np.testing.assert_array_equal(differs, np.array(LENGTHS) > 0)


@pytest.mark.parametrize(("row", "width"), [(0, 1), (4, 140)])
def test_neither_padding_nor_neighbours_matter(row, width, prefill):
  alone = PREFILL(
    tiny.TARGET,
    tiny.params(tiny.TARGET),
    np.pad(INPUTS[row : row + 1], ((0, 0), (0, 20)))[:, :width],
    STEPS,
  )
  assert (alone.token, alone.position) == (TOKENS[row, 0], LENGTHS[row])
  logits, _ = EXTEND(
    tiny.TARGET,
    tiny.params(tiny.TARGET),
    TOKENS[row : row + 1],
    alone.position,
    alone.cache,
  )
  together = _steps(prefill, (5,))
  np.testing.assert_allclose(logits[0], together[row], atol=3e-5)


def test_a_zero_inside_a_prompt_is_a_token():
  inputs = np.zeros_like(INPUTS)
  inputs[0, :3], inputs[1, :3] = (5, 0, 7), (0, 0, 3)
  params = tiny.params(tiny.TARGET)
  prefill = PREFILL(tiny.TARGET, params, inputs, STEPS)
  np.testing.assert_array_equal(prefill.position[:3], [3, 3, 0])
  np.testing.assert_array_equal(prefill.token[:3], [7, 3, 0])
  logits, _ = EXTEND(
    tiny.TARGET,
    params,
    prefill.token[:, None],
    prefill.position,
    prefill.cache,
  )
  read = np.zeros_like(READ)
  read[:, 1 : 1 + inputs.shape[1]] = inputs
  whole = tiny.decode(tiny.TARGET, params, read)
  np.testing.assert_allclose(
    logits, tiny.at(whole, prefill.position, 1), atol=3e-5
  )


def test_bfloat16(expected):
  model = LMModel(dataclasses.replace(tiny.TARGET.config, dtype="bfloat16"))
  params = tiny.params(tiny.TARGET)
  prefill = PREFILL(model, params, INPUTS, STEPS)
  assert prefill.cache.layers[0].key.dtype == jnp.bfloat16
  whole = tiny.decode(model, params, READ)
  assert whole.dtype == jnp.float32
  found = _steps(prefill, (5,), model, params)
  assert found.dtype == np.float32
  scale = np.std(expected)
  for one, other in (
    (found, tiny.at(whole, LENGTHS, STEPS)),
    (found, expected),
  ):
    assert np.sqrt(np.mean((one - other) ** 2)) < 0.03 * scale
  assert np.any(found != expected)


def test_initial_values():
  params = tiny.DRAFT.init(jax.random.key(0))
  assert jax.tree.map(jnp.shape, params) == jax.tree.map(
    jnp.shape, tiny.params(tiny.DRAFT)
  )
  decoder = params["decoder"]
  np.testing.assert_array_equal(decoder["decoder_norm"]["scale"], 1)
  assert 0.9 < np.std(decoder["token_embedder"]["embedding"]) < 1.1
  attention = decoder["layers_0"]["self_attention"]
  query, key = (np.std(attention[each]["kernel"]) for each in ("query", "key"))
  # T5 folds attention's 1 / sqrt(head_dim) into the query.
  assert 0.2 < query / key < 0.5


def test_shared_embeddings_scale_the_logits():
  config = dataclasses.replace(tiny.TARGET.config, logits_via_embedding=True)
  tied = LMModel(config)
  params = tiny.params(tied)
  # The same as a matrix of its own.
  embedding = params["decoder"]["token_embedder"]["embedding"]
  kernel = embedding.T * config.emb_dim**-0.5
  untied = {
    "decoder": {**params["decoder"], "logits_dense": {"kernel": kernel}}
  }
  np.testing.assert_allclose(
    tiny.decode(tied, params, READ),
    tiny.decode(tiny.TARGET, untied, READ),
    atol=3e-5,
  )


def test_dropout_acts_in_training_only_and_every_parameter_learns():
  model, params = tiny.TARGET, tiny.params(tiny.TARGET)
  tokens = jnp.asarray(READ[-1:, :24])

  @jax.jit
  def loss(params, key):
    logits = model.module.apply(
      {"params": params},
      tokens,
      deterministic=False,
      rngs={"dropout": key},
    )
    return jnp.mean(jax.nn.log_softmax(logits)[..., 0])

  first, again, other = (
    loss(params, jax.random.key(seed)) for seed in (0, 0, 1)
  )
  assert first == again
  assert first != other
  for leaf in jax.tree.leaves(jax.grad(loss)(params, jax.random.key(0))):
    assert np.any(leaf != 0)
