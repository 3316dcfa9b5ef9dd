"""The loss of early exits, beside truncated models; and that it pays."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import specdec_jax as sd
from specdec_jax import lm, t5
from specdec_jax.training import loss, optimizer, step
from specdec_jax.training.acceptance import make_acceptance_step
from specdec_jax.training.distillation import Divergence
from specdec_jax.training.exits import ExitLoss
from tests import toy

KEY = jax.random.key(0)
INPUTS = jnp.array([[3, 4, 5, 1], [6, 7, 1, 0], [8, 1, 0, 0]])
TARGETS = jnp.array([[5, 4, 3, 1], [7, 6, 1, 0], [8, 1, 0, 0]])
SIZES = {
  "vocab_size": 16,
  "emb_dim": 16,
  "num_heads": 2,
  "head_dim": 8,
  "mlp_dim": 16,
  "logits_via_embedding": False,
  "dropout_rate": 0.0,
}
T5 = t5.T5Model(
  t5.T5Config(num_encoder_layers=1, num_decoder_layers=3, **SIZES)
)
LM = lm.LMModel(lm.LMConfig(num_layers=3, **SIZES))
MODELS = pytest.mark.parametrize("model", [T5, LM], ids=["t5", "lm"])


def batch_of(model):
  return (jnp.zeros_like(INPUTS) if model is LM else INPUTS), TARGETS


def objective_of_truncated_models(model, params, **options):
  """(1 - share) of the whole, and the rest by depth: exits after 1 and 2."""
  inputs, targets = batch_of(model)
  losses = []
  for count in (1, 2, 3):
    exit_, exit_params = t5.self_draft(model, params, range(count))
    logits = step.token_logits(
      exit_,
      exit_params,
      inputs,
      targets,
      encoded=model.encode(params, inputs) if model is T5 else None,
    )
    losses.append(
      loss.cross_entropy(logits, targets, targets > 0, **options) / 9
    )
  one, two, whole = losses
  return 0.6 * whole + 0.4 * (one / 3 + 2 * two / 3), whole


@MODELS
def test_gradient_and_loss_are_those_of_truncated_models(model):
  params, options = model.init(KEY), {"z_loss": 1e-2, "label_smoothing": 0.1}
  train_step = step.make_train_step(
    model, optax.sgd(1.0), exit_loss=ExitLoss((1, 2), share=0.4), **options
  )
  gradients = jax.jit(
    jax.grad(
      lambda params: objective_of_truncated_models(model, params, **options)[0]
    )
  )(params)
  _, plain = objective_of_truncated_models(model, params)
  before = jax.tree.map(jnp.copy, params)
  state, metrics = train_step(
    step.init(params, optax.sgd(1.0)), *batch_of(model), KEY
  )
  assert float(metrics.loss) == pytest.approx(float(plain), rel=1e-5)
  jax.tree.map(
    lambda old, new, gradient: np.testing.assert_allclose(
      old - new, gradient, atol=2e-5
    ),
    before,
    state.params,
    gradients,
  )
  # It is not what the whole model alone would give.
  plain_step = step.make_train_step(model, optax.sgd(1.0), **options)
  other, _ = plain_step(
    step.init(before, optax.sgd(1.0)), *batch_of(model), KEY
  )
  norm = "decoder_norm"
  assert not np.allclose(
    state.params["decoder"][norm]["scale"],
    other.params["decoder"][norm]["scale"],
    atol=1e-3,
  )


def test_the_mean_weighs_exits_by_depth():
  objective = ExitLoss((1, 3), share=0.5).mix(
    jnp.float32(8.0), [jnp.float32(4.0), jnp.float32(16.0)]
  )
  assert float(objective) == 0.5 * 8 + 0.5 * (1 * 4 + 3 * 16) / 4


def trained(exit_loss, model=T5, steps=60):
  chosen = optimizer.scaled_adam(0.02)
  state = step.init(model.init(KEY), chosen)
  train_step = step.make_train_step(model, chosen, exit_loss=exit_loss)
  for _ in range(steps):
    state, metrics = train_step(state, *batch_of(model), KEY)
  return state.params, float(metrics.loss)


def exit_alpha(model, params):
  """How often the first layer's guess would be kept, teacher-forced."""
  draft, draft_params = t5.self_draft(model, params, (0,))
  _, kept, tokens = make_acceptance_step(draft, model, Divergence())(
    draft_params, params, *batch_of(model)
  )
  return float(kept) / int(tokens)


@MODELS
def test_it_teaches_the_exit_and_not_at_the_models_expense(model):
  plain, plain_loss = trained(None, model)
  taught, taught_loss = trained(ExitLoss((1,)), model)
  assert exit_alpha(model, taught) > exit_alpha(model, plain) + 0.2
  assert taught_loss < plain_loss + 0.1


def test_decoding_keeps_more_guesses_of_a_taught_exit():
  def kept(params):
    models = toy.Pair(T5, params, *t5.self_draft(T5, params, (0,)))
    options = {"max_new_tokens": 4, "temperature": 0.0}
    output = models.speculative(INPUTS, gamma=3, **options)
    baseline = models.baseline(INPUTS, **options)
    np.testing.assert_array_equal(output.tokens, baseline.tokens)
    return sd.acceptance_rate(output.stats)

  plain, _ = trained(None)
  taught, _ = trained(ExitLoss((1,)))
  assert kept(taught) > kept(plain) + 0.2


@MODELS
def test_the_deepest_layers_are_skipped_most(model):
  exit_loss = ExitLoss((1,), layer_dropout=0.6)
  rates = exit_loss.skip_rates(model)
  np.testing.assert_allclose(rates, (0.0, 0.6 * (2**0.5 - 1), 0.6))
  assert ExitLoss((1,)).skip_rates(model) == ()


@MODELS
def test_a_skipped_layer_hands_on_what_it_was_given(model):
  params, batch = model.init(KEY), batch_of(model)
  exits = (1, 2)

  def logits(rates, key=KEY):
    return step.exit_logits(
      model, params, *batch, exits, dropout_key=key, layer_dropout=rates
    )

  one, two, whole = logits(())
  for found, expected in (
    (logits((0.0, 1.0, 0.0)), (one, one, None)),
    (logits((0.0, 0.0, 1.0)), (one, two, two)),
    (logits((0.0, 0.0, 0.0)), (one, two, whole)),
    (logits((1.0, 1.0, 1.0), key=None), (one, two, whole)),
  ):
    for a, b in zip(found, expected, strict=True):
      if b is not None:
        np.testing.assert_array_equal(a, b)
  # Rows decide for themselves, and the key decides for them.
  half = [logits((0.0, 0.0, 0.5), jax.random.key(i))[-1] for i in range(8)]
  skips = np.array([np.all(each == two, axis=(1, 2)) for each in half])
  keeps = np.array([np.all(each == whole, axis=(1, 2)) for each in half])
  np.testing.assert_array_equal(skips, ~keeps)
  assert 4 < skips.sum() < 20
  assert len({tuple(row) for row in skips.tolist()}) > 2


def test_layers_are_dropped_in_training_by_the_step():
  exit_loss = ExitLoss((1,), layer_dropout=0.5)
  chosen = optax.sgd(0.0)
  train_step = step.make_train_step(T5, chosen, exit_loss=exit_loss)

  def loss_of(number):
    state = step.init(T5.init(KEY), chosen)._replace(step=jnp.int32(number))
    return float(train_step(state, INPUTS, TARGETS, KEY)[1].loss)

  assert loss_of(0) == loss_of(0)
  assert len({loss_of(number) for number in range(6)}) > 2


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"exits": ()}, r"exits is \(\)"),
    ({"exits": (2, 1)}, r"exits is \(2, 1\)"),
    ({"exits": (0, 1)}, r"exits is \(0, 1\)"),
    ({"exits": (1.0,)}, r"exits is \(1\.0,\)"),
    ({"share": 0.0}, r"share is 0\.0"),
    ({"share": 1.0}, r"share is 1\.0"),
    ({"layer_dropout": 1.0}, r"layer_dropout is 1\.0"),
  ],
)
def test_bad_settings_are_refused(fields, message):
  with pytest.raises(ValueError, match=message):
    ExitLoss(**{"exits": (1,), **fields})


def test_exits_that_a_model_has_not_are_refused():
  with pytest.raises(ValueError, match=r"\(1, 3\), and the model's .* 3 lay"):
    step.make_train_step(T5, optax.sgd(1.0), exit_loss=ExitLoss((1, 3)))
  draft = dataclasses.replace(T5, config=T5.config.shortened(2))
  with pytest.raises(ValueError, match="no encoder of its own"):
    step.make_train_step(draft, optax.sgd(1.0), exit_loss=ExitLoss((1,)))
