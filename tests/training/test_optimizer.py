import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.training import optimizer


def test_linear_schedule():
  rate = optimizer.schedule(0.4, 100, 10, 40)
  found = [float(rate(i)) for i in (0, 5, 10, 59, 60, 80, 99, 100)]
  assert found[0] < found[1] < 0.4
  assert found[2] == found[3] == found[4] == pytest.approx(0.4)
  assert found[5] == pytest.approx(0.2)
  assert found[6] == pytest.approx(0.01)
  assert found[7] == 0.0
  with pytest.raises(ValueError, match="do not fit into steps=49"):
    optimizer.schedule(0.4, 49, 10, 40)


def test_inverse_square_root_is_that_of_t5():
  rate = optimizer.inverse_square_root(0.01, 10_000)
  for step in (0, 9_999, 10_000):
    assert float(rate(step)) == pytest.approx(0.01)
  for step in (10_001, 40_000, 250_000):
    assert float(rate(step)) == pytest.approx(step**-0.5)
  with pytest.raises(ValueError, match="constant_steps is 0"):
    optimizer.inverse_square_root(0.01, 0)


def t5x_adafactor(param, gradients, rate):
  """T5X's rule, in float64; the parameter after each gradient."""
  factored = min(param.shape) >= 128
  row, column, whole = 0.0, 0.0, 0.0
  for step, gradient in enumerate(gradients):
    scale = max(np.sqrt(np.mean(param**2)), 1e-3)
    decay = 1 - (step + 1.0) ** -0.8
    square = gradient**2 + 1e-30
    if factored:
      row = decay * row + (1 - decay) * square.mean(1, keepdims=True)
      column = decay * column + (1 - decay) * square.mean(0, keepdims=True)
      update = gradient / np.sqrt(row / row.mean() * column)
    else:
      whole = decay * whole + (1 - decay) * square
      update = gradient / np.sqrt(whole)
    update = update / max(1.0, np.sqrt(np.mean(update**2)))
    param = param - rate * scale * update
    yield param


@pytest.mark.parametrize("shape", [(128, 130), (127, 130), (5,)])
def test_adafactor_is_that_of_t5x(shape):
  generator = np.random.default_rng(0)
  start = generator.normal(size=shape)
  # Of rising size, so that an update is clipped.
  gradients = [generator.normal(size=shape) * 3**i for i in range(4)]
  wanted = list(t5x_adafactor(start, gradients, 0.1))
  chosen = optimizer.adafactor(0.1)
  params = {"w": jnp.array(start, jnp.float32)}
  state = chosen.init(params)
  for gradient, after in zip(gradients, wanted, strict=True):
    updates, state = chosen.update(
      {"w": jnp.array(gradient, jnp.float32)}, state, params
    )
    params = jax.tree.map(jnp.add, params, updates)
    np.testing.assert_allclose(params["w"], after, rtol=1e-4, atol=1e-5)


def test_adafactor_keeps_sums_of_large_matrices_alone():
  params = {"large": jnp.zeros((128, 256)), "small": jnp.zeros((8, 256))}
  state = optimizer.adafactor(0.1).init(params)
  sizes = {leaf.size for leaf in jax.tree.leaves(state)}
  assert sizes == {1, 128, 256, 8 * 256}


def test_adamw_decays_matrices_alone():
  chosen = optimizer.adamw(0.1, weight_decay=0.5)
  params = {"kernel": jnp.full((2, 2), 4.0), "scale": jnp.full(2, 4.0)}
  zeros = jax.tree.map(jnp.zeros_like, params)
  updates, _ = chosen.update(zeros, chosen.init(params), params)
  np.testing.assert_allclose(updates["kernel"], -0.1 * 0.5 * 4.0)
  np.testing.assert_array_equal(updates["scale"], 0.0)


@pytest.mark.parametrize("name", ["scaled_adam", "adafactor", "adamw"])
def test_a_configured_optimizer_follows_its_schedule(name):
  config = optimizer.OptimizerConfig(
    0.5, name, warmup_steps=0, decay_steps=2, clip_norm=None
  )
  chosen = config.make(2)
  params = {"w": jnp.ones(3)}
  state = chosen.init(params)
  lengths = []
  for _ in range(3):
    updates, state = chosen.update({"w": jnp.ones(3)}, state, params)
    lengths.append(float(-updates["w"][0]))
  np.testing.assert_allclose(lengths, [0.5, 0.25, 0.0], rtol=1e-4)


def test_steps_before_the_decay_are_those_of_any_longer_run():
  linear = optimizer.OptimizerConfig(1.0, warmup_steps=2, decay_steps=30)
  same = linear.steps_before_decay(100)
  assert same == 70
  rates = [linear.schedule(steps) for steps in (100, 140)]
  assert float(rates[0](same)) == float(rates[1](same))
  assert float(rates[0](same + 1)) != float(rates[1](same + 1))
  endless = optimizer.OptimizerConfig(
    1.0, decay="inverse_square_root", decay_steps=0
  )
  assert endless.steps_before_decay(100) == float("inf")


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"name": "sgd"}, "name is 'sgd'; there are scaled_adam, adafactor"),
    ({"decay": "cosine"}, "decay is 'cosine'; there are linear"),
    ({"weight_decay": 0.1}, "weight_decay is 0.1, which scaled_adam"),
    ({"decay": "inverse_square_root"}, "decay_steps is 1000, but"),
  ],
)
def test_what_cannot_be_chosen(fields, message):
  with pytest.raises(ValueError, match=message):
    optimizer.OptimizerConfig(**{"learning_rate": 0.1, **fields})


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
