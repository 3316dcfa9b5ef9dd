"""Guesses that are kept at a chosen rate, by the unchanged decoder."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from experiments.decoding import synthetic
from experiments.decoding.pair import Pair, PairConfig
from tests import toy

ALPHA, GAMMA, ROWS = 0.7, 3, 1024


def pair(alpha=ALPHA):
  made = toy.table_pair(vocab_size=5)
  return synthetic.with_alpha(
    Pair(
      PairConfig("toy", "target", "draft"),
      None,
      made.target,
      made.target_params,
      made.draft,
      made.draft_params,
    ),
    alpha,
  )


def decode(pair, temperature):
  config = sd.SpeculativeConfig(
    gamma=GAMMA,
    max_new_tokens=64,
    eos_id=-1,
    sampling=sd.SamplingConfig(temperature),
  )
  keys = jax.random.split(jax.random.key(1), ROWS)
  inputs = np.random.default_rng(0).integers(1, 10_000, (ROWS, 4))
  return jax.device_get(
    [
      decoder(keys, jnp.asarray(inputs, jnp.int32), config)
      for decoder in (pair.speculative, pair.baseline)
    ]
  )


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_guesses_are_kept_at_the_rate(temperature):
  """Rounds are capped geometric (section 3.1), and the output is exact."""
  speculative, baseline = decode(pair(), temperature)
  np.testing.assert_array_equal(speculative.tokens, baseline.tokens)
  assert np.all(speculative.lengths == 64)
  share = np.mean(baseline.tokens == synthetic.GUESS)
  assert set(np.unique(baseline.tokens)) == {synthetic.GUESS, synthetic.OTHER}
  assert abs(share - ALPHA) < 5 * np.sqrt(ALPHA * (1 - ALPHA) / (64 * ROWS))
  # Texts differ, and so do places.
  assert len(np.unique(baseline.tokens, axis=0)) == ROWS
  kept = speculative.stats.accepted_histogram.sum(axis=0)
  wanted = ALPHA ** np.arange(GAMMA + 1)
  wanted[:-1] *= 1 - ALPHA
  rounds = kept.sum()
  error = 5 * np.sqrt(wanted * (1 - wanted) / rounds)
  # Each row's last round may be cut by its budget.
  assert np.all(np.abs(kept / rounds - wanted) < error + ROWS / rounds)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_no_guess_or_every_guess_is_kept(alpha):
  speculative, _ = decode(pair(alpha), 0.0)
  assert sd.acceptance_rate(speculative.stats) == alpha
  calls = 64 // (GAMMA + 1) if alpha else 64
  assert np.all(speculative.stats.target_calls == calls)


def test_the_model_is_not_left_out():
  """What is said depends on what was computed, so no compiler drops that."""
  broken = pair()
  params = dict(broken.target_params)
  params["model"] = jax.tree.map(lambda x: x * np.nan, params["model"])
  inputs = jnp.ones((1, 2), jnp.int32)
  for each, is_finite in ((broken.target_params, True), (params, False)):
    start = broken.target.prefill(each, inputs, 4)
    logits, _ = broken.target.extend(
      each, start.token[:, None], start.position, start.cache
    )
    assert np.all(np.isfinite(logits)) == is_finite


def test_bad_input_is_named():
  with pytest.raises(ValueError, match="alpha is 1.1"):
    pair(1.1)
  with pytest.raises(ValueError, match="no draft"):
    synthetic.with_alpha(dataclasses.replace(pair(), draft=None), 0.5)
