"""alpha from both laws: against tables, an uncached oracle, and counts."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax import analysis
from specdec_jax.acceptance import row_sums
from specdec_jax.sampling import make_sampler
from specdec_jax.verification import apply_rule
from tests import toy
from tests.enumeration import outcomes, standardise

SAMPLINGS = {
  "plain": sd.SamplingConfig(),
  "cool": sd.SamplingConfig(temperature=0.5),
  "filtered": sd.SamplingConfig(temperature=0.8, top_k=4, top_p=0.9),
  "greedy": sd.SamplingConfig(temperature=0.0),
}


LENIENCES = (1.0, 0.5, 0.1, 0.0)
RULE = functools.partial(apply_rule, lenience=0.5)


def betas_of(pair, inputs, tokens, sampling, **options):
  return np.asarray(
    sd.acceptance_probabilities(
      jnp.asarray(inputs),
      jnp.asarray(tokens),
      sampling=sampling,
      **pair.models,
      **options,
    )
  )


@pytest.mark.parametrize("name", SAMPLINGS)
@pytest.mark.parametrize("prompted", [False, True])
def test_beta_is_what_both_tables_share(name, prompted):
  pair = toy.table_pair(vocab_size=6, prompted=prompted)
  sampling = SAMPLINGS[name]
  inputs = np.array([[3, 4, 2], [5, 0, 0], [2, 2, 0]])
  output = pair.baseline(
    inputs, key=3, max_new_tokens=7, eos_id=-1, **dataclasses.asdict(sampling)
  )
  tokens = np.asarray(output.tokens)
  found = betas_of(pair, inputs, tokens, sampling)
  tables = [
    standardise(params, sampling)
    for params in (pair.target_params, pair.draft_params)
  ]
  for row, prompt in enumerate(inputs):
    source = prompt.sum() % len(pair.target_params)
    seen = prompt[prompt > 0].tolist() if prompted else [0]
    for t, token in enumerate(tokens[row]):
      context = pair.target.context(seen)
      p, q = (table[source, context] for table in tables)
      assert found[row, t] == pytest.approx(np.minimum(p, q).sum(), abs=1e-5)
      assert found[row, t] == pytest.approx(
        analysis.shared_mass(p, q), abs=1e-5
      )
      seen.append(int(token))
  if name == "greedy":
    assert set(np.unique(found)) == {0.0, 1.0}


@pytest.mark.parametrize("name", ["plain", "filtered", "greedy"])
def test_beta_of_a_t5_is_that_of_its_whole_decode(name):
  """Teacher forcing through the cache is the decode that has none."""
  sampling = SAMPLINGS[name]
  pair = toy.Pair(
    toy.T5_TARGET,
    toy.t5_params(toy.T5_TARGET, 0),
    toy.T5_DRAFT,
    toy.t5_params(toy.T5_DRAFT, 1),
  )
  inputs = jnp.asarray(toy.inputs(3, 6))
  tokens = jnp.asarray(
    np.random.default_rng(0).integers(2, 48, (3, 5)), jnp.int32
  )
  fed = jnp.pad(tokens[:, :-1], ((0, 0), (1, 0)))

  def probs(model, params):
    logits = model.decode(params, model.encode(params, inputs), inputs, fed)
    return standardise(np.asarray(logits), sampling)

  p = probs(pair.target, pair.target_params)
  q = probs(pair.draft, pair.draft_params)
  np.testing.assert_allclose(
    betas_of(pair, inputs, tokens, sampling),
    np.minimum(p, q).sum(-1),
    atol=2e-5,
  )


def test_beta_of_ngrams_is_that_of_their_law():
  pair = toy.ngram_pair(vocab_size=6, order=1, sources=1)
  tokens = np.array([[3, 2, 5, 4], [2, 2, 1, 0]])
  found = betas_of(pair, [[3], [4]], tokens, SAMPLINGS["filtered"])
  before = np.pad(tokens[:, :-1], ((0, 0), (1, 0)))
  p, q = (
    standardise(np.log(law), SAMPLINGS["filtered"])
    for law in (
      jax.nn.softmax(pair.target_params[0, before]),
      pair.draft_params.laws(jnp.asarray(before)),
    )
  )
  np.testing.assert_allclose(found, np.minimum(p, q).sum(-1), atol=1e-5)


@pytest.mark.parametrize("kind", ["ngram", "table"])
@pytest.mark.parametrize("name", ["filtered", "greedy"])
def test_beta_is_how_often_the_rule_keeps_what_is_drafted(kind, name):
  """The drafter's own laws, and the rule's thresholds found by bisection."""
  sampling = SAMPLINGS[name]
  make = toy.ngram_pair if kind == "ngram" else toy.table_pair
  pair = make(vocab_size=5, order=1, sources=1)
  words = np.arange(5)
  # In row v the target wrote v, and beta of what follows is asked for.
  inputs = np.full((5, 1), 3)
  tokens = np.stack([words, words], axis=1)
  drafter = pair.models["drafter"]
  draft, _ = drafter.draft(
    pair.draft_params,
    sd.Context(
      jnp.asarray(np.pad(tokens, ((0, 0), (1, 0)))),
      jnp.full(5, 2),
      jnp.zeros(5, jnp.int32),
    ),
    # All that such a draft remembers is what it is fed.
    drafter.prefill(pair.draft_params, jnp.asarray(inputs), 8, toy.NO_TARGET),
    jax.random.split(jax.random.key(0), 5),
    make_sampler(sampling, 5),
    1,
  )
  q = np.asarray(draft.probs)[:, 0]
  p = np.float32(standardise(pair.target_params[0, :5], sampling))
  if name == "greedy":
    best = np.exp(pair.target_params[0, :5])
    kept = best >= 0.5 * best.max(axis=1, keepdims=True)
    assert np.any(kept != p)
  else:
    law = outcomes(
      RULE,
      np.tile(np.arange(5, dtype=np.int32), 5)[:, None],
      np.repeat(q, 5, axis=0)[:, None],
      np.repeat(np.stack([p, p], axis=1), 5, axis=0),
    )
    kept = law[:, 1].sum(axis=1).reshape(5, 5)
  found = betas_of(pair, inputs, tokens, sampling, lenience=0.5)
  np.testing.assert_allclose(found[:, 1], (q * kept).sum(1), atol=2e-6)


def test_beta_of_several_leniences_is_that_of_each():
  pair = toy.table_pair(vocab_size=6)
  inputs = np.array([[3, 4, 2], [5, 0, 0], [2, 2, 0]])
  tokens = np.random.default_rng(0).integers(0, 6, (3, 7))
  # A row of every kind, and words that one of the two never says.
  sampling = sd.SamplingConfig((1.0, 0.0, 0.7), top_k=4)
  found = betas_of(pair, inputs, tokens, sampling, lenience=LENIENCES)
  assert found.shape == (4, 3, 7)
  exact = betas_of(pair, inputs, tokens, sampling)
  np.testing.assert_array_equal(found[0], exact)
  for i, lenience in enumerate(LENIENCES):
    for row in (0, 2):
      one = dataclasses.replace(sampling, temperature=(1.0, 0.0, 0.7)[row])
      source = inputs[row].sum() % 3
      seen = [0]
      for t, token in enumerate(tokens[row]):
        context = pair.target.context(seen)
        p, q = (
          standardise(params[source, context], one)
          for params in (pair.target_params, pair.draft_params)
        )
        assert found[i, row, t] == pytest.approx(
          analysis.shared_mass(p, q, lenience), abs=1e-5
        )
        seen.append(int(token))
  assert np.all(np.diff(found, axis=0) >= -1e-6)
  # A greedy guess is kept or not, and at 0 always.
  assert set(np.unique(found[:, 1])) == {0.0, 1.0}
  assert np.all(found[-1, 1] == 1)
  assert 0 < found[0, 1].mean() < found[2, 1].mean()


def test_a_pair_of_equals_keeps_everything():
  pair = toy.table_pair().same
  tokens = np.array([[2, 3, 4], [4, 4, 1]])
  for sampling in SAMPLINGS.values():
    found = betas_of(pair, [[3], [4]], tokens, sampling)
    np.testing.assert_allclose(found, 1.0, atol=1e-6)


def test_the_mean_is_that_of_the_enumerated_law():
  """Over samples of the target, alpha comes near its exact value.

  That is E[sum of beta] / E[tokens], which the table gives by a walk over all
  contexts: `reach` is how likely a row is live after t tokens with a context.
  """
  pair = toy.table_pair(vocab_size=5, order=1, sources=1, apart=0.8)
  length, eos = 6, 1
  p, q = (
    standardise(params[0], sd.SamplingConfig())
    for params in (pair.target_params, pair.draft_params)
  )
  beta = np.minimum(p, q).sum(-1)
  reach = np.zeros(len(p))
  reach[0] = 1.0  # The first decoder input.
  kept = count = 0.0
  for _ in range(length):
    kept, count = kept + reach @ beta, count + reach.sum()
    after = reach @ p
    after[eos] = 0.0
    reach = np.append(after, 0.0)  # The context "before the first one".
  rows = 4000
  inputs = np.ones((rows, 1), np.int32)
  output = pair.baseline(inputs, key=5, max_new_tokens=length, eos_id=eos)
  found = betas_of(pair, inputs, output.tokens, sd.SamplingConfig())
  alpha = sd.mean_acceptance(found, output.lengths)
  sums, counts = row_sums(found, output.lengths)
  assert counts.sum() == np.sum(output.lengths)
  error = (sums - alpha * counts).std() * np.sqrt(rows) / counts.sum()
  assert error < 0.005
  assert abs(alpha - kept / count) < 4 * error
  # What drafting counts is near it too: it sees the same prefixes, but for
  # those of its bonus tokens.
  drafted = pair.speculative(
    inputs, key=6, gamma=1, max_new_tokens=length, eos_id=eos
  )
  assert sd.acceptance_rate(drafted.stats) == pytest.approx(alpha, abs=0.05)


def test_what_follows_an_end_does_not_count():
  betas = np.array([[0.5, 1.0, np.nan], [0.0, 7.0, 7.0]])
  assert sd.mean_acceptance(betas, np.array([2, 1])) == 0.5
  sums, counts = row_sums(betas, np.array([2, 1]))
  assert sums.tolist() == [1.5, 0.0]
  assert counts.tolist() == [2, 1]
  with pytest.raises(ValueError, match="lengths are all 0"):
    sd.mean_acceptance(betas, np.array([0, 0]))


def test_a_draft_of_another_width_is_brought_to_the_targets():
  wide, narrow = toy.TableModel(7, 1), toy.TableModel(5, 1)
  target = toy.random_table(wide, 0)
  draft = toy.random_table(narrow, 1)
  tokens = np.array([[2, 6, 3]])
  found = sd.acceptance_probabilities(
    np.array([[3]]),
    tokens,
    target=wide,
    target_params=jnp.asarray(target),
    drafter=sd.model_drafter(narrow, vocab_size=7),
    draft_params=jnp.asarray(draft),
    sampling=sd.SamplingConfig(),
  )
  p = standardise(target[0], sd.SamplingConfig())[[0, 2, 6]]
  # An id that the draft lacks is fed as its last one.
  q = standardise(draft[0], sd.SamplingConfig())[[0, 2, 4]]
  np.testing.assert_allclose(
    found[0], np.minimum(p[:, :5], q).sum(-1), atol=1e-6
  )


def test_what_does_not_fit_is_refused(unchecked):
  pair = toy.table_pair()
  arguments = {**pair.models, "sampling": sd.SamplingConfig()}
  tokens = np.array([[2, 3]])
  with pytest.raises(TypeError, match="is TableModel; alpha needs a law"):
    sd.acceptance_probabilities(
      np.array([[3]]), tokens, **{**arguments, "drafter": pair.draft}
    )
  with pytest.raises(ValueError, match="has 9 entries and the target's 5"):
    sd.acceptance_probabilities(
      np.array([[3]]),
      tokens,
      **{**arguments, "drafter": sd.model_drafter(toy.TableModel(9))},
    )
  with pytest.raises(ValueError, match="2 rows of inputs and 1 of tokens"):
    sd.acceptance_probabilities(np.array([[3], [4]]), tokens, **arguments)
  with pytest.raises(ValueError, match="lenience is 2; it must lie in"):
    sd.acceptance_probabilities(
      np.array([[3]]), tokens, **arguments, lenience=(1.0, 2)
    )
