import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from specdec_jax import t5
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


def test_schedule():
  rate = optimizer.schedule(0.4, 100, 10, 40)
  found = [float(rate(i)) for i in (0, 5, 10, 59, 60, 80, 99, 100)]
  assert found[0] < found[1] < 0.4
  assert found[2] == found[3] == found[4] == pytest.approx(0.4)
  assert found[5] == pytest.approx(0.2)
  assert found[6] == pytest.approx(0.01)
  assert found[7] == 0.0
  with pytest.raises(ValueError, match="do not fit into steps=49"):
    optimizer.schedule(0.4, 49, 10, 40)


def test_large_gradients_are_clipped():
  chosen = optimizer.scaled_adam(1.0, clip_norm=1.0)
  params = {"w": jnp.zeros(2)}
  state = chosen.init(params)
  _, state = chosen.update({"w": jnp.array([3.0, 4.0])}, state, params)
  (moments,) = [
    each
    for each in jax.tree.leaves(state, is_leaf=lambda x: hasattr(x, "mu"))
    if hasattr(each, "mu")
  ]
  np.testing.assert_allclose(moments.mu["w"] / 0.1, [0.6, 0.8], rtol=1e-5)


def test_a_step_is_a_share_of_the_arrays_size():
  chosen = optimizer.scaled_adam(0.1)
  params = {"large": jnp.full(4, 20.0), "small": jnp.full(4, 0.02)}
  gradients = {"large": jnp.full(4, 0.1), "small": jnp.full(4, 0.1)}
  updates, _ = chosen.update(gradients, chosen.init(params), params)
  np.testing.assert_allclose(updates["large"], -2.0, rtol=1e-4)
  np.testing.assert_allclose(updates["small"], -0.002, rtol=1e-4)
