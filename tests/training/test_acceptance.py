"""What training reports of a draft and its target."""

import jax
import jax.numpy as jnp
import optax
import pytest

from specdec_jax import t5
from specdec_jax.training import step
from specdec_jax.training.acceptance import make_acceptance_step
from specdec_jax.training.distillation import Divergence


def make_model(emb_dim):
  return t5.T5Model(
    t5.T5Config(
      vocab_size=16,
      emb_dim=emb_dim,
      num_heads=2,
      head_dim=8,
      mlp_dim=16,
      num_encoder_layers=1,
      num_decoder_layers=1,
      mlp_activations=("gelu", "linear"),
      logits_via_embedding=False,
      dropout_rate=0.0,
    )
  )


DRAFT, TARGET = make_model(16), make_model(24)
INPUTS = jnp.array([[3, 4, 5, 1], [6, 7, 1, 0], [8, 1, 0, 0]])
TARGETS = jnp.array([[5, 4, 3, 1], [7, 6, 1, 0], [8, 1, 0, 0]])
DIVERGENCE = Divergence("tvd")


def params():
  return DRAFT.init(jax.random.key(0)), TARGET.init(jax.random.key(7))


def distance(draft_params, target_params):
  """The mean variation over the tokens that count."""
  logits, wanted = (
    step.token_logits(model, each, INPUTS, TARGETS)
    for model, each in ((DRAFT, draft_params), (TARGET, target_params))
  )
  return float(DIVERGENCE(logits, wanted, TARGETS > 0)) / 9


def test_sums_of_a_batch():
  both = params()
  divergence, accepted, tokens = make_acceptance_step(
    DRAFT, TARGET, DIVERGENCE
  )(*both, INPUTS, TARGETS)
  assert int(tokens) == 9
  assert float(divergence) / 9 == pytest.approx(distance(*both), rel=1e-5)
  # At temperature 1 the variation is what is not accepted.
  assert float(accepted + divergence) == pytest.approx(9.0, rel=1e-5)
  assert 0.1 < float(accepted) / 9 < 0.9


def test_a_step_that_learns_from_the_teacher_alone_reports_the_divergence():
  draft_params, target_params = params()
  wanted = distance(draft_params, target_params)
  chosen = optax.sgd(0.0)
  train_step = step.make_train_step(
    DRAFT,
    chosen,
    teacher=TARGET,
    distillation_weight=1.0,
    divergence=DIVERGENCE,
    microbatches=3,
  )
  _, metrics = train_step(
    step.init(draft_params, chosen),
    INPUTS,
    TARGETS,
    jax.random.key(0),
    target_params,
  )
  assert float(metrics.loss) == pytest.approx(wanted, rel=1e-5)
