import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.config import MIN_TEMPERATURE, SamplingConfig
from specdec_jax.sampling import Sampler, argmax, make_sampler, sample
from tests.enumeration import drawn_law, standardise
from tests.toy import config

# Every uniform that can matter: both ends of [0, 1) and some between.
EDGES = np.float32([0.0, 2**-24, 2**-23, 0.25, 0.5, 1 - 2**-23, 1 - 2**-24])


def _neighbours(values, steps):
  """Each value and the floats around it, inside [0, 1)."""
  bits = np.float32(values).view(np.int32)
  bits = bits[..., None] + np.arange(-steps, steps + 1)
  highest = np.float32(1 - 2**-24).view(np.int32)
  return np.clip(bits, 0, highest).astype(np.int32).view(np.float32)


def _sparse_weights(rows, size, seed):
  """Weights of which most are zero, whole blocks of them included."""
  random = np.random.default_rng(seed)
  weights = random.random((rows, size)) * (random.random((rows, size)) < 0.3)
  blocks = random.random((rows, -(-size // 128))) < 0.5
  weights *= np.repeat(blocks, 128, axis=1)[:, :size]
  weights[:, random.integers(size)] = 0.5
  return weights.astype(np.float32)


@jax.jit
def _draw_all(uniforms, weights):
  return jax.lax.map(lambda uniform: sample(uniform, weights), uniforms.T).T


def _draws(uniforms, weights):
  """What each row draws at each of its uniforms, [B, N]."""
  return np.asarray(_draw_all(np.float32(uniforms), np.float32(weights)))


@pytest.mark.parametrize("size", [5, 128, 129, 300, 65536])
def test_no_uniform_draws_an_entry_without_weight(size):
  weights = _sparse_weights(4, size, seed=size)
  ends = np.cumsum(weights, axis=1, dtype=np.float64)
  steps = (ends / ends[:, -1:])[:, :: max(1, size // 512)]
  uniforms = _neighbours(steps, 2).reshape(len(weights), -1)
  uniforms = np.concatenate(
    [uniforms, np.tile(EDGES, (len(weights), 1))], axis=1
  )
  tokens = _draws(uniforms, weights)
  assert np.all(np.take_along_axis(weights, tokens, axis=1) > 0)


@pytest.mark.parametrize("size", [5, 128, 129, 300])
def test_words_begin_and_end_at_the_cumulative_sums(size):
  weights = _sparse_weights(3, size, seed=size)
  ends = np.cumsum(weights, axis=1, dtype=np.float64)
  ends /= ends[:, -1:]
  first = np.argmax(weights > 0, axis=1)
  margin = 1e-6
  words, uniforms = [], []
  for row in range(3):
    word = np.flatnonzero(weights[row])
    end = ends[row, word]
    start = np.append(0.0, end[:-1])
    is_wide = end - start > 4 * margin
    at = np.array([start + margin, (start + end) / 2, end - margin])[:, is_wide]
    # As many in each row, some of them again.
    uniforms.append(np.resize(at, (3, 100)).ravel())
    words.append(np.resize(np.tile(word[is_wide], (3, 1)), (3, 100)).ravel())
  np.testing.assert_array_equal(_draws(np.array(uniforms), weights), words)
  zeros = _draws(np.zeros((3, 300)), weights)[:, 0]
  np.testing.assert_array_equal(zeros, first)


def test_weights_need_not_sum_to_one():
  weights = np.random.default_rng(0).random((1, 7)).astype(np.float32)
  law = weights / weights.sum()
  for scale in (1e-30, 1e-3, 1.0, 1e30):
    scaled = jnp.asarray(weights * np.float32(scale))
    np.testing.assert_allclose(drawn_law(scaled), law, atol=2e-7)


def test_one_word_with_weight_is_always_drawn():
  weights = np.zeros((300, 300), np.float32)
  weights[np.arange(300), np.arange(300)] = 1e-20
  tokens = _draws(np.tile(EDGES, (300, 1)), weights)
  assert np.all(tokens == np.arange(300)[:, None])


@pytest.mark.parametrize("fill", [0.0, np.nan])
def test_without_any_weight_the_draw_stays_inside_the_vocabulary(fill):
  weights = jnp.full((len(EDGES), 130), fill)
  tokens = np.asarray(sample(jnp.asarray(EDGES), weights))
  assert np.all((tokens >= 0) & (tokens < 130))


@pytest.mark.parametrize(
  ("values", "expected"),
  [
    ([1.0, 3.0, 2.0], 1),
    ([3.0, 1.0, 3.0], 0),
    ([1.0, 1.0, 1.0], 0),
    ([0.0, -0.0, -1.0], 0),
    ([-np.inf, -np.inf, -5.0], 2),
    ([-np.inf] * 3, 0),
    ([np.inf, 1.0, np.inf], 0),
    ([1.0, np.nan, 0.0], 2),  # No maximum: anything inside.
  ],
)
def test_argmax(values, expected):
  assert argmax(jnp.array(values)) == expected


_probs = jax.jit(Sampler.probs)


def sampler(temperature=1.0, **options):
  sampling = config(temperature=temperature, **options).sampling
  return Sampler(
    jnp.atleast_1d(jnp.asarray(sampling.temperature)),
    sampling.top_k,
    sampling.top_p,
    sampling.greedy,
  )


def probs(law, temperature=1.0, **options):
  """What is drawn from instead of the law."""
  with np.errstate(divide="ignore"):
    logits = np.log(np.array(law, np.float32))[None, None]
  law = _probs(sampler(temperature, **options), jnp.asarray(logits))
  return np.asarray(law)[0, 0]


LAW = (0.4, 0.3, 0.2, 0.1)


def test_temperature_comes_before_top_p():
  # The other way round it would be (.55, .31, .14, 0).
  np.testing.assert_allclose(
    probs(LAW, 0.5, top_p=0.8), [0.64, 0.36, 0, 0], atol=1e-6
  )


def test_top_k_comes_before_top_p():
  # Of the two words that are left the first has 4/7 and is enough. Without
  # the renormalisation in between it would have .4, and not be.
  np.testing.assert_allclose(
    probs(LAW, top_k=2, top_p=0.5), [1, 0, 0, 0], atol=1e-6
  )
  np.testing.assert_allclose(
    probs(LAW, top_p=0.5), [4 / 7, 3 / 7, 0, 0], atol=1e-6
  )


@pytest.mark.parametrize(
  ("temperature", "expected"),
  [
    (0.0, [1, 0, 0, 0]),
    (1e-6, [1, 0, 0, 0]),
    (MIN_TEMPERATURE, [1, 0, 0, 0]),
    (0.5, np.square(LAW) / np.sum(np.square(LAW))),
    (1.0, LAW),
    (2.0, np.sqrt(LAW) / np.sum(np.sqrt(LAW))),
  ],
)
def test_temperatures(temperature, expected):
  np.testing.assert_allclose(probs(LAW, temperature), expected, atol=1e-6)
  # And in a batch with others, where the program is not the greedy one.
  logits = jnp.tile(jnp.log(jnp.array(LAW)), (3, 2, 1))
  mixed = _probs(sampler((1.0, temperature, 0.0)), logits)
  np.testing.assert_allclose(mixed[1], [expected] * 2, atol=1e-6)
  np.testing.assert_allclose(mixed[0], [LAW] * 2, atol=1e-6)


@pytest.mark.parametrize("options", [{"top_k": 3}, {"top_p": 0.9}, {}])
def test_greedy_rows_of_a_mixed_batch_are_one_hot_to_the_bit(options):
  logits = np.random.default_rng(0).standard_normal((2, 3, 50)) * 30
  logits[0, 0, 7] = logits[0, 0, 20] = logits.max() + 1
  mixed = np.asarray(_probs(sampler((0.0, 1.0), **options), jnp.array(logits)))
  expected = np.eye(50)[np.argmax(logits[0], axis=-1)]
  np.testing.assert_array_equal(mixed[0], expected)


@pytest.mark.parametrize("top_p", [0.0, 1.0])
def test_both_ends_turn_top_p_off(top_p):
  np.testing.assert_allclose(probs(LAW, top_p=top_p), LAW, atol=1e-6)


@pytest.mark.parametrize("top_k", [0, 4, 5, 1000])
def test_a_top_k_that_drops_nothing(top_k):
  np.testing.assert_allclose(probs(LAW, top_k=top_k), LAW, atol=1e-6)


def test_ties_of_the_last_word_kept_are_kept():
  third = np.float32(1 / 3)
  np.testing.assert_allclose(
    probs([0.4, 0.2, 0.2, 0.2], top_k=2), [0.4, 0.2, 0.2, 0.2], atol=1e-6
  )
  np.testing.assert_allclose(
    probs([0.4, 0.2, 0.2, 0.2], top_p=0.5), [0.4, 0.2, 0.2, 0.2], atol=1e-6
  )
  np.testing.assert_allclose(
    probs([0.3, 0.3, 0.3, 0.1], top_k=1), [third, third, third, 0], atol=1e-6
  )


def test_top_p_keeps_one_word_at_least():
  np.testing.assert_allclose(probs(LAW, top_p=1e-6), [1, 0, 0, 0], atol=1e-6)


def test_impossible_words_stay_impossible():
  law = (0.5, 0.0, 0.3, 0.2)
  for options in ({}, {"top_k": 4}, {"top_k": 3}, {"top_p": 0.99}):
    for temperature in (0.2, 1.0, 5.0):
      assert probs(law, temperature, **options)[1] == 0.0


@pytest.mark.parametrize("temperature", [0.01, 0.7, 3.0])
@pytest.mark.parametrize("top_k", [0, 2, 7])
@pytest.mark.parametrize("top_p", [1.0, 0.3, 0.95])
def test_random_logits_against_a_plain_implementation(
  temperature, top_k, top_p
):
  options = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
  logits = np.random.default_rng(1).standard_normal((1, 20, 11)) * 3
  logits = logits.astype(np.float32)
  expected = standardise(logits, config(**options).sampling)
  actual = _probs(sampler(**options), jnp.asarray(logits))
  np.testing.assert_allclose(actual, expected, atol=2e-6)


def test_large_logits_do_not_overflow():
  logits = jnp.array([[[1e4, -1e4, 0.0]]])
  # Over the lowest temperature, float32 cannot hold the larger one.
  np.testing.assert_array_equal(
    _probs(sampler(2e-4), logits * 1e31)[0, 0], [1, 0, 0]
  )
  for temperature in (0.0, 2e-4, 1.0):
    np.testing.assert_array_equal(
      _probs(sampler(temperature), logits)[0, 0], [1, 0, 0]
    )


def test_bfloat16_logits_are_standardised_in_float32():
  logits = jnp.array([[[1.0, 2.0, 3.0]]], jnp.bfloat16)
  law = _probs(sampler(), logits)
  assert law.dtype == jnp.float32
  np.testing.assert_allclose(
    law, _probs(sampler(), logits.astype(jnp.float32)), rtol=1e-6
  )


@pytest.mark.parametrize("temperature", [0.0, (0.0, 1.0, 0.5)])
def test_a_draw_is_from_the_law_that_is_returned(temperature):
  logits = jnp.asarray(
    np.random.default_rng(2).standard_normal((3, 1, 200)), jnp.float32
  )
  one = sampler(temperature)
  if one.greedy:
    one = Sampler(jnp.zeros(3), 0, 1.0, True)
  for uniform in EDGES:
    uniforms = jnp.full(3, uniform)
    tokens, law = one.draw(uniforms, logits)
    np.testing.assert_array_equal(law, one.probs(logits)[:, 0])
    np.testing.assert_array_equal(tokens, sample(uniforms, law))


def test_a_config_makes_the_sampler_of_a_batch():
  made = make_sampler(SamplingConfig((0.0, 0.5), top_k=3, top_p=0.9), 2)
  assert made.temperature.tolist() == [0.0, 0.5]
  assert (made.top_k, made.top_p, made.greedy) == (3, 0.9, False)
  one = make_sampler(SamplingConfig(0.0), 3)
  assert one.temperature.tolist() == [0.0] * 3
  assert one.greedy
  with pytest.raises(ValueError, match="has 2 entries for a batch of 3 rows"):
    make_sampler(SamplingConfig((0.0, 0.5)), 3)
