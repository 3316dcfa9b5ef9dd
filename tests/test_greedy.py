"""At temperature 0 speculation changes no token."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax import t5
from tests import toy

STEPS = 12
# Of one shape, so that any parameters are a draft for any others.
T5 = toy.Pair(
  toy.T5_DRAFT,
  toy.t5_params(toy.T5_DRAFT, 0),
  toy.T5_DRAFT,
  toy.disturbed_params(toy.T5_DRAFT, 0, 0.1),
)

# Every row runs to its budget.
ALWAYS = {"temperature": 0.0, "max_new_tokens": STEPS, "eos_id": -1}


def _oracle(model, params, inputs, tokens):
  """The argmax after each prefix of the tokens, without a cache."""

  @jax.jit
  def decode(params, inputs, shifted):
    encoded = model.encode(params, inputs)
    return model.decode(params, encoded, inputs, shifted)

  shifted = jnp.pad(tokens[:, :-1], ((0, 0), (1, 0)))
  return np.argmax(np.asarray(decode(params, jnp.asarray(inputs), shifted)), -1)


def _assert_same(output, baseline):
  np.testing.assert_array_equal(output.tokens, baseline.tokens)
  np.testing.assert_array_equal(output.lengths, baseline.lengths)
  np.testing.assert_allclose(
    output.log_probs, baseline.log_probs, rtol=1e-4, atol=1e-4
  )


def test_the_baseline_is_the_argmax_of_the_uncached_decoder():
  inputs = toy.inputs(3, 9)
  baseline = T5.baseline(inputs, **ALWAYS)
  np.testing.assert_array_equal(
    baseline.tokens,
    _oracle(T5.target, T5.target_params, inputs, baseline.tokens),
  )
  # Outputs that differ from row to row and are not one token repeated.
  assert len({tuple(row) for row in baseline.tokens.tolist()}) == 3
  assert len(set(baseline.tokens[0].tolist())) > 2


@pytest.mark.parametrize("gamma", range(1, 9))
def test_speculation_is_the_baseline_token_for_token(gamma):
  inputs = toy.inputs(3, 9)
  baseline = T5.baseline(inputs, **ALWAYS)
  rates = []
  for params in (
    T5.draft_params,
    toy.t5_params(T5.draft, 7),
    T5.target_params,
  ):
    pair = dataclasses.replace(T5, draft_params=params)
    output = pair.speculative(inputs, gamma=gamma, **ALWAYS)
    _assert_same(output, baseline)
    rates.append(sd.acceptance_rate(output.stats))
  # A draft that is often right, one that is mostly wrong, one always right.
  assert 0.3 < rates[0] < 1
  assert rates[1] < 0.3
  assert rates[2] == 1


@pytest.mark.parametrize("batch", [1, 16])
def test_any_batch_and_a_draft_of_another_depth(batch):
  pair = dataclasses.replace(
    T5,
    target=toy.T5_TARGET,
    target_params=toy.t5_params(toy.T5_TARGET, 0),
  )
  inputs = toy.inputs(batch, 9)
  baseline = pair.baseline(inputs, **ALWAYS)
  output = pair.speculative(inputs, gamma=4, **ALWAYS)
  _assert_same(output, baseline)
  assert 0 < sd.acceptance_rate(output.stats) < 1


def test_ties_go_to_the_lowest_id():
  # The upper half of the vocabulary has the logits of the lower half.
  params = jax.tree.map(lambda x: x, T5.target_params)
  kernel = params["decoder"]["logits_dense"]["kernel"]
  half = kernel[:, : kernel.shape[1] // 2]
  params["decoder"]["logits_dense"]["kernel"] = jnp.tile(half, (1, 2))
  pair = dataclasses.replace(T5, target_params=params)
  inputs = toy.inputs(3, 9)
  baseline = pair.baseline(inputs, **ALWAYS)
  assert np.all(np.asarray(baseline.tokens) < half.shape[1])
  np.testing.assert_array_equal(
    baseline.tokens,
    _oracle(pair.target, params, inputs, baseline.tokens),
  )
  _assert_same(pair.speculative(inputs, gamma=4, **ALWAYS), baseline)


@pytest.mark.parametrize("prompted", [False, True])
@pytest.mark.parametrize("order", [1, 2])
def test_ngrams_change_no_token(order, prompted):
  pair = toy.ngram_pair(seed=4, ngram_order=order, prompted=prompted)
  inputs = toy.inputs(4, 5, vocab_size=5)
  baseline = pair.baseline(inputs, **ALWAYS)
  output = pair.speculative(inputs, gamma=3, **ALWAYS)
  _assert_same(output, baseline)
  assert 0 < sd.acceptance_rate(output.stats) < 1


@pytest.mark.parametrize("prompted", [False, True])
def test_tables_full_of_ties(prompted):
  pair = toy.table_pair(seed=5, prompted=prompted)
  pair = dataclasses.replace(
    pair,
    target_params=jnp.round(pair.target_params),
    draft_params=jnp.round(pair.draft_params),
  )
  inputs = toy.inputs(4, 5, vocab_size=5)
  table = np.asarray(pair.target_params)
  chains = []
  for row in inputs:
    begin = row[row > 0].tolist() if prompted else [0]
    tokens = list(begin)
    for _ in range(STEPS):
      logits = table[row.sum() % len(table), pair.target.context(tokens)]
      tokens.append(int(np.argmax(logits)))
    chains.append(tokens[len(begin) :])
  assert len({tuple(chain) for chain in chains}) > 1
  baseline = pair.baseline(inputs, **ALWAYS)
  np.testing.assert_array_equal(baseline.tokens, chains)
  _assert_same(pair.speculative(inputs, gamma=3, **ALWAYS), baseline)


def test_bfloat16_strays_to_near_ties_only():
  model = t5.T5Model(dataclasses.replace(T5.target.config, dtype="bfloat16"))
  pair = dataclasses.replace(T5, target=model, draft=model)
  inputs = toy.inputs(3, 9)
  output = pair.speculative(inputs, gamma=3, **ALWAYS)

  # Every token is judged by the one-token path, given those before it.
  prefill = model.prefill(T5.target_params, jnp.asarray(inputs), STEPS)
  extend = jax.jit(model.extend)
  cache, fed, gaps = prefill.cache, prefill.token, []
  random = np.random.default_rng(0)
  other_gaps = []
  for i in range(STEPS):
    logits, cache = extend(
      T5.target_params, fed[:, None], prefill.position + i, cache
    )
    logits = np.asarray(logits[:, 0])
    ulp = np.max(np.abs(logits), axis=1) * 2.0**-8
    fed = output.tokens[:, i]
    highest = np.max(logits, axis=1)
    gaps.append((highest - logits[np.arange(3), fed]) / ulp)
    other = random.integers(0, model.vocab_size, 3)
    other_gaps.append((highest - logits[np.arange(3), other]) / ulp)
  assert np.max(gaps) <= 4
  assert np.median(other_gaps) > 40  # The measure tells tokens apart.
