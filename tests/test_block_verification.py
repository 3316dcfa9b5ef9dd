"""What block verification keeps; its law is in `test_lossless`."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.verification import (
  Verification,
  apply_block_rule,
  apply_rule,
)
from tests import toy
from tests.enumeration import outcomes

# The paper's toy: two words, whatever came before.
P = np.float32([1 / 3, 2 / 3])
Q = np.float32([2 / 3, 1 / 3])

_apply_block_rule = jax.jit(apply_block_rule)


def judge(uniforms, tokens, next_uniform=0.5, gamma=2, lengths=None):
  """The rule on one row of the toy, as two numbers."""
  verdict = _apply_block_rule(
    jnp.array([uniforms], jnp.float32),
    jnp.array([next_uniform], jnp.float32),
    jnp.array([tokens], jnp.int32),
    jnp.broadcast_to(Q, (1, gamma, 2)),
    jnp.broadcast_to(P, (1, gamma + 1, 2)),
    None if lengths is None else jnp.array([lengths]),
  )
  return int(verdict.num_accepted[0]), int(verdict.next_token[0])


def laws_of(seed, gamma, words=3, share=0.3):
  """Random laws of a first guess, of the second after each first, and so on."""
  random = np.random.default_rng(seed)

  def laws(depth):
    table = random.gamma(1.0, size=(words**depth, words))
    table *= random.random(table.shape) >= share
    table[..., 0] += 0.05
    return np.float32(table / table.sum(axis=-1, keepdims=True))

  return [[laws(depth) for depth in range(gamma + 1)] for _ in range(2)]


def all_drafts(p, q, gamma, words=3):
  """Every draft with its weight, and the laws along it."""
  tokens = list(itertools.product(range(words), repeat=gamma))
  prefixes = [[0] for _ in tokens]
  for prefix, draft in zip(prefixes, tokens, strict=True):
    for word in draft:
      prefix.append(prefix[-1] * words + word)
  prefixes = np.array(prefixes)
  target = np.stack([p[i][prefixes[:, i]] for i in range(gamma + 1)], axis=1)
  draft = np.stack([q[i][prefixes[:, i]] for i in range(gamma)], axis=1)
  tokens = np.int32(tokens)

  def chosen(laws):
    return np.take_along_axis(laws[:, :gamma], tokens[..., None], -1)[..., 0]

  weights = np.prod(np.float64(chosen(draft)), axis=1)
  possible = weights > 0
  ratios = chosen(target)[possible] / chosen(draft)[possible]
  return (
    tokens[possible],
    draft[possible],
    target[possible],
    weights[possible],
    np.float64(ratios),
  )


def expected_length(rule, tokens, draft, target, weights):
  law = outcomes(rule, tokens, draft, target)
  kept = np.arange(tokens.shape[1] + 1)
  return 1 + np.sum(weights * np.sum(law.sum(axis=-1) * kept, axis=1))


def test_likely_guesses_make_up_for_unlikely_ones():
  # Word 0 has the ratio 1/2, word 1 the ratio 2. With 0 and 1 the block's
  # P are 1/2 and 1: it passes whole, whatever the first guess would do.
  assert judge([0.99, 0.99], [0, 1])[0] == 2
  # With 1 and 0 they are 1 and 1/2.
  assert judge([0.99, 0.49], [1, 0])[0] == 2
  assert judge([0.99, 0.51], [1, 0])[0] == 1
  # P = 1/2: what is left of it is max(0, P p - q), nothing, so h = 0.
  assert judge([0.0, 0.51], [0, 0])[0] == 0
  assert judge([0.0, 0.24], [0, 0])[0] == 2


def test_the_next_token_is_from_the_residual_of_the_joint_law():
  # After no guess: max(0, p - q) is word 1 alone.
  assert [judge([0.9, 0.9], [0, 0], u)[1] for u in (0.0, 0.99)] == [1, 1]
  # After one with P = 1 the same; after the block the target's own law.
  assert [judge([0.0, 0.6], [1, 0], u)[1] for u in (0.0, 0.99)] == [1, 1]
  assert [judge([0.0, 0.1], [1, 0], u)[1] for u in (0.32, 0.34)] == [0, 1]


def test_the_papers_toy():
  p, q = ([np.tile(law, (2**i, 1)) for i in range(3)] for law in (P, Q))
  *arrays, _ = all_drafts(p, q, 2, words=2)
  assert expected_length(apply_rule, *arrays) == pytest.approx(1 + 10 / 9)
  assert expected_length(apply_block_rule, *arrays) == pytest.approx(1 + 11 / 9)


@pytest.mark.parametrize("gamma", [1, 2, 3, 4])
def test_the_expected_length_is_the_formulas_and_never_less(gamma):
  for seed in range(3):
    *arrays, ratios = all_drafts(*laws_of(seed, gamma), gamma)
    token, block = (
      expected_length(rule, *arrays) for rule in (apply_rule, apply_block_rule)
    )
    formula = sd.analysis.block_verification_length(ratios, arrays[-1])
    assert block == pytest.approx(formula, abs=1e-6)
    if gamma == 1:
      assert block == pytest.approx(token, abs=1e-6)
    else:
      assert block > token + 1e-3


def test_filler_is_neither_judged_nor_subtracted():
  # The one guess, word 0, passes with P = 1/2, as Algorithm 1 has it.
  for filler in (0, 1):
    assert judge([0.49, 0.0], [0, filler], lengths=1)[0] == 1
    assert judge([0.51, 0.0], [0, filler], lengths=1)[0] == 0
  # Then the target's own law.
  after = [judge([0.1, 0.0], [0, 0], u, lengths=1)[1] for u in (0.32, 0.34)]
  assert after == [0, 1]
  assert judge([0.0, 0.0], [1, 1], 0.32, lengths=0) == (0, 0)


def test_what_the_target_never_says_is_never_kept():
  p = np.float32([[[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]]])
  q = np.float32([[[0.5, 0.5], [0.5, 0.5]]])
  verdict = _apply_block_rule(
    jnp.zeros((1, 2)), jnp.zeros(1), jnp.array([[1, 0]]), q, p
  )
  assert verdict == Verification(0, 0)


def test_equal_laws_keep_everything():
  laws = np.float32([[[0.3, 0.7], [0.6, 0.4], [0.1, 0.9]]])
  verdict = _apply_block_rule(
    jnp.full((1, 2), 1 - 2**-24),
    jnp.zeros(1),
    jnp.array([[1, 0]]),
    laws[:, :2],
    laws,
  )
  assert int(verdict.num_accepted[0]) == 2


def test_decoding_needs_fewer_calls():
  pair = toy.table_pair(apart=0.8, seed=3)
  inputs = toy.inputs(2048, 4)
  options = {"gamma": 8, "max_new_tokens": 40, "eos_id": -1}
  token, block = (
    pair.speculative(inputs, verification=rule, **options)
    for rule in ("token", "block")
  )
  calls = [np.asarray(each.stats.target_calls) for each in (token, block)]
  error = np.sqrt(sum(np.var(each) / len(each) for each in calls))
  assert calls[0].mean() - calls[1].mean() > 4 * error
  stats = block.stats
  np.testing.assert_array_equal(
    stats.emitted, stats.accepted + stats.corrected + stats.bonus
  )
  np.testing.assert_array_equal(
    stats.accepted_histogram.sum(axis=1), stats.target_calls
  )


def test_greedy_decoding_is_the_baselines():
  pair = toy.table_pair()
  inputs = toy.inputs(6, 4)
  options = {"temperature": 0.0, "max_new_tokens": 12}
  baseline = pair.baseline(inputs, **options)
  for temperature in (0.0, (0.0,) * 5 + (1.0,)):
    output = pair.speculative(
      inputs, verification="block", **{**options, "temperature": temperature}
    )
    np.testing.assert_array_equal(output.tokens[:5], baseline.tokens[:5])


def test_a_row_is_its_own_run():
  pair = toy.table_pair()
  inputs = toy.inputs(5, 4)
  keys = jax.random.split(jax.random.key(1), 5)
  together = pair.speculative(
    inputs, keys, verification="block", max_new_tokens=12
  )
  for row in range(5):
    alone = pair.speculative(
      inputs[row : row + 1],
      keys[row : row + 1],
      verification="block",
      max_new_tokens=12,
    )
    np.testing.assert_array_equal(alone.tokens[0], together.tokens[row])


def test_what_cannot_be_is_refused():
  with pytest.raises(
    ValueError, match=r"verification is 'blocks'; .* 'token', 'block'"
  ):
    sd.SpeculativeConfig(verification="blocks")
  with pytest.raises(ValueError, match=r"lenience is 0.5, but verification is"):
    sd.SpeculativeConfig(verification="block", lenience=0.5)
  laws = jnp.broadcast_to(P, (1, 2, 2))
  with pytest.raises(ValueError, match=r"verification is 'joint'"):
    sd.verify(
      jax.random.key(0),
      jnp.zeros((1, 1), jnp.int32),
      laws[:, :1],
      laws,
      rule="joint",
    )
