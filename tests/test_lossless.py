"""The law of the output is the target's: by enumeration, then by drawing."""

import collections
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from specdec_jax import SamplingConfig, count_ngrams, verification
from specdec_jax.drafters import NgramModel
from specdec_jax.sampling import sample
from specdec_jax.speculative import commit
from specdec_jax.verification import (
  Verification,
  apply_block_rule,
  apply_rule,
  residual,
  verify,
)
from tests import enumeration
from tests.enumeration import (
  VOCAB,
  Case,
  emitted_law,
  outcomes,
  target_law,
)
from tests.toy import Pair, TableModel, random_table, texts_of

TOLERANCE = 2e-7  # The cases reach 6e-8.
BLOCK_TOLERANCE = 1e-6  # Ratios are multiplied and summed.
VISIBLE = 1e-3  # What a wrong rule must differ by.


def table(seed, words=VOCAB, order=2, **options):
  """A random table in which only the first words exist."""
  logits = random_table(TableModel(VOCAB, order), seed, **options)
  logits[..., words:] = -np.inf
  # What had no other word left says the first one.
  logits[..., 0] = np.where(
    np.all(np.isneginf(logits), axis=-1), 0.0, logits[..., 0]
  )
  return logits


def only(words, seed):
  """A random table in which only these words exist."""
  logits = table(seed)
  missing = np.setdiff1d(np.arange(VOCAB), words)
  logits[..., missing] = -np.inf
  return logits


def far_apart(seed):
  """Probabilities from 1 down to 1e-9 and to what float32 rounds to 0."""
  logits = table(seed, words=4)
  logits[..., 2] -= 20.0
  logits[..., 3] -= 120.0
  return logits


def with_ties(seed):
  """Integers, so that the largest logit is often reached twice."""
  return np.round(table(seed, words=4, sharpness=1.0))


WRITER = table(1, 4)
NGRAMS = {
  order: count_ngrams(
    texts_of(TableModel(VOCAB), WRITER, 30, 6), vocab_size=VOCAB, order=order
  )
  for order in (1, 2)
}


def ngram_case(order, **options):
  """A table, and the n-grams of what it writes, by the real lookup."""
  words = jnp.arange(VOCAB)[:, None]
  logits, _ = NgramModel(VOCAB).extend(
    NGRAMS[order], words, jnp.zeros(VOCAB, jnp.int32), ()
  )
  # The nearest word comes first in a context; there always is one.
  nearest = np.arange((VOCAB + 1) ** 2) // (VOCAB + 1)
  draft = np.asarray(logits)[None, np.minimum(nearest, VOCAB - 1), 0]
  options = {"gamma": 2, "budget": 3, **options}
  return Case(target=WRITER, draft=draft, **options)


SAME = table(3, words=3)

CASES = {
  "three words": Case(target=table(1, 3), draft=table(2, 3), gamma=4, budget=5),
  "a single guess": Case(target=table(1, 4), draft=table(2, 4), gamma=1),
  "zeros": Case(target=table(1, 4, zeros=0.4), draft=table(2, 4, zeros=0.4)),
  "five words": Case(target=table(4), draft=table(5), gamma=2, budget=3),
  "p = q": Case(target=SAME, draft=SAME, gamma=4),
  "disjoint supports": Case(
    target=only([1, 2], 6), draft=only([0, 3], 7), gamma=2
  ),
  "no eos": Case(target=table(1, 3), draft=table(2, 3), eos_id=-1),
  "budget of one": Case(
    target=table(1, 3), draft=table(2, 3), gamma=4, budget=1
  ),
  "budget within a block": Case(
    target=table(1, 3), draft=table(1, 3, sharpness=1.4), gamma=4, budget=3
  ),
  "far apart": Case(target=far_apart(8), draft=far_apart(9), gamma=2),
  "greedy": Case(
    target=table(1, 4),
    draft=table(1, 4, sharpness=1.4),
    gamma=4,
    sampling=SamplingConfig(0.0),
  ),
  "greedy ties": Case(
    target=with_ties(1),
    draft=with_ties(2),
    sampling=SamplingConfig(0.0),
  ),
  "temperature 0.5": Case(
    target=table(1, 4),
    draft=table(2, 4),
    sampling=SamplingConfig(0.5),
  ),
  "temperature 2": Case(
    target=table(1, 4), draft=table(2, 4), sampling=SamplingConfig(2.0)
  ),
  "top-k": Case(
    target=table(1),
    draft=table(2),
    gamma=3,
    sampling=SamplingConfig(1.0, top_k=2),
  ),
  "top-k ties": Case(
    target=with_ties(1),
    draft=with_ties(2),
    sampling=SamplingConfig(1.0, top_k=2),
  ),
  "top-p": Case(
    target=table(1, 4),
    draft=table(2, 4),
    sampling=SamplingConfig(1.0, top_p=0.8),
  ),
  "temperature, top-k and top-p": Case(
    target=table(1),
    draft=table(2),
    sampling=SamplingConfig(0.5, top_k=3, top_p=0.8),
  ),
  "a draft with settings of its own": Case(
    target=table(1, 4),
    draft=table(2, 4),
    sampling=SamplingConfig(0.5, top_p=0.8),
    draft_sampling=SamplingConfig(2.0),
  ),
  "a deterministic draft": Case(
    target=table(1, 4),
    draft=table(2, 4),
    draft_sampling=SamplingConfig(0.0),
  ),
  "guesses of every number": Case(
    target=table(1, 3),
    draft=table(2, 3),
    gamma=3,
    budget=5,
    lengths=lambda length: (3, 0, 2, 1)[length % 4],
  ),
  "unigrams": ngram_case(1),
  "bigrams": ngram_case(2, gamma=3),
  "bigrams, no eos": ngram_case(2, eos_id=-1),
  "bigrams, budget of one": ngram_case(2, budget=1),
  "bigrams, budget within a block": ngram_case(2, gamma=3, budget=2),
  "bigrams, greedy": ngram_case(2, gamma=3, sampling=SamplingConfig(0.0)),
  "bigrams, temperature 0.5": ngram_case(2, sampling=SamplingConfig(0.5)),
  "bigrams, temperature 2": ngram_case(2, sampling=SamplingConfig(2.0)),
  "bigrams, top-k": ngram_case(2, sampling=SamplingConfig(1.0, top_k=2)),
  "bigrams, top-p": ngram_case(2, sampling=SamplingConfig(1.0, top_p=0.8)),
  "unigrams, temperature, top-k and top-p": ngram_case(
    1, sampling=SamplingConfig(0.5, top_k=3, top_p=0.8)
  ),
}


def distance(law, other):
  """Total variation, and the mass on what the other says is impossible."""
  every = law.keys() | other.keys()
  variation = 0.5 * sum(
    abs(law.get(each, 0.0) - other.get(each, 0.0)) for each in every
  )
  return variation, sum(law[each] for each in law.keys() - other.keys())


def assert_lossless(case, rule, tolerance):
  emitted, target = emitted_law(case, rule=rule), target_law(case)
  variation, impossible = distance(emitted, target)
  assert variation < tolerance
  assert impossible == 0.0
  assert abs(sum(emitted.values()) - 1) < tolerance


@pytest.mark.parametrize("name", CASES)
def test_emitted_law_is_the_targets(name):
  assert_lossless(CASES[name], apply_rule, TOLERANCE)


# How the guesses were made is nothing to the rule.
@pytest.mark.parametrize(
  "name", [each for each in CASES if "grams" not in each]
)
def test_emitted_law_of_block_verification_is_the_targets(name):
  assert_lossless(CASES[name], apply_block_rule, BLOCK_TOLERANCE)


FAULTS = (
  "none",
  "accepts at equality",
  "accepts with probability p",
  "accepts the first guess unseen",
  "counts guesses behind a rejection",
  "draws anew from p",
  "draws from the softmax of the difference",
  "puts a floor under the residual",
  "draws the bonus from the row before",
)


def faulty_rule(u, next_uniform, tokens, draft_probs, target_probs, fault):
  """Algorithm 1 again, with the fault of this number in it."""
  rows, gamma = tokens.shape

  def has(name):
    return fault == FAULTS.index(name)

  def of(probs):
    return jnp.take_along_axis(probs, tokens[..., None], axis=-1)[..., 0]

  p, q = of(target_probs[:, :gamma]), of(draft_probs)
  accepted = u * q < p
  accepted |= has("accepts at equality")[:, None] & (u * q <= p)
  accepted = jnp.where(
    has("accepts with probability p")[:, None], u < p, accepted
  )
  first = has("accepts the first guess unseen")
  accepted = accepted.at[:, 0].set(accepted[:, 0] | first)
  kept = jnp.cumprod(accepted.astype(jnp.int32), axis=1)
  count = jnp.sum(kept, axis=1)

  is_bonus = count == gamma
  before = has("draws the bonus from the row before") & is_bonus
  p = target_probs[jnp.arange(rows), count - before]
  q = jnp.pad(draft_probs, ((0, 0), (0, 1), (0, 0)))
  q = q[jnp.arange(rows), count]
  weights = residual(p, q)
  for name, wrong in (
    ("draws anew from p", p),
    (
      "draws from the softmax of the difference",
      jnp.where(is_bonus[:, None], p, jax.nn.softmax(weights, axis=-1)),
    ),
    ("puts a floor under the residual", jnp.maximum(p - q, 1e-6)),
  ):
    weights = jnp.where(has(name)[:, None], wrong, weights)

  count = jnp.where(
    has("counts guesses behind a rejection"), jnp.sum(accepted, axis=1), count
  )
  return Verification(count, sample(next_uniform, weights))


CONTROL = Case(
  target=table(1, 4, zeros=0.4),
  draft=table(2, 4, zeros=0.4),
  gamma=2,
  budget=3,
)


def is_exact(case, **parts):
  variation, impossible = distance(emitted_law(case, **parts), target_law(case))
  return variation < VISIBLE and impossible == 0.0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_rule_is_found_out(fault):
  exact = is_exact(CONTROL, rule=faulty_rule, fault=FAULTS.index(fault))
  assert exact == (fault == "none")


@pytest.mark.parametrize(
  ("drawn", "claimed"),
  [
    (SamplingConfig(0.0), SamplingConfig(1.0)),
    (SamplingConfig(1.0, top_k=2), SamplingConfig(1.0)),
    (SamplingConfig(0.5), SamplingConfig(1.0)),
  ],
  ids=["greedy", "top-k", "temperature"],
)
def test_a_draft_that_lies_about_its_law_is_found_out(drawn, claimed):
  case = dataclasses.replace(
    CONTROL, draft_sampling=drawn, claimed_sampling=claimed
  )
  for rule in (apply_rule, apply_block_rule):
    assert not is_exact(case, rule=rule)
    honest = dataclasses.replace(case, claimed_sampling=drawn)
    assert is_exact(honest, rule=rule)


def _looks_for_eos_in_the_last_token_only(
  tokens, lengths, is_done, draft_tokens, verification, budgets, eos_id
):
  after = commit(
    tokens, lengths, is_done, draft_tokens, verification, budgets, -1
  )
  last = jnp.take_along_axis(after.tokens, after.lengths[:, None] - 1, axis=1)[
    :, 0
  ]
  return after._replace(is_done=after.is_done | (last == eos_id))


def test_a_block_that_runs_over_its_eos_is_found_out():
  assert not is_exact(CONTROL, commit=_looks_for_eos_in_the_last_token_only)


def test_a_block_whose_last_token_ignores_the_joint_law_is_found_out(
  monkeypatch,
):
  # Compiled rules are kept by the function, which stays the same here.
  enumeration._thresholds.clear_cache()
  monkeypatch.setattr(verification, "residual", lambda p, q: p)
  assert not is_exact(CONTROL, rule=apply_block_rule)
  monkeypatch.undo()
  enumeration._thresholds.clear_cache()
  assert is_exact(CONTROL, rule=apply_block_rule)


DRAWS = 2**17


def p_value(counts, law):
  """Of the chi-square test, with rare outcomes put together; 0 if impossible.

  Args:
    counts: How often each outcome was seen.
    law: The probability of each, in the same order.
  """
  counts, expected = np.asarray(counts), np.asarray(law) * np.sum(counts)
  if np.any(counts[expected == 0]):
    return 0.0
  is_rare = expected < 10
  counts = np.append(counts[~is_rare], counts[is_rare].sum())
  expected = np.append(expected[~is_rare], expected[is_rare].sum())
  counts, expected = counts[expected > 0], expected[expected > 0]
  statistic = np.sum((counts - expected) ** 2 / expected)
  return stats.chi2.sf(statistic, len(counts) - 1)


@jax.jit
def _one_number_for_two_purposes(keys, tokens, draft_probs, target_probs):
  """`verify`, but the last token's uniform is that of the rejected guess."""
  u = jax.vmap(lambda key: jax.random.uniform(key, (tokens.shape[1],)))(keys)
  count = apply_rule(u, u[:, 0], tokens, draft_probs, target_probs).num_accepted
  again = jnp.take_along_axis(u, jnp.minimum(count, 1)[:, None], axis=1)[:, 0]
  return apply_rule(u, again, tokens, draft_probs, target_probs)


@pytest.mark.parametrize(
  ("judge", "is_right"),
  [(jax.jit(verify), True), (_one_number_for_two_purposes, False)],
  ids=["verify", "one number for two purposes"],
)
def test_verify_draws_what_was_enumerated(judge, is_right):
  tokens = np.int32([[0, 2]])
  p = np.float32([[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]]])
  q = np.float32([[[0.7, 0.1, 0.2], [0.2, 0.3, 0.5]]])
  law = outcomes(apply_rule, tokens, q, p)[0]
  verdict = judge(
    jax.random.split(jax.random.key(0), DRAWS),
    *(np.repeat(x, DRAWS, axis=0) for x in (tokens, q, p)),
  )
  seen = np.zeros(law.shape, int)
  np.add.at(seen, tuple(np.asarray(x) for x in verdict), 1)
  value = p_value(seen.ravel(), law.ravel())
  assert value > 1e-3 if is_right else value < 1e-9


@pytest.mark.parametrize(
  ("gamma", "sampling", "draws", "drafts"),
  [
    (0, SamplingConfig(1.0), 2**15, "model"),
    (3, SamplingConfig(1.0), DRAWS, "model"),
    (3, SamplingConfig(0.7, top_p=0.8), DRAWS, "model"),
    (2, SamplingConfig(0.7, top_p=0.8), DRAWS, "bigrams"),
  ],
  ids=["baseline", "temperature 1", "temperature 0.7, top-p 0.8", "bigrams"],
)
def test_the_compiled_sampler_draws_the_targets_law(
  gamma, sampling, draws, drafts
):
  case = Case(
    target=table(1, 4), draft=table(2, 4), sampling=sampling, budget=3
  )
  model = TableModel(VOCAB)
  pair = Pair(model, jnp.asarray(case.target), model, jnp.asarray(case.draft))
  if drafts == "bigrams":
    pair = dataclasses.replace(
      pair, draft=NgramModel(VOCAB), draft_params=NGRAMS[2]
    )
  output = pair.speculative(
    np.ones((draws, 1), np.int32),
    gamma=gamma,
    max_new_tokens=case.budget,
    **dataclasses.asdict(sampling),
  )

  def test(law):
    seen = collections.Counter(
      tuple(row[:length])
      for row, length in zip(
        output.tokens.tolist(), output.lengths.tolist(), strict=True
      )
    )
    if seen.keys() - law.keys():
      return 0.0
    return p_value([seen[each] for each in law], list(law.values()))

  assert test(target_law(case)) > 1e-3
  # The test would see a temperature that is a tenth off.
  other = dataclasses.replace(sampling, temperature=1.1 * sampling.temperature)
  assert test(target_law(dataclasses.replace(case, sampling=other))) < 1e-6
