"""A draft that stops where it is unsure: exact, whatever it stops for."""

import collections
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.drafters import adaptive
from specdec_jax.sampling import Sampler
from specdec_jax.verification import apply_block_rule, apply_rule
from tests import toy
from tests.enumeration import (
  drawn_law,
  law_after,
  law_of_rounds,
  outcomes,
  written_law,
)

GAMMA, STOPS, VOCAB, EOS, BUDGET = 3, (1, 2), 4, 1, 3
PAIR = toy.table_pair(VOCAB, sources=1, seed=2, apart=0.7)
DRAFTER = sd.adaptive_drafter(PAIR.draft, stops=STOPS, confidence=0.25)
PATHS = np.array(list(itertools.product(range(VOCAB), repeat=GAMMA)))

T5 = toy.Pair(
  toy.T5_TARGET,
  toy.t5_params(toy.T5_TARGET, 0),
  toy.T5_TARGET,
  toy.disturbed_params(toy.T5_TARGET, 0, 0.15),
)
INPUTS = toy.inputs(4, 7)


def decode(pair, inputs, key=0, *, stops, confidence, **options):
  models = pair.models | {
    "drafter": sd.adaptive_drafter(
      pair.draft, stops=stops, confidence=confidence
    )
  }
  key = jax.random.key(key) if isinstance(key, int) else key
  return sd.speculative_generate(
    key, jnp.asarray(inputs), config=toy.config(**options), **models
  )


@functools.cache
def drafting(top_k):
  """Drafts after a prefix in every row, by given uniform numbers."""
  rows = len(PATHS)

  def draft(written, length, uniform):
    with pytest.MonkeyPatch.context() as patch:
      patch.setattr(adaptive, "uniform_rows", lambda *_: uniform)
      cache = DRAFTER.prefill(
        PAIR.draft_params, jnp.ones((rows, 1), jnp.int32), 12, toy.NO_TARGET
      )
      return DRAFTER.draft(
        PAIR.draft_params,
        sd.Context(written, jnp.full(rows, length), jnp.zeros(rows, jnp.int32)),
        cache,
        jax.random.split(jax.random.key(0), rows),
        Sampler(jnp.ones(rows), top_k, 1.0, False),
        GAMMA,
      )[0]

  return jax.jit(draft)


@functools.cache
def laws_of(side, top_k):
  """All laws of a side of the pair, by the real standardisation."""
  logits = getattr(PAIR, side)[0][:, None]
  sampler = Sampler(jnp.ones(len(logits)), top_k, 1.0, False)
  return np.asarray(sampler.probs(logits)[:, 0])


def guesses_of_all_paths(prefix, top_k):
  """Lets the drafter draw each path once, by the numbers that lead to it."""
  laws = np.float64(laws_of("draft_params", top_k))
  uniform = np.zeros(PATHS.shape, np.float32)
  weights = np.ones(len(PATHS))
  for row, path in enumerate(PATHS):
    for i, word in enumerate(path):
      law = laws[PAIR.draft.context((0, *prefix, *path[:i]))]
      uniform[row, i] = (law[:word].sum() + law[word] / 2) / law.sum()
      weights[row] *= law[word] / law.sum()
  written = np.zeros((len(PATHS), 1 + BUDGET), np.int32)
  written[:, 1 : 1 + len(prefix)] = prefix
  draft = drafting(top_k)(written, 1 + len(prefix), uniform)
  is_possible = weights > 0
  is_made = np.arange(GAMMA) < np.asarray(draft.lengths)[:, None]
  drawn = np.asarray(draft.tokens)
  assert np.all((drawn == PATHS)[is_made & is_possible[:, None]])
  return draft, weights


def round_law(rule, prefix, top_k, *, dropped):
  """The law of a round's tokens, cut at EOS and budget, and its lengths."""
  draft, weights = guesses_of_all_paths(prefix, top_k)
  p = laws_of("target_params", top_k)
  lengths = np.asarray(draft.lengths)
  if dropped:
    # The fault to be seen: the guess that made it unsure is not verified.
    lengths = np.where(lengths < GAMMA, lengths - 1, lengths)
  contexts = np.array(
    [
      [PAIR.target.context((0, *prefix, *path[:i])) for i in range(GAMMA + 1)]
      for path in PATHS
    ]
  )
  law = outcomes(rule, PATHS, np.asarray(draft.probs), p[contexts], lengths)
  ends = collections.Counter()
  for path, outcome, weight in zip(PATHS, law, weights, strict=True):
    left = law_after(prefix, path, weight * outcome, eos_id=EOS, budget=BUDGET)
    ends.update(left)
  return ends, set(lengths[weights > 0].tolist())


def distance(rule, top_k, *, dropped=False):
  """Total variation of the emitted law from the target's, and all lengths."""
  lengths = set()

  def after(prefix):
    ends, found = round_law(rule, prefix, top_k, dropped=dropped)
    lengths.update(found)
    return ends

  law = law_of_rounds(after, eos_id=EOS, budget=BUDGET)
  exact = drawn_law(laws_of("target_params", top_k))
  expected = written_law(PAIR.target, exact, eos_id=EOS, budget=BUDGET)
  every = law.keys() | expected.keys()
  variation = sum(
    abs(law.get(each, 0) - expected.get(each, 0)) for each in every
  )
  return variation / 2, lengths


@pytest.mark.parametrize("rule", [apply_rule, apply_block_rule])
@pytest.mark.parametrize("top_k", [0, 2])
def test_the_law_is_the_targets(rule, top_k):
  variation, lengths = distance(rule, top_k)
  assert lengths == {1, 2, 3}
  assert variation < 1e-6


def test_a_dropped_guess_would_be_seen():
  variation, _ = distance(apply_rule, 0, dropped=True)
  assert variation > 1e-3


def test_greedy_output_is_the_baselines_with_rounds_of_each_size():
  options = {"temperature": 0.0, "max_new_tokens": 30, "eos_id": -1}
  output = decode(T5, INPUTS, stops=(2,), confidence=0.02, gamma=5, **options)
  baseline = T5.baseline(INPUTS, **options)
  np.testing.assert_array_equal(output.tokens, baseline.tokens)
  stats = output.stats
  scored = np.sum(stats.scored_histogram, axis=0)
  assert np.flatnonzero(scored).tolist() == [2, 5]
  np.testing.assert_array_equal(
    np.sum(stats.scored_histogram, axis=1), stats.target_calls
  )
  assert np.all(stats.drafted >= 2 * stats.target_calls)
  assert np.all(stats.drafted <= stats.scored_histogram @ np.arange(6))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_is_its_own_run(temperature):
  keys = jax.random.split(jax.random.key(3), len(INPUTS))
  options = {
    "gamma": 4,
    "max_new_tokens": 14,
    "temperature": temperature,
    "stops": (1, 2),
    "confidence": 0.2,
  }
  together = decode(T5, INPUTS, keys, **options)
  for row in range(len(INPUTS)):
    alone = decode(T5, INPUTS[row : row + 1], keys[row : row + 1], **options)
    np.testing.assert_array_equal(alone.tokens[0], together.tokens[row])
    assert alone.stats.drafted[0] == together.stats.drafted[row]
    assert alone.stats.accepted[0] == together.stats.accepted[row]


def test_one_that_is_always_sure_is_the_plain_drafter():
  options = {"gamma": 4, "max_new_tokens": 14, "temperature": 1.0}
  sure = decode(T5, INPUTS, stops=(2,), confidence=0.0, **options)
  plain = T5.speculative(INPUTS, **options)
  for one, other in zip(
    jax.tree.leaves(sure), jax.tree.leaves(plain), strict=True
  ):
    np.testing.assert_array_equal(one, other)


def test_one_that_is_never_sure_stops_first():
  options = {"max_new_tokens": 14, "temperature": 0.0}
  unsure = decode(T5, INPUTS, stops=(2, 3), confidence=1.0, gamma=6, **options)
  plain = T5.speculative(INPUTS, gamma=2, **options)
  np.testing.assert_array_equal(unsure.tokens, plain.tokens)
  np.testing.assert_array_equal(unsure.stats.drafted, plain.stats.drafted)
  np.testing.assert_array_equal(
    unsure.stats.scored_histogram[:, 2], plain.stats.target_calls
  )


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"stops": ()}, r"stops is \(\)"),
    ({"stops": (2, 2)}, r"stops is \(2, 2\)"),
    ({"stops": (3, 2)}, r"stops is \(3, 2\)"),
    ({"stops": (0, 2)}, r"stops is \(0, 2\)"),
    ({"confidence": 1.5}, r"confidence is 1\.5"),
  ],
)
def test_bad_settings_are_refused(changes, message):
  settings = {"stops": (2,), "confidence": 0.5} | changes
  with pytest.raises(ValueError, match=message):
    sd.adaptive_drafter(PAIR.draft, **settings)


def test_beyond_gamma_there_is_no_stop():
  options = {"max_new_tokens": 8, "temperature": 0.0, "gamma": 3}
  found = decode(T5, INPUTS, stops=(3, 5), confidence=1.0, **options)
  plain = T5.speculative(INPUTS, **options)
  np.testing.assert_array_equal(found.stats.drafted, plain.stats.drafted)
