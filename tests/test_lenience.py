"""Lenience below 1 is lossy by the paper's formula, and by nothing else.

Appendix A.5: a guess is held to l q in place of q, and what follows a
rejection is drawn from the same residual as ever.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax import SamplingConfig, speculative
from specdec_jax.verification import apply_rule, is_near_best
from tests import toy
from tests.enumeration import (
  VOCAB,
  Case,
  emitted_law,
  outcomes,
  standardise,
  target_law,
)
from tests.toy import TableModel

TOLERANCE = 2e-7
LENIENCES = (1.0, 0.5, 0.3, 0.1, 0.0)  # The paper's, and the end.


def table(seed, words=4, **options):
  """A random table of an order of 2 in which only the first words exist."""
  logits = toy.random_table(TableModel(VOCAB, 2), seed, **options)
  logits[..., words:] = -np.inf
  logits[..., 0] = np.where(
    np.all(np.isneginf(logits), axis=-1), 0.0, logits[..., 0]
  )
  return logits


CASES = {
  "plain": Case(target=table(1), draft=table(2), gamma=2, budget=3),
  "zeros": Case(
    target=table(1, zeros=0.4),
    draft=table(2, zeros=0.4),
    gamma=2,
    budget=3,
  ),
  "p = q": Case(target=table(3, 3), draft=table(3, 3), gamma=2, budget=3),
  "temperature, top-k and top-p": Case(
    target=table(1, VOCAB),
    draft=table(2, VOCAB),
    gamma=2,
    budget=3,
    sampling=SamplingConfig(0.7, top_k=4, top_p=0.9),
  ),
  "guesses of every number": Case(
    target=table(1, 3),
    draft=table(2, 3),
    lengths=lambda length: (3, 0, 2, 1)[length % 4],
  ),
}


def shares(p, q, lenience):
  """The formula at one place, float64: what is kept of each word, and drawn.

  Args:
    p: The target's law, [V].
    q: The draft's.
    lenience: l.

  Returns:
    min(p / l, q), and the rest of the mass spread as max(0, p - q) is.
  """
  with np.errstate(divide="ignore", invalid="ignore"):
    kept = np.where(p > 0, np.minimum(p / np.float64(lenience), q), 0.0)
  residual = np.maximum(p - q, 0.0)
  left = 1 - kept.sum()
  drawn = left * residual / residual.sum() if left > 1e-12 else 0 * p
  return kept, drawn


def lenient_law(case: Case, lenience) -> dict[tuple, float]:
  """What lenience emits: a walk over sequences and places in a round."""
  model = TableModel(VOCAB, case.order)
  p = standardise(case.target[0], case.sampling)
  q = standardise(case.draft[0], case.draft_sampling or case.sampling)
  live, ended = {((), 0, case.gamma): 1.0}, {}
  # A round's number of guesses follows from the prefix that it begins at.
  while live:
    after = {}
    for (prefix, place, guesses), mass in live.items():
      if place == 0 and case.lengths:
        guesses = case.lengths(len(prefix))
      context = model.context((0, *prefix))
      if place < guesses:
        kept, drawn = shares(p[context], q[context], lenience)
      else:
        kept, drawn = 0 * p[context], p[context]
      for law, next_place in ((kept, place + 1), (drawn, 0)):
        for word in np.flatnonzero(law):
          longer = (*prefix, int(word))
          if word == case.eos_id or len(longer) == case.budget:
            ended[longer] = ended.get(longer, 0.0) + mass * law[word]
          else:
            key = (longer, next_place, guesses)
            after[key] = after.get(key, 0.0) + mass * law[word]
    live = after
  return ended


def distance(law, other):
  every = law.keys() | other.keys()
  return 0.5 * sum(abs(law.get(x, 0.0) - other.get(x, 0.0)) for x in every)


@functools.cache
def rule(lenience):
  return functools.partial(apply_rule, lenience=lenience)


@pytest.mark.parametrize("lenience", [0.5, 0.1, 0.0])
@pytest.mark.parametrize("name", CASES)
def test_the_law_is_that_of_the_formula(name, lenience):
  case = CASES[name]
  emitted = emitted_law(case, rule=rule(lenience))
  assert distance(emitted, lenient_law(case, lenience)) < TOLERANCE
  # And not the target's, unless nothing is ever rejected.
  lost = distance(emitted, target_law(case))
  assert lost < TOLERANCE if name == "p = q" else lost > 1e-2


@pytest.mark.parametrize("name", CASES)
def test_a_lenience_of_1_is_lossless(name):
  case = CASES[name]
  assert distance(lenient_law(case, 1.0), target_law(case)) < 1e-12
  emitted = emitted_law(case, rule=rule(1.0))
  assert distance(emitted, target_law(case)) < TOLERANCE


def test_acceptance_rises_as_lenience_falls():
  random = np.random.default_rng(0)
  p, q = (random.dirichlet(np.ones(5), 20).astype(np.float32) for _ in "pq")
  p[:, 0], q[:10, 1] = 0.0, 0.0  # Words that one of the two never says.
  p, q = (x / x.sum(axis=1, keepdims=True) for x in (p, q))
  kept = []
  for lenience in LENIENCES:
    law = outcomes(
      rule(lenience),
      np.tile(np.arange(5, dtype=np.int32), 20)[:, None],
      np.repeat(q, 5, axis=0)[:, None],
      np.repeat(np.stack([p, p], axis=1), 5, axis=0),
    ).reshape(20, 5, 2, 5)
    law *= q[:, :, None, None]
    accepted = law[:, :, 1].sum(axis=(1, 2))
    expected = [shares(*each, lenience) for each in zip(p, q, strict=True)]
    # The paper's alpha of l: sum min(p / l, q).
    np.testing.assert_allclose(
      accepted, [each[0].sum() for each in expected], atol=1e-6
    )
    emitted = law[:, :, 0].sum(axis=1) + law[:, :, 1].sum(axis=2)
    np.testing.assert_allclose(emitted, np.sum(expected, axis=1), atol=1e-6)
    if lenience:
      assert np.all(emitted <= p / lenience + 1e-6)
    assert not np.any(emitted[p == 0])
    kept.append(accepted)
  assert np.all(np.diff(kept, axis=0) >= -1e-6)
  assert np.all(kept[-1] - kept[0] > 0.01)
  # At 0 anything that the target might say passes.
  np.testing.assert_allclose(kept[-1], np.sum(q * (p > 0), 1), atol=1e-6)


PAIR = toy.table_pair(seed=3)
ROWS = 12
INPUTS = np.arange(ROWS)[:, None]
OPTIONS = {"gamma": 3, "max_new_tokens": 11, "eos_id": 1}


def greedy_chain(source, lenience):
  """Rounds of a greedy row in plain Python: what is emitted, and kept."""
  model = PAIR.target
  laws = standardise(PAIR.target_params[source], SamplingConfig())
  best, guess = (
    np.argmax(np.asarray(params)[source], axis=-1)
    for params in (PAIR.target_params, PAIR.draft_params)
  )
  tokens, accepted = [0], 0
  while len(tokens) <= OPTIONS["max_new_tokens"]:
    block = list(tokens)
    for _ in range(OPTIONS["gamma"]):
      context = model.context(block)
      word = guess[context]
      if laws[context, word] < lenience * laws[context].max():
        break
      block.append(int(word))
    held = len(block) - len(tokens)
    block.append(int(best[model.context(block)]))
    for i, word in enumerate(block[len(tokens) :]):
      tokens.append(word)
      accepted += i < held
      if word == 1 or len(tokens) > OPTIONS["max_new_tokens"]:
        return tokens[1:], accepted
  raise AssertionError("A row has no end.")


@functools.cache
def decoded(lenience, temperature):
  return PAIR.speculative(
    INPUTS, lenience=lenience, temperature=temperature, **OPTIONS
  )


@pytest.mark.parametrize("lenience", [0.999, 0.5, 0.1, 0.0])
def test_a_greedy_guess_is_kept_if_it_is_nearly_the_best(lenience):
  output = decoded(lenience, 0.0)
  for row in range(ROWS):
    tokens, accepted = greedy_chain(row % 3, lenience)
    assert output.tokens[row, : output.lengths[row]].tolist() == tokens
    assert output.stats.accepted[row] == accepted


def test_greedy_acceptance_rises_and_the_output_changes():
  rates = [
    sd.acceptance_rate(decoded(lenience, 0.0).stats)
    for lenience in (1.0, 0.999, 0.5, 0.1, 0.0)
  ]
  assert rates[0] == rates[1]  # Nothing is as near as that.
  assert rates == sorted(rates)
  assert rates[0] < rates[2] < rates[-1] == 1
  baseline = PAIR.baseline(INPUTS, temperature=0.0, **OPTIONS)
  np.testing.assert_array_equal(decoded(1.0, 0.0).tokens, baseline.tokens)
  assert np.any(decoded(0.1, 0.0).tokens != baseline.tokens)


def test_rows_of_a_mixed_batch_each_have_their_own_rule():
  # One more temperature, so that the program is not the greedy one.
  mixed = (0.0, 1.0) * (ROWS // 2)
  output = decoded(0.5, mixed)
  greedy, sampled = decoded(0.5, 0.0), decoded(0.5, 1.0)
  tokens = np.where(np.equal(mixed, 0)[:, None], greedy.tokens, sampled.tokens)
  np.testing.assert_array_equal(output.tokens, tokens)


def test_sampled_acceptance_rises_in_decoding():
  rates = [
    sd.acceptance_rate(decoded(lenience, 1.0).stats)
    for lenience in (1.0, 0.5, 0.1)
  ]
  assert rates[0] < rates[1] < rates[2]


@pytest.mark.parametrize(
  ("lenience", "expected"),
  [
    (1.0, [True, False, False, False, True]),
    (0.6, [True, False, False, False, True]),
    (0.5, [True, True, False, False, True]),
    (0.2, [True, True, True, False, True]),
    (0.0, [True] * 5),
  ],
)
def test_near_the_best(lenience, expected):
  # Half and a quarter as likely as the best, impossible, and a tie with it.
  logits = np.log(np.float32([4, 2, 1, 1e-30, 4])) + 3
  logits[3] = -np.inf
  near = is_near_best(
    jnp.arange(5)[None],
    jnp.tile(jnp.asarray(logits), (1, 6, 1)),
    jnp.array([True]),
    # A little less: the logarithms of these ratios are rounded.
    lenience * (1 - 1e-5) if lenience < 1 else 1.0,
  )
  assert near[0].tolist() == expected
  others = is_near_best(
    jnp.arange(5)[None],
    jnp.tile(jnp.asarray(logits), (1, 6, 1)),
    jnp.array([False]),
    lenience,
  )
  assert not np.any(others)


def test_logits_that_are_not_finite_are_near_nothing():
  logits = jnp.full((1, 3, 5), jnp.nan)
  near = is_near_best(
    jnp.zeros((1, 2), jnp.int32), logits, jnp.ones(1, bool), 0
  )
  assert not np.any(near)


def test_filler_does_not_pass_for_being_near():
  verdict = sd.verify(
    jax.random.key(0),
    jnp.array([[2, 2]]),
    jnp.eye(4)[jnp.array([[2, 2]])],
    jnp.eye(4)[jnp.array([[1, 1, 1]])],
    jnp.array([1]),
    0.5,
    jnp.array([[True, True]]),
  )
  assert (verdict.num_accepted[0], verdict.next_token[0]) == (1, 1)


def _program(gamma, **options):
  run, inputs = speculative.prepare(
    jax.random.key(0),
    jnp.asarray(INPUTS),
    config=toy.config(**{**OPTIONS, "gamma": gamma, **options}),
    **PAIR.models,
  )
  return str(jax.make_jaxpr(speculative._generate)(run, inputs))


def test_when_it_is_off_it_leaves_no_trace_in_the_program(monkeypatch):
  lenient = _program(3, lenience=0.5)
  monkeypatch.delattr(speculative, "is_near_best")
  off = _program(3, lenience=1.0)
  assert off == _program(3)
  assert len(off.splitlines()) < len(lenient.splitlines())
  # Without guesses there is nothing to be lenient about.
  assert _program(0, lenience=0.5) == _program(0)
  assert [
    toy.config(gamma=gamma, lenience=lenience).is_exact
    for gamma, lenience in ((0, 0.5), (3, 1), (3, 0.5))
  ] == [True, True, False]


def test_a_configuration_compares_by_the_value():
  assert toy.config(lenience=1) == toy.config()
  assert toy.config(lenience=np.float32(0.5)) == toy.config(lenience=0.5)
  assert dataclasses.replace(toy.config(), lenience=0.5) != toy.config()
