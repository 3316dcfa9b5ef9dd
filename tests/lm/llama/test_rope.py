"""Frequencies by hand, and that products know the distance alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.lm import llama
from specdec_jax.lm.llama import rope


def test_frequencies():
  found = rope.frequencies(10000.0, 8, None)
  assert found.dtype == np.float32
  np.testing.assert_allclose(found, [1, 0.1, 0.01, 0.001], rtol=1e-6)


def test_linear_scaling():
  found = rope.frequencies(10000.0, 8, llama.LinearScaling(4.0))
  np.testing.assert_allclose(found, [0.25, 0.025, 0.0025, 0.00025], rtol=1e-6)


def test_llama_3_scaling():
  scaling = llama.Llama3Scaling(8.0, 1.0, 4.0, original_length=8192)
  # Waves of 100, 2048, 4096, 8192 and 9000 tokens.
  waves = np.array([100.0, 2048.0, 4096.0, 8192.0, 9000.0])
  found = 2 * np.pi / scaling.scale(2 * np.pi / waves)
  kept = (2.0 - 1.0) / (4.0 - 1.0)  # Of two turns in 8192 tokens.
  middle = 4096 / (kept + (1 - kept) / 8)
  np.testing.assert_allclose(found, [100, 2048, middle, 65536, 72000])


def test_products_know_the_distance_alone():
  query, key = jax.random.normal(jax.random.key(0), (2, 1, 1, 3, 8))
  angles = rope.frequencies(100.0, 8, None)

  def product(at, other):
    turned = (
      rope.rotate(x, rope.rotation(angles, jnp.array([[position]])))
      for x, position in ((query, at), (key, other))
    )
    return np.sum(np.prod(np.array(list(turned)), axis=0), axis=-1)

  np.testing.assert_allclose(product(9, 4), product(25, 20), atol=1e-5)
  np.testing.assert_allclose(
    product(3, 3), np.sum(query * key, axis=-1), atol=1e-5
  )
  assert np.max(np.abs(product(9, 4) - product(9, 5))) > 0.1


@pytest.mark.parametrize(
  ("make", "match"),
  [
    (lambda: llama.LinearScaling(0.0), "LinearScaling.factor is 0.0"),
    (lambda: llama.LinearScaling("2"), "LinearScaling.factor is '2'"),
    (
      lambda: llama.Llama3Scaling(8.0, original_length=-1),
      "Llama3Scaling.original_length is -1; it must be a positive",
    ),
    (
      lambda: llama.Llama3Scaling(8.0, 4.0, 4.0),
      "low_freq_factor is 4.0 and high_freq_factor 4.0; the latter must be",
    ),
  ],
)
def test_bad_scaling(make, match, unchecked):
  with pytest.raises(ValueError, match=match):
    make()
