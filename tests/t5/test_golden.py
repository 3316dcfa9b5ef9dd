"""The network against T5X's and Hugging Face's own outputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax import t5
from tests.t5.golden_cases import CASES, MODELS, Case, read_outputs

every_checkpoint = pytest.mark.parametrize("case", CASES, ids=str)
every_model = pytest.mark.parametrize("case", MODELS, ids=str)

# The model is static, so checkpoints of one shape share the compilation.
encode, decode, extend = (
  jax.jit(function, static_argnums=0)
  for function in (
    t5.T5Model.encode,
    t5.T5Model.decode,
    t5.T5Model.extend,
  )
)
prefill = jax.jit(t5.T5Model.prefill, static_argnums=(0, 3))


@every_checkpoint
def test_teacher_forced_logits(case: Case, golden):
  outputs = read_outputs(golden, case)
  model, params = t5.load(case.name, golden / case.path)
  encoded = encode(model, params, outputs.inputs)
  # At padded positions the libraries differ, and nobody looks.
  real = outputs.inputs > 0
  np.testing.assert_allclose(
    np.asarray(encoded)[real],
    outputs.encoded[real],
    rtol=0,
    atol=1e-5 * outputs.encoded.std(),
  )
  logits = decode(
    model, params, encoded, outputs.inputs, outputs.decoder_input_tokens
  )
  np.testing.assert_allclose(
    logits, outputs.logits, rtol=0, atol=outputs.tolerance
  )


@every_checkpoint
def test_greedy_ids(case: Case, golden):
  outputs = read_outputs(golden, case)
  model, params = t5.load(case.name, golden / case.path)
  output = sd.autoregressive_generate(
    jax.random.key(0),
    outputs.inputs,
    model=model,
    params=params,
    config=sd.SpeculativeConfig(
      max_new_tokens=outputs.greedy.shape[1],
      sampling=sd.SamplingConfig(temperature=0.0),
    ),
  )
  np.testing.assert_array_equal(output.tokens, outputs.greedy)


# Prefixes of these widths end at each edge of the buckets: 1, 15, 16, 127,
# 128 and 129. Few different widths, because each is compiled.
WIDTHS = [1, *(2 * [7]), 1, *(15 * [7]), *(8 * [1]), 7, *(4 * [1])]


@every_model
def test_extend_after_prefixes(case: Case, golden):
  outputs = read_outputs(golden, case)
  model, params = t5.load(case.name, golden / case.path)
  tokens = outputs.decoder_input_tokens
  cache = prefill(model, params, outputs.inputs, tokens.shape[1]).cache
  start = 0
  for width in WIDTHS:
    end = start + width
    logits, cache = extend(
      model, params, tokens[:, start:end], jnp.full(2, start), cache
    )
    np.testing.assert_allclose(
      logits, outputs.logits[:, start:end], rtol=0, atol=outputs.tolerance
    )
    start = end
  assert start == tokens.shape[1]


@every_model
@pytest.mark.parametrize("width", [1, 7])
def test_extend_at_positions_of_each_row(case: Case, width, golden):
  """Rows stand at different bucket edges; the cache is written over."""
  outputs = read_outputs(golden, case)
  model, params = t5.load(case.name, golden / case.path)
  tokens = outputs.decoder_input_tokens
  cache = prefill(model, params, outputs.inputs, tokens.shape[1]).cache
  for start in range(0, tokens.shape[1], 7):
    _, cache = extend(
      model,
      params,
      tokens[:, start : start + 7],
      jnp.full(2, start),
      cache,
    )
  for positions in ((0, 129), (1, 128), (15, 16), (127, 0), (133, 1)):
    each = [slice(start, start + width) for start in positions]
    step = np.stack([tokens[row, at] for row, at in enumerate(each)])
    logits, cache = extend(model, params, step, jnp.asarray(positions), cache)
    for row, at in enumerate(each):
      np.testing.assert_allclose(
        logits[row],
        outputs.logits[row, at],
        rtol=0,
        atol=outputs.tolerance,
      )


def test_logits_of_version_1_0_are_scaled(golden):
  """Spelled out, since greedy ids do not tell."""
  case = CASES[4]
  model, params = t5.load(case.name, golden / case.path)
  assert model.config.logits_via_embedding
  hidden = jnp.eye(model.config.emb_dim)[None]
  logits = model.module.apply(
    {"params": params}, hidden, method=lambda module, y: module._logits(y)
  )
  embedding = params["token_embedder"]["embedding"]
  np.testing.assert_allclose(
    logits[0], embedding.T / model.config.emb_dim**0.5, rtol=1e-6
  )


def test_bfloat16_checkpoint_is_the_rounded_one(golden):
  """The checkpoint that T5X saved in bfloat16."""
  path = "t5_1_1_tiny/checkpoint_1000"
  _, params = t5.load(MODELS[3].name, golden / "t5x/legacy" / path)
  _, rounded = t5.load(MODELS[3].name, golden / "t5x/legacy_bf16" / path)

  def compare(value, stored):
    assert stored.dtype == jnp.float32
    np.testing.assert_array_equal(
      value.astype(jnp.bfloat16).astype(jnp.float32), stored
    )

  jax.tree.map(compare, params, rounded)


@pytest.mark.parametrize("case", MODELS[:2], ids=str)
def test_bfloat16_compute(case: Case, golden):
  outputs = read_outputs(golden, case)
  model, params = t5.load(case.name, golden / case.path, dtype="bfloat16")
  assert model.config.dtype == "bfloat16"
  encoded = encode(model, params, outputs.inputs)
  logits = decode(
    model, params, encoded, outputs.inputs, outputs.decoder_input_tokens[:, :16]
  )
  assert encoded.dtype == jnp.bfloat16
  assert logits.dtype == jnp.float32
  error = np.asarray(logits) - outputs.logits[:, :16]
  # bfloat16 keeps 8 bits; a wrong layer would err by the spread itself.
  assert error.std() < 0.1 * outputs.logits.std()
