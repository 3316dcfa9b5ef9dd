"""The network against transformers' own outputs; see tests/golden."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.lm import llama

CASES = ("gqa", "gqa_sharded", "linear", "llama3")
MODELS = ("gqa", "linear", "llama3")

decode, extend = (
  jax.jit(function, static_argnums=0)
  for function in (llama.LlamaModel.decode, llama.LlamaModel.extend)
)
prefill = jax.jit(llama.LlamaModel.prefill, static_argnums=(0, 3))


@pytest.fixture
def case(request, golden):
  """A model, its parameters, and what transformers made of them."""
  name = request.param
  with np.load(golden / f"{name.removesuffix('_sharded')}.npz") as arrays:
    return *llama.load(None, golden / name), dict(arrays)


def assert_agree(found, wanted, logits):
  np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * logits.std())


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_teacher_forced_logits(case):
  model, params, wanted = case
  logits = decode(model, params, wanted["tokens"])
  assert_agree(logits, wanted["logits"], wanted["logits"])


# Rows of different lengths in one batch; chunks of 8 are three of 7 tokens.
@pytest.mark.parametrize("chunk", [512, 8, 1])
@pytest.mark.parametrize("case", MODELS, indirect=True)
def test_prefill_and_extend(case, chunk):
  model, params, wanted = case
  model = dataclasses.replace(model, prefill_chunk=chunk)
  tokens, logits, lengths = wanted["tokens"], wanted["logits"], [7, 19]
  prompts = [row[:n] for row, n in zip(tokens, lengths, strict=True)]
  inputs = llama.pad_prompts(prompts, model.config)
  state = prefill(model, params, inputs, 64)
  np.testing.assert_array_equal(state.position, np.array(lengths) - 1)
  np.testing.assert_array_equal(state.token, [each[-1] for each in prompts])
  cache, start = state.cache, np.array(state.position)
  for width in (1, 5, 5, 1, 5):
    slots = start[:, None] + np.arange(width)
    found, cache = extend(
      model, params, np.take_along_axis(tokens, slots, 1), start, cache
    )
    assert_agree(found, np.take_along_axis(logits, slots[..., None], 1), logits)
    start = start + width


@pytest.mark.parametrize("chunk", [512, 4])
@pytest.mark.parametrize("case", MODELS, indirect=True)
def test_greedy_ids(case, chunk):
  model, params, wanted = case
  model = dataclasses.replace(model, prefill_chunk=chunk)
  greedy, lengths = wanted["greedy"], wanted["prompt_lengths"]
  output = sd.autoregressive_generate(
    jax.random.key(0),
    llama.pad_prompts(
      [row[:n] for row, n in zip(wanted["tokens"], lengths, strict=True)],
      model.config,
    ),
    model=model,
    params=params,
    config=sd.SpeculativeConfig(
      max_new_tokens=greedy.shape[1],
      eos_id=-1,
      sampling=sd.SamplingConfig(temperature=0.0),
    ),
  )
  np.testing.assert_array_equal(output.tokens, greedy)
  assert min(len(set(row)) for row in greedy.tolist()) > 4


@pytest.mark.parametrize("case", ["gqa"], indirect=True)
def test_bfloat16_compute(case, golden):
  _, _, wanted = case
  model, params = llama.load(None, golden / "gqa", dtype="bfloat16")
  layer = params["decoder"]["layers_0"]
  assert layer["self_attention"]["key"]["kernel"].dtype == jnp.bfloat16
  assert layer["pre_mlp_layer_norm"]["scale"].dtype == jnp.float32
  logits = decode(model, params, wanted["tokens"])
  assert logits.dtype == jnp.float32
  error = np.asarray(logits) - wanted["logits"]
  # bfloat16 keeps 8 bits; a wrong layer would err by the spread itself.
  assert 0 < error.std() < 0.1 * wanted["logits"].std()
