"""Prefill, in chunks or not, and cached steps are the sequence's own logits."""

import dataclasses

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.kv_cache import KVCache
from specdec_jax.lm import llama
from specdec_jax.lm.llama import LlamaModel
from tests.lm import tiny as lm_tiny
from tests.lm.llama import tiny

LENGTHS = (1, 2, 7, 20, 41)
STEPS = 5
TARGET, CONFIG = tiny.TARGET, tiny.TARGET.config
PARAMS = lm_tiny.params(TARGET)
PROMPTS = tiny.prompts(LENGTHS)
INPUTS = llama.pad_prompts(PROMPTS, CONFIG)
NEW = np.random.default_rng(2).integers(2, tiny.VOCAB, (len(LENGTHS), STEPS))
READ = llama.pad_prompts(
  [[*prompt, *new] for prompt, new in zip(PROMPTS, NEW.tolist(), strict=True)],
  CONFIG,
)
LAST = np.array(LENGTHS) - 1
TOKENS = lm_tiny.at(READ[..., None], LAST, STEPS)[..., 0]
PREFILL = jax.jit(LlamaModel.prefill, static_argnums=(0, 3))
EXTEND = jax.jit(LlamaModel.extend, static_argnums=0)


@pytest.fixture(scope="module")
def expected():
  return lm_tiny.at(lm_tiny.decode(TARGET, PARAMS, READ), LAST, STEPS)


@pytest.fixture(scope="module", params=[512, 8, 3])
def prefill(request):
  """In one pass of 41 tokens, in 6 of 7, in 14 of 3."""
  model = tiny.in_chunks(TARGET, request.param)
  return PREFILL(model, PARAMS, INPUTS, STEPS)


def _steps(prefill, sizes, model=TARGET, params=PARAMS):
  """Logits of all tokens, fed in calls of these sizes."""
  cache, done, logits = prefill.cache, 0, []
  for size in sizes:
    tokens = TOKENS[:, done : done + size]
    some, cache = EXTEND(model, params, tokens, prefill.position + done, cache)
    logits.append(some)
    done += size
  assert done == STEPS
  return np.concatenate(logits, axis=1)


def test_each_row_goes_on_from_its_own_end(prefill):
  np.testing.assert_array_equal(prefill.position, LAST)
  np.testing.assert_array_equal(prefill.token, TOKENS[:, 0])
  for layer in prefill.cache:
    # Keys and values are kept once per head of theirs.
    assert layer.key.shape[:3] == (len(LENGTHS), 2, 8)
    assert layer.value.shape[1] == 2


# All five at once use the cache up to its last slot.
@pytest.mark.parametrize("sizes", [(1,) * 5, (5,), (2, 3)])
def test_cached_steps_are_the_whole_sequence(sizes, prefill, expected):
  np.testing.assert_allclose(_steps(prefill, sizes), expected, atol=3e-5)


def test_chunks_leave_the_cache_of_one_pass(prefill):
  whole = PREFILL(TARGET, PARAMS, INPUTS, STEPS)
  is_read = np.arange(INPUTS.shape[1]) < np.array(LENGTHS)[:, None]
  width = INPUTS.shape[1]
  for one, other in zip(prefill.cache, whole.cache, strict=True):
    for key in (one, other):
      assert key.key.shape[3] >= width + STEPS - 1
    np.testing.assert_allclose(
      np.moveaxis(one.key[..., :width], 3, 1)[is_read],
      np.moveaxis(other.key[..., :width], 3, 1)[is_read],
      atol=1e-5,
    )
    np.testing.assert_allclose(
      np.moveaxis(one.value[:, :, :width], 2, 1)[is_read],
      np.moveaxis(other.value[:, :, :width], 2, 1)[is_read],
      atol=1e-5,
    )


def test_no_token_sees_what_follows(expected):
  changed = READ.copy()
  for row, last in enumerate(LAST):
    changed[row, last + 3 :] = 7
  logits = lm_tiny.decode(TARGET, PARAMS, changed)
  found = lm_tiny.at(logits, LAST, STEPS)
  np.testing.assert_array_equal(found[:, :3], expected[:, :3])
  assert np.all(np.any(found[:, 3:] != expected[:, 3:], axis=(1, 2)))


def test_a_rejected_token_leaves_nothing_behind(prefill, expected):
  wrong, cache = EXTEND(
    TARGET,
    PARAMS,
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

  return prefill._replace(cache=tuple(map(spoil, prefill.cache)))


def test_what_lies_behind_a_rows_end_is_never_seen(prefill):
  clean = _steps(prefill, (2, 3))
  spoiled = _steps(_spoiled(prefill, prefill.position), (2, 3))
  np.testing.assert_array_equal(spoiled, clean)
  # A slot that is in use feels the poison.
  felt = _steps(_spoiled(prefill, prefill.position - 1), (2, 3))
  differs = np.any(felt != clean, axis=(1, 2))
  np.testing.assert_array_equal(differs, LAST > 0)


@pytest.mark.parametrize(("row", "width"), [(0, 1), (2, 9)])
def test_neither_padding_nor_neighbours_matter(row, width, expected):
  alone = PREFILL(TARGET, PARAMS, INPUTS[row : row + 1, :width], STEPS)
  assert (alone.token, alone.position) == (TOKENS[row, 0], LAST[row])
  tokens = TOKENS[row : row + 1]
  logits, _ = EXTEND(TARGET, PARAMS, tokens, alone.position, alone.cache)
  np.testing.assert_allclose(logits[0], expected[row], atol=3e-5)


def test_the_pad_id_inside_a_prompt_is_a_token_and_alone_is_bos():
  inputs = np.full((3, 5), tiny.BOS)
  inputs[0, :3], inputs[1, 3] = (5, tiny.BOS, 7), 4
  prefill = PREFILL(TARGET, PARAMS, inputs, STEPS)
  np.testing.assert_array_equal(prefill.position, [2, 3, 0])
  np.testing.assert_array_equal(prefill.token, [7, 4, tiny.BOS])
  logits, _ = EXTEND(
    TARGET, PARAMS, prefill.token[:, None], prefill.position, prefill.cache
  )
  whole = lm_tiny.decode(TARGET, PARAMS, inputs)
  np.testing.assert_allclose(
    logits, lm_tiny.at(whole, prefill.position, 1), atol=3e-5
  )


def test_another_pad_id_may_be_chosen():
  config = dataclasses.replace(CONFIG, pad_id=0)
  model = LlamaModel(config)
  inputs = llama.pad_prompts([[1, 9, 1], [1]], config)
  assert inputs.tolist() == [[1, 9, 1], [1, 0, 0]]
  prefill = PREFILL(model, PARAMS, inputs, STEPS)
  np.testing.assert_array_equal(prefill.position, [2, 0])


def test_heads_that_share_keys_are_heads_with_equal_keys():
  own = LlamaModel(dataclasses.replace(CONFIG, num_key_value_heads=4))

  def repeated(path, leaf):
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    if not name.endswith(("/key/kernel", "/value/kernel")):
      return leaf
    heads = leaf.reshape(leaf.shape[0], 2, 8)
    return jnp.repeat(heads, 2, axis=1).reshape(leaf.shape[0], -1)

  params = jax.tree_util.tree_map_with_path(repeated, PARAMS)
  np.testing.assert_allclose(
    lm_tiny.decode(own, params, READ),
    lm_tiny.decode(TARGET, PARAMS, READ),
    atol=3e-5,
  )


def _arrays(jaxpr):
  """The shapes of all that a program computes, to the bottom."""
  for equation in jaxpr.eqns:
    for each in equation.outvars:
      yield tuple(each.aval.shape)
    for inner in jax.extend.core.jaxprs_in_params(equation.params):
      yield from _arrays(inner)


def _largest(function, *arguments):
  shapes = set(_arrays(jax.make_jaxpr(function)(*arguments).jaxpr))
  return max(map(np.prod, shapes))


def test_a_step_writes_no_key_out_for_each_query_head():
  # A cache so long that nothing else is of its size.
  batch, length = 2, 4000
  prefill = jax.eval_shape(
    lambda: TARGET.prefill(PARAMS, jnp.ones((batch, 3), jnp.int32), 200)
  )
  cache = tuple(
    KVCache.create(batch, 2, length, 8, jnp.float32) for _ in prefill.cache
  )
  tokens, positions = jnp.ones((batch, 3), jnp.int32), jnp.zeros(batch, int)

  def step(tokens, positions, cache):
    return TARGET.extend(PARAMS, tokens, positions, cache)

  assert _largest(step, tokens, positions, cache) == cache[0].key.size


def test_the_memory_of_scores_follows_from_the_chunk():
  inputs = jnp.ones((1, 200), jnp.int32)

  def largest(chunk):
    model = tiny.in_chunks(TARGET, chunk)
    return _largest(lambda x: model.prefill(PARAMS, x, 5).cache, inputs)

  slots, heads = 204, 4
  assert largest(512) == heads * 200 * slots
  assert largest(20) == heads * 20 * slots


def test_more_positions_than_the_model_has_are_refused():
  inputs = jnp.full((1, 200), 5, jnp.int32)
  jax.eval_shape(lambda: TARGET.prefill(PARAMS, inputs, 57))
  with pytest.raises(
    ValueError, match=r"200 tokens wide, and 58 positions .* 256 positions"
  ):
    jax.eval_shape(lambda: TARGET.prefill(PARAMS, inputs, 58))


def test_a_chunk_of_nothing_is_refused():
  with pytest.raises(ValueError, match="prefill_chunk is 0; .* at least 1"):
    tiny.in_chunks(TARGET, 0)


def test_bfloat16(expected):
  model = LlamaModel(dataclasses.replace(CONFIG, dtype="bfloat16"), 8)
  prefill = PREFILL(model, PARAMS, INPUTS, STEPS)
  assert prefill.cache[0].key.dtype == jnp.bfloat16
  whole = lm_tiny.decode(model, PARAMS, READ)
  assert whole.dtype == jnp.float32
  found = _steps(prefill, (5,), model)
  assert found.dtype == np.float32
  for one, other in (
    (found, lm_tiny.at(whole, LAST, STEPS)),
    (found, expected),
  ):
    assert np.sqrt(np.mean((one - other) ** 2)) < 0.03 * np.std(expected)
  assert np.any(found != expected)


def test_shared_embeddings_do_not_scale_the_logits():
  tied = LlamaModel(dataclasses.replace(CONFIG, logits_via_embedding=True))
  params = lm_tiny.params(tied)
  embedding = params["decoder"]["token_embedder"]["embedding"]
  untied = {
    "decoder": {**params["decoder"], "logits_dense": {"kernel": embedding.T}}
  }
  np.testing.assert_allclose(
    lm_tiny.decode(tied, params, READ),
    lm_tiny.decode(TARGET, untied, READ),
    atol=1e-4,
  )


def test_every_parameter_learns_and_dropout_acts_in_training_only():
  model = LlamaModel(dataclasses.replace(CONFIG, dropout_rate=0.5))
  tokens = jnp.asarray(READ[-1:, :24])

  @jax.jit
  def loss(params, key):
    logits = model.module.apply(
      {"params": params}, tokens, deterministic=False, rngs={"dropout": key}
    )
    return jnp.mean(jax.nn.log_softmax(logits)[..., 0])

  first, again, other = (
    loss(PARAMS, jax.random.key(seed)) for seed in (0, 0, 1)
  )
  assert first == again
  assert first != other
  for leaf in jax.tree.leaves(jax.grad(loss)(PARAMS, jax.random.key(0))):
    assert np.any(leaf != 0)
  np.testing.assert_array_equal(
    lm_tiny.decode(model, PARAMS, READ), lm_tiny.decode(TARGET, PARAMS, READ)
  )
