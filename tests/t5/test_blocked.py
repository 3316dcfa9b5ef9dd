"""Kernels in blocks: the same model, and no copy of a kernel in a step."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax import lm, t5
from specdec_jax.t5 import blocked

T5_1_1 = t5.T5Config(
  vocab_size=192,
  emb_dim=32,
  num_heads=2,
  head_dim=16,
  mlp_dim=64,
  num_encoder_layers=1,
  num_decoder_layers=2,
  mlp_activations=("gelu", "linear"),
  logits_via_embedding=False,
)
MODELS = {
  "t5_1_1": t5.T5Model(T5_1_1),
  "t5_1_0": t5.T5Model(
    dataclasses.replace(
      T5_1_1,
      head_dim=32,
      mlp_dim=96,
      num_decoder_layers=1,
      mlp_activations=("relu",),
      logits_via_embedding=True,
    )
  ),
  "lm": lm.LMModel(
    lm.LMConfig(
      vocab_size=192,
      emb_dim=32,
      num_heads=2,
      head_dim=16,
      mlp_dim=64,
      num_layers=2,
    )
  ),
  "llama": lm.llama.LlamaModel(
    lm.llama.LlamaConfig(
      vocab_size=192,
      emb_dim=32,
      num_heads=4,
      num_key_value_heads=2,
      head_dim=32,
      mlp_dim=64,
      num_layers=2,
    )
  ),
}


@pytest.fixture
def any_size(monkeypatch):
  """Blocks kernels of a test's size too."""
  monkeypatch.setattr(blocked, "_LEAST_ENTRIES", 1)


@pytest.mark.parametrize("columns", [64, 96, 144, 192])
@pytest.mark.parametrize("rows", [1, 2, 5, 16, 17, 40])
def test_the_product(rows, columns):
  keys = jax.random.split(jax.random.key(0), 2)
  x = jax.random.normal(keys[0], (rows, 48))
  kernel = jax.random.normal(keys[1], (48, columns))
  np.testing.assert_allclose(
    blocked.product(x, blocked._block(kernel)),
    np.asarray(x, np.float64) @ np.asarray(kernel, np.float64),
    atol=2e-5,
  )


def test_the_product_keeps_leading_dimensions():
  x = jax.random.normal(jax.random.key(0), (2, 3, 8))
  kernel = jax.random.normal(jax.random.key(1), (8, 64))
  np.testing.assert_allclose(
    blocked.product(x, blocked._block(kernel)), x @ kernel, atol=1e-5
  )


def test_a_row_does_not_depend_on_the_number_of_rows():
  keys = jax.random.split(jax.random.key(0), 2)
  x = jax.random.normal(keys[0], (blocked.MOST_ROWS, 384))
  blocks = blocked._block(jax.random.normal(keys[1], (384, 512)))
  product = jax.jit(blocked.product)
  all_rows = product(x, blocks)
  for rows in range(1, blocked.MOST_ROWS):
    np.testing.assert_array_equal(product(x[:rows], blocks), all_rows[:rows])


@pytest.mark.parametrize("name", MODELS)
def test_all_functions_of_a_model_are_the_same(name, any_size):
  model = MODELS[name]
  params = model.init(jax.random.key(0))
  laid_out = model.lay_out(params, "cpu")
  assert _leaf_names(laid_out) != _leaf_names(params)
  assert _entries(laid_out) == _entries(params)
  inputs = jnp.array([[5, 9, 17, 3], [7, 4, 0, 0]], jnp.int32)
  tokens = jnp.array([[3, 4, 9], [11, 2, 8]], jnp.int32)

  def scores(params):
    prefill = model.prefill(params, inputs, 8)
    logits, _ = model.extend(params, tokens, prefill.position, prefill.cache)
    last, _ = model.extend(
      params, tokens[:, :1], prefill.position, prefill.cache
    )
    if not isinstance(model, t5.T5Model):
      return logits, last, model.decode(params, tokens)
    encoded = model.encode(params, inputs)
    return logits, last, model.decode(params, encoded, inputs, tokens)

  for ours, theirs in zip(scores(laid_out), scores(params), strict=True):
    np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("name", MODELS)
def test_greedy_decoding_is_the_same(name, any_size):
  model = MODELS[name]
  params = model.init(jax.random.key(0))
  drafter = sd.model_drafter(model)
  laid_out = model.lay_out(params, "cpu")
  inputs = jnp.array([[5, 9, 17, 3], [7, 4, 0, 0]], jnp.int32)
  config = sd.SpeculativeConfig(
    gamma=3, max_new_tokens=12, sampling=sd.SamplingConfig(0.0)
  )

  def run(target_params, draft_params):
    return sd.speculative_generate(
      jax.random.key(0),
      inputs,
      target=model,
      target_params=target_params,
      drafter=drafter,
      draft_params=draft_params,
      config=config,
    ).tokens

  expected = run(params, params)
  np.testing.assert_array_equal(run(laid_out, laid_out), expected)
  np.testing.assert_array_equal(run(laid_out, params), expected)


@pytest.mark.parametrize(
  ("backend", "dtype"),
  [("tpu", "float32"), ("gpu", "float32"), ("cpu", "bfloat16")],
)
def test_elsewhere_kernels_stay_as_they_are(backend, dtype, any_size):
  model = t5.T5Model(dataclasses.replace(T5_1_1, dtype=dtype))
  params = model.init(jax.random.key(0))
  assert model.lay_out(params, backend) is params


def test_small_and_odd_kernels_stay_as_they_are(monkeypatch):
  model = MODELS["t5_1_1"]
  params = model.init(jax.random.key(0))
  assert _leaf_names(model.lay_out(params, "cpu")) == _leaf_names(params)

  monkeypatch.setattr(blocked, "_LEAST_ENTRIES", 1)
  odd = t5.T5Model(
    dataclasses.replace(
      T5_1_1, vocab_size=211, mlp_dim=72, num_decoder_layers=1
    )
  )
  names = _leaf_names(odd.lay_out(odd.init(jax.random.key(0)), "cpu"))
  assert "['decoder']['logits_dense']['kernel']" in names
  assert "['decoder']['layers_0']['mlp']['wi_0']['kernel']" in names
  assert "['decoder']['layers_0']['mlp']['wo']['blocks']" in names


@pytest.mark.skipif(
  jax.default_backend() != "cpu", reason="kernels are in blocks on CPUs"
)
@pytest.mark.parametrize("rows", [1, 5])
def test_a_step_copies_no_kernel(rows, any_size):
  model = MODELS["t5_1_1"]
  params = model.lay_out(model.init(jax.random.key(0)), "cpu")
  inputs = jnp.ones((1, 4), jnp.int32)
  prefill = model.prefill(params, inputs, 8)
  tokens = jnp.ones((1, rows), jnp.int32)
  compiled = (
    jax.jit(lambda *each: model.extend(*each)[0])
    .lower(params, tokens, prefill.position, prefill.cache)
    .compile()
  )
  # Of all that a step computes nothing is as large as its largest kernels, or
  # as an input of theirs that was written out once for each column.
  logits = params["decoder"]["logits_dense"]["blocks"]
  assert compiled.memory_analysis().temp_size_in_bytes < logits.nbytes


def _leaf_names(params):
  return [
    jax.tree_util.keystr(path)
    for path, _ in jax.tree_util.tree_leaves_with_path(params)
  ]


def _entries(params):
  return sum(each.size for each in jax.tree.leaves(params))
