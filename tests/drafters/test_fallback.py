"""Two drafters in one: who guesses, and that nothing else changes."""

import dataclasses

import jax
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax import speculative
from specdec_jax.sampling import Sampler
from tests import toy

GAMMA = 3
SAMPLER = Sampler(np.zeros(4, np.float32), 0, 1.0, True)
LOOKUP = sd.prompt_lookup_drafter(48, min_ngram=2)
T5 = toy.Pair(
  toy.T5_DRAFT,
  toy.t5_params(toy.T5_DRAFT, 0),
  toy.T5_DRAFT,
  toy.disturbed_params(toy.T5_DRAFT, 0, 0.1),
)


def arguments(pair, first, first_params=None, **options):
  return {
    "target": pair.target,
    "target_params": pair.target_params,
    "drafter": sd.fallback_drafter(first, sd.model_drafter(pair.draft)),
    "draft_params": (first_params, pair.draft_params),
    "config": toy.config(gamma=GAMMA, **options),
  }


def rounds_of(pair, inputs, first, first_params=None, **options):
  """Every round, and which rows went into it."""
  run, inputs = speculative.prepare(
    jax.random.key(0), inputs, **arguments(pair, first, first_params, **options)
  )
  state = speculative.start(run, inputs)
  step = jax.jit(speculative.step)
  while not np.all(state.is_done):
    live, before = ~np.asarray(state.is_done), state
    state, found = step(run, state)
    yield before, live, found


def test_it_changes_no_greedy_token():
  inputs = toy.inputs(4, 9)
  options = {"temperature": 0.0, "max_new_tokens": 24, "eos_id": -1}
  output = sd.speculative_generate(
    jax.random.key(0), inputs, **arguments(T5, LOOKUP, **options)
  )
  np.testing.assert_array_equal(
    output.tokens, T5.baseline(inputs, **options).tokens
  )


def test_a_model_knows_what_another_guessed():
  # The target drafts for itself where the lookup abstains: were a token
  # missing from its cache, some of its guesses would fail.
  pair, inputs = T5.same, toy.inputs(4, 9)
  options = {"temperature": 0.0, "max_new_tokens": 24, "eos_id": -1}
  by_model, accepted_copies = 0, 0
  for state, live, found in rounds_of(pair, inputs, LOOKUP, **options):
    copied = LOOKUP.draft(
      None,
      sd.Context(state.tokens, state.lengths, state.position),
      state.draft_cache[0],
      state.keys,
      SAMPLER,
      GAMMA,
    )[0]
    is_copy = np.asarray(copied.lengths) > 0
    kept = np.asarray(found.verification.num_accepted)
    lengths = np.asarray(found.draft.lengths)
    np.testing.assert_array_equal(
      lengths, np.where(is_copy, copied.lengths, GAMMA)
    )
    assert np.all(kept[live & ~is_copy] == GAMMA)
    by_model += np.sum(live & ~is_copy)
    accepted_copies += np.sum(kept[live & is_copy])
  assert by_model > 4  # The first round of each row, and more.
  assert accepted_copies > 4


def test_the_compiled_sampler_draws_the_targets_law():
  pair = toy.table_pair(4, sources=1, seed=2)
  first = sd.prompt_lookup_drafter(4)
  rows = 2**15
  inputs = np.tile(np.int32([[2, 3, 2, 1]]), (rows, 1))
  output = sd.speculative_generate(
    jax.random.key(5),
    inputs,
    **arguments(pair, first, max_new_tokens=3, eos_id=-1),
  )
  laws = np.float64(jax.nn.softmax(pair.target_params))[0]
  seen = np.zeros((4, 4, 4))
  np.add.at(seen, tuple(np.asarray(output.tokens).T), 1)
  law = np.ones((4, 4, 4))
  for words in np.ndindex(law.shape):
    for i, word in enumerate(words):
      law[words] *= laws[pair.target.context((0, *words[:i])), word]
  expected = rows * law
  statistic = np.sum((seen - expected) ** 2 / expected)
  # 63 degrees of freedom: 104 is beyond 0.999.
  assert statistic < 104
  assert np.sum(output.stats.drafted) < GAMMA * np.sum(
    output.stats.target_calls
  )


def test_a_table_is_fed_one_token_still():
  # An n-gram table has no cache to fill.
  pair = toy.ngram_pair(5)
  drafter = sd.fallback_drafter(
    sd.prompt_lookup_drafter(5), sd.ngram_drafter(5)
  )
  inputs = toy.inputs(4, 6, vocab_size=5)
  options = {"temperature": 0.0, "max_new_tokens": 12}
  output = sd.speculative_generate(
    jax.random.key(0),
    inputs,
    target=pair.target,
    target_params=pair.target_params,
    drafter=drafter,
    draft_params=(None, pair.draft_params),
    config=toy.config(gamma=GAMMA, **options),
  )
  np.testing.assert_array_equal(
    output.tokens, pair.baseline(inputs, **options).tokens
  )


def test_a_budget_smaller_than_gamma_is_kept():
  inputs = toy.inputs(3, 5)
  options = {"temperature": 0.0, "max_new_tokens": 1}
  output = sd.speculative_generate(
    jax.random.key(0), inputs, **arguments(T5, LOOKUP, **options)
  )
  np.testing.assert_array_equal(
    output.tokens, T5.baseline(inputs, **options).tokens
  )


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_is_refused():
  model = sd.model_drafter(T5.draft)
  with pytest.raises(TypeError, match="second is T5Model; give a Drafter"):
    sd.fallback_drafter(LOOKUP, T5.draft)
  with pytest.raises(ValueError, match="has 5 entries and the second's 48"):
    sd.fallback_drafter(sd.prompt_lookup_drafter(5), model)
  # The model is another object then: the caller's own is as it was.
  drafter = sd.fallback_drafter(LOOKUP, model)
  assert drafter.second == dataclasses.replace(model, rereads=True)
  assert not model.rereads
