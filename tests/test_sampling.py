import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.sampling import sample

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


def _draws(uniforms, weights):
  """What each row draws at each of its uniforms, [B, N]."""
  return np.asarray(
      jax.lax.map(lambda uniform: sample(uniform, weights), uniforms.T).T
  )


@pytest.mark.parametrize("size", [5, 128, 129, 300, 65536])
def test_no_uniform_draws_an_entry_without_weight(size):
  weights = _sparse_weights(4, size, seed=size)
  ends = np.cumsum(weights, axis=1, dtype=np.float64)
  steps = (ends / ends[:, -1:])[:, :: max(1, size // 512)]
  uniforms = _neighbours(steps, 2).reshape(len(weights), -1)
  uniforms = np.concatenate(
      [uniforms, np.tile(EDGES, (len(weights), 1))], axis=1
  )
  tokens = _draws(jnp.asarray(uniforms), jnp.asarray(weights))
  assert np.all(np.take_along_axis(weights, tokens, axis=1) > 0)
