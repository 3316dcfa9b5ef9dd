import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

from specdec_jax.training import loss

generator = np.random.default_rng(0)
LOGITS = jnp.array(generator.normal(size=(2, 3, 5)) * 3, jnp.float32)
TARGETS = jnp.array([[1, 4, 0], [2, 0, 0]])
MASK = TARGETS > 0


def wanted(z_loss=0.0, label_smoothing=0.0):
  total = 0.0
  for row, column in zip(*np.nonzero(MASK), strict=True):
    scores = np.asarray(LOGITS[row, column], np.float64)
    log_probs = log_softmax(scores)
    hit = log_probs[TARGETS[row, column]]
    total -= (1 - label_smoothing) * hit + label_smoothing * log_probs.mean()
    total += z_loss * logsumexp(scores) ** 2
  return total


@pytest.mark.parametrize(
  "extras", [{}, {"z_loss": 0.1}, {"label_smoothing": 0.2}]
)
def test_cross_entropy_against_numpy(extras):
  found = loss.cross_entropy(LOGITS, TARGETS, MASK, **extras)
  assert float(found) == pytest.approx(wanted(**extras), rel=1e-5)


def test_cross_entropy_of_bfloat16_is_float32():
  logits = LOGITS.astype(jnp.bfloat16)
  found = loss.cross_entropy(logits, TARGETS, MASK)
  same = loss.cross_entropy(logits.astype(jnp.float32), TARGETS, MASK)
  assert found.dtype == jnp.float32
  assert float(found) == float(same)


def test_masked_positions_have_no_gradient():
  def total(logits):
    return loss.cross_entropy(logits, TARGETS, MASK)

  gradient = np.asarray(jax.grad(total)(LOGITS))
  assert np.abs(gradient[MASK]).sum(-1).min() > 0
  assert not gradient[~MASK].any()
