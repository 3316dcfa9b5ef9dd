"""Drafts without an encoder, which read what the target's returned."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax import lm, t5
from tests import toy

INPUTS = toy.inputs(4, 7)
TARGET = toy.T5_TARGET
PARAMS = toy.t5_params(TARGET, 0)
WIDTH = TARGET.config.emb_dim


def without_encoder(**changes):
  fields = {"num_encoder_layers": 0, "encoded_dim": WIDTH, **changes}
  return t5.T5Model(dataclasses.replace(TARGET.config, **fields))


TWIN = without_encoder()
TWIN_PARAMS = {name: PARAMS[name] for name in PARAMS if name != "encoder"}
SMALL = without_encoder(emb_dim=8, num_decoder_layers=1)


def pair(draft, params):
  return toy.Pair(TARGET, PARAMS, draft, params)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_targets_own_decoder_is_always_right(temperature):
  options = {"gamma": 3, "max_new_tokens": 12, "temperature": temperature}
  output = pair(TWIN, TWIN_PARAMS).speculative(INPUTS, eos_id=-1, **options)
  # Sums in another order: a guess at the edge may fail, hardly two.
  examined = np.sum(output.stats.examined)
  assert examined - np.sum(output.stats.accepted) <= 1
  assert examined >= 4 * 9


def test_greedy_output_is_the_baselines():
  speculative = pair(SMALL, SMALL.init(jax.random.key(3)))
  options = {"max_new_tokens": 12, "temperature": 0.0}
  found = speculative.speculative(INPUTS, gamma=3, **options)
  expected = speculative.baseline(INPUTS, **options)
  np.testing.assert_array_equal(found.tokens, expected.tokens)
  np.testing.assert_array_equal(found.lengths, expected.lengths)


def test_a_row_depends_neither_on_its_neighbours_nor_on_padding():
  models = pair(SMALL, SMALL.init(jax.random.key(3)))
  keys = jax.random.split(jax.random.key(5), len(INPUTS))
  options = {"gamma": 2, "max_new_tokens": 10, "temperature": 1.0}
  together = models.speculative(INPUTS, keys, **options)
  for row in range(len(INPUTS)):
    wider = np.pad(INPUTS[row : row + 1], ((0, 0), (0, 3)))
    alone = models.speculative(wider, keys[row : row + 1], **options)
    np.testing.assert_array_equal(alone.tokens[0], together.tokens[row])


def test_alpha_of_the_targets_own_decoder_is_1():
  tokens = pair(TWIN, TWIN_PARAMS).baseline(
    INPUTS, max_new_tokens=6, temperature=1.0
  )
  betas = sd.acceptance_probabilities(
    INPUTS,
    tokens.tokens,
    target=TARGET,
    target_params=PARAMS,
    drafter=sd.model_drafter(TWIN),
    draft_params=TWIN_PARAMS,
    sampling=sd.SamplingConfig(1.0),
  )
  np.testing.assert_allclose(betas, 1.0, atol=1e-5)


def test_it_serves_where_another_drafter_abstains():
  drafter = sd.fallback_drafter(
    sd.prompt_lookup_drafter(48, min_ngram=2), sd.model_drafter(TWIN)
  )
  output = sd.speculative_generate(
    jax.random.key(0),
    INPUTS,
    target=TARGET,
    target_params=PARAMS,
    drafter=drafter,
    draft_params=(None, TWIN_PARAMS),
    config=toy.config(gamma=2, max_new_tokens=10, temperature=0.0),
  )
  expected = pair(TWIN, TWIN_PARAMS).baseline(
    INPUTS, max_new_tokens=10, temperature=0.0
  )
  np.testing.assert_array_equal(output.tokens, expected.tokens)
  assert np.sum(output.stats.accepted) > 0


def test_several_decodes_of_each_input():
  output = pair(TWIN, TWIN_PARAMS).speculative(
    INPUTS, gamma=2, max_new_tokens=6, num_decodes=2
  )
  assert output.tokens.shape == (4, 2, 6)


def test_it_is_saved_and_loaded(tmp_path):
  params = SMALL.init(jax.random.key(3))
  t5.save(tmp_path / "draft", SMALL, params)
  model, loaded = t5.load(None, tmp_path / "draft")
  assert model == SMALL
  assert model.shares_encoder
  assert jax.tree.all(jax.tree.map(jnp.array_equal, loaded, params))


def test_it_computes_nothing_alone():
  params = SMALL.init(jax.random.key(3))
  with pytest.raises(ValueError, match=r"no encoder of its own.*model_drafter"):
    SMALL.prefill(params, jnp.asarray(INPUTS), 4)
  with pytest.raises(ValueError, match="no encoder of its own"):
    toy.Pair(SMALL, params, TARGET, PARAMS).baseline(INPUTS, max_new_tokens=2)


def test_an_encoding_of_another_width_is_refused():
  draft = without_encoder(encoded_dim=24)
  with pytest.raises(ValueError, match="of width 24, and is given one of 16"):
    pair(draft, draft.init(jax.random.key(3))).speculative(
      INPUTS, max_new_tokens=4
    )


def test_a_target_without_an_encoder_is_refused():
  target = lm.LMModel(
    lm.LMConfig(
      vocab_size=48,
      emb_dim=16,
      num_heads=2,
      num_layers=1,
      head_dim=8,
      mlp_dim=16,
    )
  )
  models = toy.Pair(target, target.init(jax.random.key(0)), TWIN, TWIN_PARAMS)
  with pytest.raises(ValueError, match="of width 16, and is given none"):
    models.speculative(INPUTS, max_new_tokens=4)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"num_encoder_layers": 0}, "num_encoder_layers is 0 and encoded_dim None"),
    ({"encoded_dim": 16}, "num_encoder_layers is 1 and encoded_dim 16"),
    ({"num_encoder_layers": 0, "encoded_dim": 0}, "encoded_dim is 0"),
    ({"num_encoder_layers": 0, "encoded_dim": 1.5}, r"encoded_dim is 1\.5"),
    ({"num_encoder_layers": -1}, "num_encoder_layers is -1"),
    ({"num_decoder_layers": 0}, "num_decoder_layers is 0"),
  ],
)
def test_half_a_shape_is_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    dataclasses.replace(TARGET.config, **changes)
