import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from specdec_jax import lm, t5
from specdec_jax.training import loss, optimizer, step
from specdec_jax.training.distillation import Divergence


def make_model(**changes):
  sizes = {
    "vocab_size": 16,
    "emb_dim": 16,
    "num_heads": 2,
    "head_dim": 8,
    "mlp_dim": 16,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "mlp_activations": ("gelu", "linear"),
    "logits_via_embedding": False,
    "dropout_rate": 0.0,
  }
  return t5.T5Model(t5.T5Config(**{**sizes, **changes}))


MODEL = make_model()
INPUTS = jnp.array([[3, 4, 5, 1], [6, 7, 1, 0], [8, 1, 0, 0]])
TARGETS = jnp.array([[5, 4, 3, 1], [7, 6, 1, 0], [8, 1, 0, 0]])
KEY = jax.random.key(0)


def train(steps, *, model=MODEL, make=optimizer.scaled_adam, **options):
  chosen = make(0.03)
  state = step.init(model.init(KEY), chosen)
  train_step = step.make_train_step(model, chosen, **options)
  losses = []
  for _ in range(steps):
    state, metrics = train_step(state, INPUTS, TARGETS, KEY)
    losses.append(float(metrics.loss))
  return state, losses


def test_it_learns_to_reverse():
  state, losses = train(60)
  assert losses[0] > 2.0
  assert losses[-1] < 0.1
  _, hits, tokens = step.make_eval_step(MODEL)(state.params, INPUTS, TARGETS)
  assert int(hits) == int(tokens) == 9
  assert int(state.step) == 60


def test_the_first_loss_is_the_models_own():
  state = step.init(MODEL.init(KEY), optax.sgd(0.1))
  decoder_inputs = jnp.array([[0, 5, 4, 3], [0, 7, 6, 1], [0, 8, 1, 0]])
  encoded = MODEL.encode(state.params, INPUTS)
  logits = MODEL.decode(state.params, encoded, INPUTS, decoder_inputs)
  wanted = loss.cross_entropy(logits, TARGETS, TARGETS > 0) / 9
  _, losses = train(1)
  assert losses[0] == pytest.approx(float(wanted), rel=1e-5)


def test_padding_changes_neither_loss_nor_update():
  chosen = optax.sgd(1.0)
  train_step = step.make_train_step(MODEL, chosen, z_loss=1e-2)
  updated = []
  for more in ((0, 0), (2, 5)):
    padding = ((0, more[0]), (0, more[1]))
    state = step.init(MODEL.init(KEY), chosen)
    state, metrics = train_step(
      state, jnp.pad(INPUTS, padding), jnp.pad(TARGETS, padding), KEY
    )
    assert int(metrics.tokens) == 9
    updated.append((float(metrics.loss), state.params))
  (loss_a, params_a), (loss_b, params_b) = updated
  assert loss_a == pytest.approx(loss_b, rel=1e-6)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5),
    params_a,
    params_b,
  )


def test_dropout_depends_on_the_step_and_the_key():
  model = make_model(dropout_rate=0.5)
  chosen = optax.sgd(0.0)
  train_step = step.make_train_step(model, chosen)

  def loss_of(number, key):
    state = step.init(model.init(KEY), chosen)._replace(step=jnp.int32(number))
    return float(train_step(state, INPUTS, TARGETS, key)[1].loss)

  assert loss_of(0, KEY) == loss_of(0, KEY)
  assert loss_of(0, KEY) != loss_of(1, KEY)
  assert loss_of(0, KEY) != loss_of(0, jax.random.key(1))


@pytest.mark.parametrize("kind", ["forward_kl", "jsd", "hybrid"])
def test_a_student_comes_to_imitate_its_teacher(kind):
  teacher = make_model(emb_dim=24)
  teacher_params = teacher.init(jax.random.key(7))
  wanted = step.token_logits(teacher, teacher_params, INPUTS, TARGETS)
  chosen = optimizer.scaled_adam(0.03)
  state = step.init(MODEL.init(KEY), chosen)
  train_step = step.make_train_step(
    MODEL,
    chosen,
    teacher=teacher,
    distillation_weight=1.0,
    divergence=Divergence(kind),
  )

  def divergence(params):
    logits = step.token_logits(MODEL, params, INPUTS, TARGETS)
    return float(Divergence(kind)(logits, wanted, TARGETS > 0)) / 9

  before = divergence(state.params)
  for _ in range(80):
    state, _ = train_step(state, INPUTS, TARGETS, KEY, teacher_params)
  assert divergence(state.params) < 0.1 * before


def test_the_objective_is_the_mean_of_text_and_teacher():
  teacher = make_model(emb_dim=24)
  teacher_params = teacher.init(jax.random.key(7))

  def update(**options):
    chosen = optax.sgd(1.0)
    train_step = step.make_train_step(MODEL, chosen, **options)
    state = step.init(MODEL.init(KEY), chosen)
    state, _ = train_step(state, INPUTS, TARGETS, KEY, teacher_params)
    return jax.tree.leaves(state.params)

  text = update()
  imitation = update(teacher=teacher, distillation_weight=1.0)
  both = update(teacher=teacher, distillation_weight=0.25)
  for a, b, mixed in zip(text, imitation, both, strict=True):
    np.testing.assert_allclose(mixed, 0.75 * a + 0.25 * b, atol=1e-5)


LM = lm.LMModel(
  lm.LMConfig(
    vocab_size=16,
    emb_dim=16,
    num_heads=2,
    num_layers=1,
    head_dim=8,
    mlp_dim=16,
    dropout_rate=0.0,
  )
)
NO_PROMPT = jnp.zeros_like(TARGETS)


@pytest.mark.parametrize("model", [MODEL, LM], ids=["t5", "lm"])
def test_microbatches_are_the_batch(model):
  # Rows of 4, 3, 2, 5, 1 and 3 tokens: parts of different fill.
  inputs = jnp.array([[3, 4, 5, 1, 0], [6, 7, 1, 0, 0], [8, 1, 0, 0, 0]] * 2)
  targets = jnp.array(
    [
      [5, 4, 3, 1, 0],
      [7, 6, 1, 0, 0],
      [8, 1, 0, 0, 0],
      [9, 9, 2, 4, 1],
      [1, 0, 0, 0, 0],
      [4, 4, 1, 0, 0],
    ]
  )
  if model is LM:
    inputs = jnp.zeros_like(inputs)
  chosen = optax.sgd(1.0)
  found = []
  for microbatches in (1, 2, 3):
    train_step = step.make_train_step(
      model,
      chosen,
      z_loss=1e-2,
      label_smoothing=0.1,
      microbatches=microbatches,
    )
    state = step.init(model.init(KEY), chosen)
    state, metrics = train_step(state, inputs, targets, KEY)
    assert int(metrics.tokens) == 18
    found.append((float(metrics.loss), float(metrics.grad_norm), state.params))
  for loss_, norm, params in found[1:]:
    assert loss_ == pytest.approx(found[0][0], rel=1e-5)
    assert norm == pytest.approx(found[0][1], rel=1e-5)
    jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5),
      params,
      found[0][2],
    )


def test_microbatches_have_dropout_of_their_own():
  model = make_model(dropout_rate=0.5)
  chosen = optax.sgd(1.0)
  train_step = step.make_train_step(model, chosen, microbatches=2)
  rows = jnp.tile(INPUTS[:1], (2, 1)), jnp.tile(TARGETS[:1], (2, 1))
  _, both = train_step(step.init(model.init(KEY), chosen), *rows, KEY)
  keys = [
    jax.random.fold_in(jax.random.fold_in(KEY, 0), number) for number in (0, 1)
  ]

  def loss_with(key):
    logits = step.token_logits(
      model, model.init(KEY), rows[0][:1], rows[1][:1], dropout_key=key
    )
    return float(loss.cross_entropy(logits, rows[1][:1], rows[1][:1] > 0)) / 4

  apart = [loss_with(key) for key in keys]
  assert apart[0] != apart[1]
  assert float(both.loss) == pytest.approx(np.mean(apart), rel=1e-5)


def test_rows_that_microbatches_do_not_divide():
  train_step = step.make_train_step(MODEL, optax.sgd(1.0), microbatches=2)
  state = step.init(MODEL.init(KEY), optax.sgd(1.0))
  with pytest.raises(ValueError, match="3 rows is not to be cut into 2"):
    train_step(state, INPUTS, TARGETS, KEY)


def test_a_language_model_learns_all_tokens_of_a_text():
  chosen = optimizer.scaled_adam(0.03)
  state = step.init(LM.init(KEY), chosen)
  train_step = step.make_train_step(LM, chosen)
  # The first loss is that of the model's own scores.
  logits = LM.decode(state.params, step.shift_right(TARGETS))
  wanted = loss.cross_entropy(logits, TARGETS, TARGETS > 0) / 9
  losses = []
  for _ in range(150):
    state, metrics = train_step(state, NO_PROMPT, TARGETS, KEY)
    losses.append(float(metrics.loss))
  assert losses[0] == pytest.approx(float(wanted), rel=1e-5)
  assert int(metrics.tokens) == 9
  # What is left is which of three texts begins: log 3 in one of three tokens.
  assert losses[-1] == pytest.approx(np.log(3) / 3, abs=0.05)


def test_a_language_models_prompt_is_read_and_does_not_count():
  prompts = jnp.array([[5, 4, 0, 0], [7, 0, 0, 0]])
  rest = jnp.array([[0, 0, 3, 1], [0, 6, 1, 0]])
  params = LM.init(KEY)
  found = step.token_logits(LM, params, prompts, rest)
  whole = jnp.array([[0, 5, 4, 3], [0, 7, 6, 1]])
  np.testing.assert_allclose(found, LM.decode(params, whole), atol=1e-6)
  _, _, tokens = step.make_eval_step(LM)(params, prompts, rest)
  assert int(tokens) == 4
