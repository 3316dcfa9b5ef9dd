"""The first layers of the target as its drafter, in its own cache."""

import collections
import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import specdec_jax as sd
from specdec_jax import speculative, t5
from specdec_jax.base import Prefill
from specdec_jax.drafters import early_exit
from specdec_jax.sampling import Sampler
from specdec_jax.verification import apply_block_rule, apply_rule
from tests import toy
from tests.drafters.test_self_draft import TARGETS, params_of, silenced
from tests.enumeration import (
  drawn_law,
  law_after,
  law_of_rounds,
  outcomes,
  written_law,
)

INPUTS = toy.inputs(4, 7)
KEYS = jax.random.split(jax.random.key(5), len(INPUTS))


@dataclasses.dataclass(frozen=True)
class LayeredTable:
  """A model of two layers, each a table with a cache of its own.

  The logits are the sum of both tables' rows, so an entry that one of the
  layers misses, or a state of another token, gives another law.
  """

  vocab_size: int
  num_layers: int = 2

  @property
  def table(self):
    return toy.TableModel(self.vocab_size)

  def prefill(self, params, inputs, length):
    cache, token, position, _ = self.table.prefill(params[0], inputs, length)
    return Prefill({"first": cache, "second": cache}, token, position)

  def extend(self, params, tokens, positions, cache):
    states, cache = self.extend_first(params, tokens, positions, cache, 1)
    return self.extend_rest(params, states, positions, cache, 1)

  def extend_first(self, params, tokens, positions, cache, layers):
    assert layers == 1
    logits, first = self.table.extend(
      params[0], tokens, positions, cache["first"]
    )
    states = jnp.concatenate([logits, tokens[..., None]], axis=-1)
    return states, cache | {"first": first}

  def read_out(self, params, states):
    return states[..., :-1]

  def extend_rest(self, params, states, positions, cache, layers):
    assert layers == 1
    tokens = states[..., -1].astype(jnp.int32)
    logits, second = self.table.extend(
      params[1], tokens, positions, cache["second"]
    )
    return states[..., :-1] + logits, cache | {"second": second}


GAMMA, VOCAB, EOS, BUDGET = 3, 4, 1, 3
TABLE = LayeredTable(VOCAB)
TABLES = tuple(
  jnp.asarray(toy.random_table(TABLE.table, seed, sharpness=sharpness))
  for seed, sharpness in ((0, 1.5), (1, 0.7))
)
TABLE_DRAFTER = sd.early_exit_drafter(TABLE, layers=1)
PATHS = np.array(list(itertools.product(range(VOCAB), repeat=GAMMA)))


def sampler(rows, top_k):
  return Sampler(jnp.ones(rows), top_k, 1.0, False)


@functools.cache
def laws_of(num_tables, top_k):
  """All laws of the exit or of the whole, by the real standardisation."""
  logits = sum(TABLES[:num_tables])[0][:, None]
  return np.asarray(sampler(len(logits), top_k).probs(logits)[:, 0])


@functools.cache
def proposing(length, top_k, shift):
  """Drafts and scores behind a prefix in every row, by given numbers."""
  rows = len(PATHS)

  def propose(written, uniform):
    with pytest.MonkeyPatch.context() as patch:
      patch.setattr(early_exit, "uniform_rows", lambda *_: uniform)
      inputs, zero = jnp.ones((rows, 1), jnp.int32), jnp.zeros(rows, jnp.int32)
      cache = TABLE.prefill(TABLES, inputs, 12).cache
      # What rejected guesses left behind, under the prefix and beyond it.
      garbage = jnp.tile(jnp.arange(9) % VOCAB, (rows, 1))
      _, cache = TABLE.extend(TABLES, garbage, zero, cache)
      if length > 1:
        _, cache = TABLE.extend(TABLES, written[:, : length - 1], zero, cache)
      draft, cache = TABLE_DRAFTER.draft(
        TABLES,
        sd.Context(written, jnp.full(rows, length), zero),
        cache,
        jax.random.split(jax.random.key(0), rows),
        sampler(rows, top_k),
        GAMMA,
      )
      states = jnp.roll(draft.states, shift, axis=1)
      logits, _ = TABLE.extend_rest(TABLES, states, zero + length - 1, cache, 1)
      return draft, sampler(rows, top_k).probs(logits)

  return jax.jit(propose)


def round_law(rule, prefix, top_k, shift):
  """The law of what a round leaves, if it is checked against its own score."""
  laws = np.float64(laws_of(1, top_k))
  uniform = np.zeros(PATHS.shape, np.float32)
  weights = np.ones(len(PATHS))
  for row, path in enumerate(PATHS):
    for i, word in enumerate(path):
      law = laws[TABLE.table.context((0, *prefix, *path[:i]))]
      uniform[row, i] = (law[:word].sum() + law[word] / 2) / law.sum()
      weights[row] *= law[word] / law.sum()
  written = np.zeros((len(PATHS), 1 + BUDGET), np.int32)
  written[:, 1 : 1 + len(prefix)] = prefix
  propose = proposing(1 + len(prefix), top_k, shift)
  draft, target_probs = propose(written, uniform)
  is_possible = weights > 0
  np.testing.assert_array_equal(
    np.asarray(draft.tokens)[is_possible], PATHS[is_possible]
  )
  law = outcomes(rule, PATHS, np.asarray(draft.probs), np.asarray(target_probs))
  ends = collections.Counter()
  for path, outcome, weight in zip(PATHS, law, weights, strict=True):
    ends.update(
      law_after(prefix, path, weight * outcome, eos_id=EOS, budget=BUDGET)
    )
  return ends


def target_law(top_k):
  exact = drawn_law(laws_of(2, top_k))
  return written_law(TABLE.table, exact, eos_id=EOS, budget=BUDGET)


def distance(rule, top_k, *, shift=0):
  """Total variation of the emitted law from the target's."""
  law = law_of_rounds(
    lambda prefix: round_law(rule, prefix, top_k, shift),
    eos_id=EOS,
    budget=BUDGET,
  )
  expected = target_law(top_k)
  every = law.keys() | expected.keys()
  return sum(abs(law.get(x, 0) - expected.get(x, 0)) for x in every) / 2


@pytest.mark.parametrize("rule", [apply_rule, apply_block_rule])
@pytest.mark.parametrize("top_k", [0, 2])
def test_the_law_is_the_targets(rule, top_k):
  assert distance(rule, top_k) < 1e-6


def test_states_of_other_tokens_would_be_seen():
  assert distance(apply_rule, 0, shift=1) > 1e-3


def table_output(rows, **options):
  return sd.speculative_generate(
    jax.random.key(3),
    np.ones((rows, 1), np.int32),
    target=TABLE,
    target_params=TABLES,
    drafter=TABLE_DRAFTER,
    draft_params=None,
    config=toy.config(gamma=GAMMA, max_new_tokens=BUDGET, **options),
  )


@pytest.mark.parametrize("verification", ["token", "block"])
def test_the_compiled_sampler_draws_the_targets_law(verification):
  rows = 2**15
  output = table_output(rows, verification=verification, eos_id=EOS)
  seen = collections.Counter(
    tuple(row[:length])
    for row, length in zip(
      output.tokens.tolist(), output.lengths.tolist(), strict=True
    )
  )
  law = target_law(0)
  assert seen.keys() <= law.keys()
  counts, expected = (
    np.array([source[each] for each in law]) for source in (seen, law)
  )
  is_common = expected * rows >= 10
  counts, expected = counts[is_common], expected[is_common] * rows
  statistic = np.sum((counts - expected) ** 2 / expected)
  assert stats.chi2.sf(statistic, len(counts) - 1) > 1e-3
  assert 0 < np.sum(output.stats.accepted) < np.sum(output.stats.examined)


def arguments(target, layers, params=None):
  return {
    "target": target,
    "target_params": params_of(target) if params is None else params,
    "drafter": sd.early_exit_drafter(target, layers=layers),
    "draft_params": None,
  }


def decode(target, layers, inputs=INPUTS, key=KEYS, params=None, **options):
  return sd.speculative_generate(
    key,
    inputs,
    config=toy.config(**options),
    **arguments(target, layers, params),
  )


MIXED = {
  "temperature": (0.0, 1.0, 0.7, 1.5),
  "max_new_tokens": (14, 9, 14, 13),
  "eos_id": 4,
}


@pytest.mark.parametrize(
  ("name", "layers"), [*((name, 2) for name in TARGETS), ("t5 1.1", 3)]
)
def test_it_writes_what_a_draft_of_these_layers_makes_of_it(name, layers):
  target, params = TARGETS[name], params_of(TARGETS[name])
  found = decode(target, layers, gamma=3, **MIXED)
  pair = toy.Pair(target, params, *t5.self_draft(target, params, range(layers)))
  expected = pair.speculative(INPUTS, KEYS, gamma=3, **MIXED)
  np.testing.assert_array_equal(found.tokens, expected.tokens)
  np.testing.assert_allclose(found.log_probs, expected.log_probs, rtol=1e-4)
  jax.tree.map(np.testing.assert_array_equal, found.stats, expected.stats)
  assert 0 < np.sum(found.stats.accepted) < np.sum(found.stats.examined)


@pytest.mark.parametrize("gamma", [1, 4])
@pytest.mark.parametrize("name", ["t5 1.1", "lm"])
def test_greedy_output_is_the_baselines(name, gamma):
  target = TARGETS[name]
  options = {"max_new_tokens": 12, "temperature": 0.0, "eos_id": -1}
  found = decode(target, 2, gamma=gamma, **options)
  pair = toy.Pair(target, params_of(target), None, None)
  np.testing.assert_array_equal(
    found.tokens, pair.baseline(INPUTS, **options).tokens
  )


@pytest.mark.parametrize("name", ["t5 1.1", "biases of each layer", "lm"])
def test_an_exit_that_is_the_whole_is_always_right(name):
  # The layers behind it add nothing. A hole in a cache, or a state that is one
  # off, would show.
  params = silenced(params_of(TARGETS[name]), (0, 1))
  budgets = (13, 14, 15, 16)
  output = decode(
    TARGETS[name],
    2,
    params=params,
    gamma=3,
    temperature=(0.0, 1.0, 0.5, 1.0),
    max_new_tokens=budgets,
    eos_id=-1,
  )
  # Sums in another order: a guess at the edge may fail, hardly two.
  stats = output.stats
  assert np.sum(stats.examined) - np.sum(stats.accepted) <= 1
  calls = np.asarray(stats.target_calls) - -(-np.array(budgets) // 4)
  assert np.sum(calls) <= 1


@pytest.mark.parametrize("name", ["t5 1.1", "lm"])
def test_a_row_depends_neither_on_its_neighbours_nor_on_padding(name):
  options = {"gamma": 2, "max_new_tokens": 10, "temperature": 1.0}
  together = decode(TARGETS[name], 2, **options)
  for row in range(len(INPUTS)):
    wider = np.pad(INPUTS[row : row + 1], ((0, 0), (0, 3)))
    alone = decode(TARGETS[name], 2, wider, KEYS[row : row + 1], **options)
    np.testing.assert_array_equal(alone.tokens[0], together.tokens[row])


def test_several_decodes_of_each_input():
  output = decode(
    TARGETS["t5 1.1"], 2, gamma=2, max_new_tokens=6, num_decodes=2
  )
  assert output.tokens.shape == (4, 2, 6)


def test_each_layer_is_gone_through_once(monkeypatch):
  # And a drafter that is made anew compiles nothing.
  target = TARGETS["t5 1.1"]
  options = {"gamma": 5, "max_new_tokens": 7, "temperature": 1.0}
  calls = []

  def counted(name):
    function = getattr(t5.T5Model, name)

    def call(self, *rest):
      calls.append(name)
      return function(self, *rest)

    return call

  for name in ("encode", "extend", "extend_first", "extend_rest"):
    monkeypatch.setattr(t5.T5Model, name, counted(name))
  decode(target, 3, **options)
  # In the scan, and for the last guess.
  assert sorted(calls) == [
    "encode",
    "extend_first",
    "extend_first",
    "extend_rest",
  ]
  decode(target, 3, inputs=INPUTS[::-1].copy(), **options)
  assert len(calls) == 4


def test_it_keeps_no_cache():
  run, inputs = speculative.prepare(
    jax.random.key(0),
    INPUTS,
    config=toy.config(gamma=3, max_new_tokens=6),
    **arguments(TARGETS["t5 1.1"], 2),
  )
  state = speculative.start(run, inputs)
  before = jax.tree.map(jnp.shape, state.target_cache)
  state, found = jax.jit(speculative.step)(run, state)
  assert state.draft_cache is None
  assert jax.tree.map(jnp.shape, state.target_cache) == before
  assert found.draft.states.shape == (4, 4, 16)


@pytest.mark.parametrize("layers", [0, 4, -1, 1.0])
@pytest.mark.usefixtures("unchecked")
def test_an_exit_that_is_none_is_refused(layers):
  with pytest.raises(
    ValueError, match=rf"layers is {layers}, and the .* has 4"
  ):
    sd.early_exit_drafter(TARGETS["t5 1.1"], layers=layers)


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused():
  with pytest.raises(TypeError, match="target is TableModel; give a Layered"):
    sd.early_exit_drafter(TABLE.table, layers=1)
  target = TARGETS["t5 1.1"]
  fitting = arguments(target, 2) | {
    "config": toy.config(gamma=2, max_new_tokens=3)
  }
  for changes, message in (
    ({"draft_params": params_of(target)}, "draft_params are given, but an ear"),
    (
      {"drafter": sd.early_exit_drafter(TARGETS["t5 1.0"], layers=2)},
      r"shares layers of .*, and the target is .*early_exit_drafter\(target,",
    ),
  ):
    with pytest.raises(ValueError, match=message):
      sd.speculative_generate(jax.random.key(0), INPUTS, **fitting | changes)
  lookup = sd.prompt_lookup_drafter(48)
  with pytest.raises(ValueError, match="second is an EarlyExitDrafter"):
    sd.fallback_drafter(lookup, fitting["drafter"])
