"""A draft whose encoder is taken away says nearly what it said."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax import t5
from specdec_jax.training import optimizer, step
from specdec_jax.training.acceptance import make_acceptance_step
from specdec_jax.training.distillation import Divergence
from specdec_jax.training.encoder_sharing import share_encoder
from tests import toy

TARGET, DRAFT = toy.T5_TARGET, toy.T5_DRAFT
TARGET_PARAMS = toy.t5_params(TARGET, 0)
DRAFT_PARAMS = toy.t5_params(DRAFT, 1)
TEXT = [toy.inputs(8, 9, seed=seed) for seed in range(4)]
INPUTS, TARGETS = (jnp.asarray(toy.inputs(6, 8, seed=seed)) for seed in (7, 8))


def shared(draft_params=DRAFT_PARAMS, target_params=TARGET_PARAMS):
  config, params, explained = share_encoder(
    DRAFT, draft_params, TARGET, target_params, TEXT
  )
  return t5.T5Model(config), params, explained


def logits(model, params, encoded=None):
  return step.token_logits(model, params, INPUTS, TARGETS, encoded=encoded)


def test_of_two_equal_encoders_one_is_enough():
  # The target's, turned: what its last norm scales is what the draft's reads.
  same = {name: TARGET_PARAMS[name] for name in ("token_embedder", "encoder")}
  draft_params = {**DRAFT_PARAMS, **same}
  model, params, explained = shared(draft_params)
  assert explained == pytest.approx(1.0, abs=1e-3)
  encoded = TARGET.encode(TARGET_PARAMS, INPUTS)
  np.testing.assert_allclose(
    logits(model, params, encoded), logits(DRAFT, draft_params), atol=2e-2
  )


def test_of_two_that_differ_a_part_is_told():
  model, params, explained = shared()
  assert 0.2 < explained < 0.99
  assert model.config == dataclasses.replace(
    DRAFT.config, num_encoder_layers=0, encoded_dim=16
  )
  shapes = jax.tree.map(jnp.shape, model.init(jax.random.key(0)))
  assert jax.tree.map(jnp.shape, params) == shapes
  encoded = TARGET.encode(TARGET_PARAMS, INPUTS)
  expected = logits(DRAFT, DRAFT_PARAMS)

  def distance(params):
    return float(
      jnp.mean(jnp.square(logits(model, params, encoded) - expected))
    )

  # Kernels that read the draft's encoding, were they left as they are.
  assert distance(params) < distance(
    {name: value for name, value in DRAFT_PARAMS.items() if name != "encoder"}
  )


def test_it_needs_text_and_two_encoders():
  with pytest.raises(ValueError, match="0 tokens to fit a matrix with 16"):
    share_encoder(DRAFT, DRAFT_PARAMS, TARGET, TARGET_PARAMS, [])
  model, params, _ = shared()
  with pytest.raises(ValueError, match="The draft has no encoder of its own"):
    share_encoder(model, params, TARGET, TARGET_PARAMS, TEXT)


def test_it_learns_from_the_target_with_the_targets_encoder():
  model, params, _ = shared()
  transformation = optimizer.OptimizerConfig(
    0.03, warmup_steps=2, decay_steps=2
  ).make(60)
  divergence = Divergence()
  train_step = step.make_train_step(
    model,
    transformation,
    teacher=TARGET,
    distillation_weight=1.0,
    divergence=divergence,
  )
  evaluate = make_acceptance_step(model, TARGET, divergence)
  before = evaluate(params, TARGET_PARAMS, INPUTS, TARGETS)
  kept = jax.tree.map(jnp.copy, TARGET_PARAMS)
  state = step.init(jax.tree.map(jnp.copy, params), transformation)
  for _ in range(60):
    state, metrics = train_step(
      state, INPUTS, TARGETS, jax.random.key(0), TARGET_PARAMS
    )
  after = evaluate(state.params, TARGET_PARAMS, INPUTS, TARGETS)
  assert after[0] < 0.5 * before[0]
  assert after[1] > before[1]
  assert float(metrics.loss) < 0.6 * float(before[0] / before[2])
  assert jax.tree.all(jax.tree.map(jnp.array_equal, kept, TARGET_PARAMS))


def test_its_loss_needs_the_encoder_too():
  model, params, _ = shared()
  encoded = TARGET.encode(TARGET_PARAMS, INPUTS)
  loss, _, tokens = step.make_eval_step(model, TARGET)(
    params, INPUTS, TARGETS, TARGET_PARAMS
  )
  log_probs = jax.nn.log_softmax(logits(model, params, encoded))
  picked = jnp.take_along_axis(log_probs, TARGETS[..., None], axis=-1)[..., 0]
  np.testing.assert_allclose(
    loss, -jnp.sum(jnp.where(TARGETS > 0, picked, 0.0)), rtol=1e-5
  )
  assert tokens == jnp.sum(TARGETS > 0)
  with pytest.raises(ValueError, match="encoded_dim is 16; it learns from"):
    step.make_eval_step(model)(params, INPUTS, TARGETS)
