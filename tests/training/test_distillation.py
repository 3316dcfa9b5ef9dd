"""Divergences against NumPy in float64, and their gradients."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax

import specdec_jax as sd
from specdec_jax.sampling import make_sampler
from specdec_jax.training import distillation
from specdec_jax.training.distillation import DIVERGENCES, Divergence
from tests.enumeration import standardise

generator = np.random.default_rng(0)
DRAFT = jnp.array(generator.normal(size=(2, 3, 7)) * 2, jnp.float32)
TARGET = jnp.array(generator.normal(size=(2, 3, 7)) * 2, jnp.float32)
MASK = jnp.array([[True, True, False], [True, False, False]])
KINDS = tuple(DIVERGENCES)
GREEDY = sd.SamplingConfig(temperature=0.0)


def wanted(kind, p, q, eta=3.0):
  """The docstring's table, in float64."""

  def kl(p, q):
    ratio = np.divide(p, q, where=p > 0, out=np.ones_like(p))
    return (p * np.log(ratio)).sum(-1)

  beta = np.minimum(p, q).sum(-1)
  if kind == "hybrid":
    share = np.exp(-eta * beta)
    return share * kl(p, q) + (1 - share) * (1 - beta)
  return {
    "forward_kl": lambda: kl(p, q),
    "reverse_kl": lambda: kl(q, p),
    "jsd": lambda: (kl(p, (p + q) / 2) + kl(q, (p + q) / 2)) / 2,
    "tvd": lambda: 1 - beta,
    "alpha": lambda: -np.log(beta),
  }[kind]()


def law(logits, temperature=1.0):
  return np.exp(log_softmax(np.float64(logits) / temperature, -1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_sums_against_numpy(kind, temperature):
  sampling = sd.SamplingConfig(temperature=temperature)
  divergence = Divergence(kind, sampling, eta=2.0)
  terms = wanted(kind, law(TARGET, temperature), law(DRAFT, temperature), 2.0)
  found = divergence(DRAFT, TARGET, MASK)
  assert float(found) == pytest.approx(terms[MASK].sum(), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_laws_are_at_distance_0_whatever_the_constant(kind):
  shift = jnp.arange(6.0).reshape(2, 3, 1)
  everywhere = jnp.ones_like(MASK)
  divergence = Divergence(kind)
  same = divergence(TARGET + shift, TARGET, everywhere)
  assert float(same) == pytest.approx(0.0, abs=3e-6)
  gradient = jax.grad(divergence)(TARGET, TARGET, everywhere)
  np.testing.assert_allclose(gradient, 0.0, atol=1e-6)
  # A shift of either changes nothing where the laws differ.
  moved = divergence(DRAFT + shift, TARGET - shift, MASK)
  assert float(moved) == pytest.approx(
    float(divergence(DRAFT, TARGET, MASK)), rel=1e-5
  )


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_finite_differences(kind):
  gradient = jax.grad(Divergence(kind))(DRAFT, TARGET, MASK)
  p = law(TARGET)
  # The hybrid's share is a constant to its gradient.
  share = np.exp(-3.0 * np.minimum(p, law(DRAFT)).sum(-1))

  def value(logits):
    q = law(logits)
    if kind == "hybrid":
      kl, distance = wanted("forward_kl", p, q), wanted("tvd", p, q)
      terms = share * kl + (1 - share) * distance
    else:
      terms = wanted(kind, p, q)
    return terms[MASK].sum()

  step, logits = 1e-6, np.float64(DRAFT)
  for index in np.ndindex(DRAFT.shape):
    change = np.zeros(DRAFT.shape)
    change[index] = step
    slope = (value(logits + change) - value(logits - change)) / (2 * step)
    assert float(gradient[index]) == pytest.approx(slope, abs=2e-5)


def test_the_gradients_of_alpha_and_of_the_variation_point_alike():
  def gradient(kind):
    return np.asarray(jax.grad(Divergence(kind))(DRAFT, TARGET, MASK))

  beta = np.minimum(law(TARGET), law(DRAFT)).sum(-1, keepdims=True)
  assert np.abs(gradient("tvd")[MASK]).max() > 0.01
  np.testing.assert_allclose(
    gradient("alpha"), gradient("tvd") / beta, atol=1e-6
  )


def test_alpha_has_a_gradient_where_the_variation_has_none():
  target = jnp.array([[[200.0, 0.0, 0.0]]])
  draft = jnp.array([[[0.0, 150.0, 140.0]]])
  mask = jnp.ones((1, 1), bool)
  none = jax.grad(Divergence("tvd"))(draft, target, mask)
  np.testing.assert_allclose(none, 0.0, atol=1e-6)
  value, gradient = jax.value_and_grad(Divergence("alpha"))(draft, target, mask)
  # beta is the draft's probability of token 0, far below float32's smallest.
  assert float(value) == pytest.approx(150.0 + np.log1p(np.exp(-10)), abs=1e-3)
  np.testing.assert_allclose(
    gradient[0, 0], -np.array([1, 0, 0]) + law(draft)[0, 0], atol=1e-3
  )


def test_the_target_gets_no_gradient():
  for kind in KINDS:
    gradient = jax.grad(Divergence(kind), argnums=1)(DRAFT, TARGET, MASK)
    assert not gradient.any(), kind


@pytest.mark.parametrize("kind", KINDS)
def test_masked_positions_count_nothing_whatever_they_hold(kind):
  divergence = Divergence(kind)
  value, gradient = jax.value_and_grad(divergence)(DRAFT, TARGET, MASK)
  hole = jnp.where(MASK[..., None], DRAFT, jnp.nan)
  bad = jnp.where(MASK[..., None], TARGET, -jnp.inf)
  same, same_gradient = jax.value_and_grad(divergence)(hole, bad, MASK)
  assert float(same) == float(value)
  np.testing.assert_array_equal(same_gradient, gradient)
  assert np.abs(np.asarray(gradient)[MASK]).sum(-1).min() > 0
  assert not np.asarray(gradient)[~np.asarray(MASK)].any()


@pytest.mark.parametrize("kind", KINDS)
def test_ids_that_both_rule_out_are_as_if_they_were_not_there(kind):
  def padded(logits):
    return jnp.pad(logits, ((0, 0), (0, 0), (0, 2)), constant_values=-jnp.inf)

  divergence = Divergence(kind)
  value, gradient = jax.value_and_grad(divergence)(DRAFT, TARGET, MASK)
  same, wider = jax.value_and_grad(divergence)(
    padded(DRAFT), padded(TARGET), MASK
  )
  assert float(same) == pytest.approx(float(value), rel=1e-6)
  np.testing.assert_allclose(wider[..., :-2], gradient, atol=1e-7)
  assert not wider[..., -2:].any()


@pytest.mark.parametrize("kind", ["forward_kl", "jsd", "tvd", "alpha"])
def test_a_zero_of_the_target_is_no_trouble(kind):
  target = TARGET.at[..., 2].set(-jnp.inf)
  terms = wanted(kind, law(target), law(DRAFT))
  value, gradient = jax.value_and_grad(Divergence(kind))(DRAFT, target, MASK)
  assert float(value) == pytest.approx(terms[MASK].sum(), rel=1e-5)
  assert np.isfinite(gradient).all()
  assert gradient[0, 0, 2] > 0  # What cannot come is to become less likely.


def test_divergences_that_have_no_finite_value_say_so():
  target = TARGET.at[..., 2].set(-jnp.inf)
  assert Divergence("reverse_kl")(DRAFT, target, MASK) == jnp.inf
  draft = DRAFT.at[..., 2].set(-jnp.inf)
  assert Divergence("forward_kl")(draft, TARGET, MASK) == jnp.inf


@pytest.mark.parametrize(
  "kind", [kind for kind in KINDS if kind != "reverse_kl"]
)
def test_at_temperature_0_the_target_is_its_argmax(kind):
  tied = TARGET.at[0, 0].set(jnp.array([0.0, 5.0, 1.0, 5.0, 0.0, 0.0, 0.0]))
  choice = np.argmax(tied, -1)
  assert choice[0, 0] == 1  # The lowest id on ties.
  terms = wanted(kind, np.eye(7)[choice], law(DRAFT))
  if kind in ("forward_kl", "alpha"):  # Both the choice's cross entropy.
    hit = np.take_along_axis(law(DRAFT), choice[..., None], -1)[..., 0]
    np.testing.assert_allclose(terms, -np.log(hit))
  value, gradient = jax.value_and_grad(Divergence(kind, GREEDY))(
    DRAFT, tied, MASK
  )
  assert float(value) == pytest.approx(terms[MASK].sum(), rel=1e-5)
  assert np.isfinite(gradient).all()
  assert gradient[0, 0, 1] < 0


@pytest.mark.parametrize("kind", ["jsd", "tvd"])
def test_filters_are_the_samplers(kind):
  sampling = sd.SamplingConfig(temperature=0.8, top_k=4, top_p=0.9)
  divergence = Divergence(kind, sampling)
  sampler = make_sampler(sampling, 2)
  log_p, log_q = divergence.log_laws(DRAFT, TARGET)
  np.testing.assert_allclose(jnp.exp(log_p), sampler.probs(TARGET), atol=1e-6)
  np.testing.assert_allclose(jnp.exp(log_q), sampler.probs(DRAFT), atol=1e-6)
  assert (np.asarray(log_p) == -np.inf).any()
  terms = wanted(
    kind, *(np.float64(sampler.probs(each)) for each in (TARGET, DRAFT))
  )
  value, gradient = jax.value_and_grad(divergence)(DRAFT, TARGET, MASK)
  assert float(value) == pytest.approx(terms[MASK].sum(), rel=1e-5)
  assert np.isfinite(gradient).all()
  assert not gradient[np.asarray(log_q) == -np.inf].any()


def test_a_low_temperature_overflows_nothing():
  sampling = sd.SamplingConfig(temperature=2e-4)
  logits = DRAFT * 1e5
  value, gradient = jax.value_and_grad(Divergence("alpha", sampling))(
    logits, TARGET * 1e5, MASK
  )
  assert np.isfinite(value)
  assert np.isfinite(gradient).all()


def test_bfloat16_is_computed_in_float32():
  draft, target = (x.astype(jnp.bfloat16) for x in (DRAFT, TARGET))
  found = Divergence("jsd")(draft, target, MASK)
  assert found.dtype == jnp.float32
  same = Divergence("jsd")(
    draft.astype(jnp.float32), target.astype(jnp.float32), MASK
  )
  assert float(found) == float(same)


@pytest.mark.parametrize(
  "sampling",
  [
    sd.SamplingConfig(),
    sd.SamplingConfig(temperature=0.5, top_k=3),
    GREEDY,
  ],
)
def test_acceptance_is_the_mass_that_decoding_shares(sampling):
  p, q = (standardise(each, sampling) for each in (TARGET, DRAFT))
  beta = np.minimum(p, q).sum(-1)
  kind = "tvd" if sampling.top_k else "forward_kl"
  found = Divergence(kind, sampling).acceptance(DRAFT, TARGET, MASK)
  assert float(found) == pytest.approx(beta[MASK].sum(), abs=1e-5)


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ({"kind": "kl"}, r"kind is 'kl'; there are 'forward_kl', 'reverse_kl'"),
    ({"sampling": 1.0}, "sampling is 1.0; give a SamplingConfig"),
    (
      {"sampling": sd.SamplingConfig(temperature=(0.0, 1.0))},
      r"temperatures \(0\.0, 1\.0\); give one number",
    ),
    ({"kind": "hybrid", "eta": -1.0}, r"eta is -1\.0"),
    (
      {"kind": "reverse_kl", "sampling": GREEDY},
      "infinite at temperature 0.*use 'forward_kl'",
    ),
    (
      {"kind": "alpha", "sampling": sd.SamplingConfig(top_k=3)},
      r"'alpha', which is infinite where top_k = 3.*use 'jsd' or 'tvd'",
    ),
    (
      {"kind": "forward_kl", "sampling": sd.SamplingConfig(top_p=0.9)},
      r"top_p = 0\.9 keeps a token",
    ),
  ],
)
def test_what_is_not_defined_is_refused(arguments, message):
  with pytest.raises(ValueError, match=message):
    Divergence(**arguments)


def test_filters_do_nothing_at_temperature_0():
  sampling = dataclasses.replace(GREEDY, top_k=3)
  found = Divergence("forward_kl", sampling)(DRAFT, TARGET, MASK)
  assert found == Divergence("forward_kl", GREEDY)(DRAFT, TARGET, MASK)


def test_the_variation_is_exactly_0_between_equal_laws():
  log_p = jax.nn.log_softmax(TARGET)
  assert not distillation.tvd(log_p, log_p).any()
