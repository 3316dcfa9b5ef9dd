import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.verification import apply_rule, residual
from tests.enumeration import outcomes

P = np.float32(
  [[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]]
)
Q = np.float32([[0.1, 0.6, 0.25, 0.05], [0.4, 0.3, 0.2, 0.1]])


_apply_rule = jax.jit(apply_rule)
_verify = jax.jit(sd.verify)


def judge(uniforms, tokens, next_uniform=0.5, p=P, q=Q, lengths=None):
  """The rule on one row, as two numbers."""
  verdict = _apply_rule(
    jnp.array([uniforms], jnp.float32),
    jnp.array([next_uniform], jnp.float32),
    jnp.array([tokens], jnp.int32),
    jnp.asarray(q)[None],
    jnp.asarray(p)[None],
    None if lengths is None else jnp.array([lengths]),
  )
  return int(verdict.num_accepted[0]), int(verdict.next_token[0])


def test_a_guess_is_kept_up_to_the_ratio():
  # p / q of the first word 1 is 1/2, of the second word 0 is 1/4.
  assert judge([0.49, 0.24], [1, 0])[0] == 2
  assert judge([0.49, 0.26], [1, 0])[0] == 1
  assert judge([0.51, 0.24], [1, 0])[0] == 0
  # A ratio above 1 always passes.
  assert judge([1 - 2**-24, 1 - 2**-24], [0, 3])[0] == 2


def test_nothing_behind_a_rejection_counts():
  assert judge([0.99, 0.0], [1, 3])[0] == 0


def test_the_token_after_a_rejection_is_from_its_own_residual():
  # max(0, p - q) is (.4, 0, 0, 0) at the first, (0, 0, .1, .3) at the second.
  assert [judge([0.9, 0.0], [1, 0], u)[1] for u in (0.0, 0.99)] == [0, 0]
  after = [judge([0.0, 0.9], [1, 0], u)[1] for u in (0.0, 0.24, 0.26, 0.99)]
  assert after == [2, 2, 3, 3]


def test_the_bonus_is_from_the_last_row():
  after = [judge([0.0, 0.0], [1, 0], u)[1] for u in (0.0, 0.69, 0.71, 0.81)]
  assert after == [0, 0, 1, 2]


@pytest.mark.parametrize("seed", range(3))
def test_acceptance_is_the_overlap_of_the_laws(seed):
  # Summed over the guess: sum min(p, q), the paper's beta.
  random = np.random.default_rng(seed)
  p = random.dirichlet(np.ones(5), 2).astype(np.float32)
  q = random.dirichlet(np.ones(5)).astype(np.float32)
  law = outcomes(
    apply_rule,
    np.arange(5, dtype=np.int32)[:, None],
    np.tile(q, (5, 1, 1)),
    np.tile(p, (5, 1, 1)),
  )
  accepted = np.sum(law[:, 1] * q[:, None])
  np.testing.assert_allclose(accepted, np.sum(np.minimum(p[0], q)), atol=1e-6)
  # And the first token that comes out is the target's (appendix A.1).
  emitted = law[:, 0].T @ q + law[:, 1].sum(axis=1) * q
  np.testing.assert_allclose(emitted, p[0], atol=1e-6)


def test_a_word_that_the_target_never_says_is_never_kept():
  p = np.float32([[0.0, 1.0], [0.5, 0.5]])
  q = np.float32([[1.0, 0.0]])
  assert judge([0.0], [0], 0.0, p, q) == (0, 1)


@pytest.mark.parametrize("number_kept", [0, 1, 2])
def test_one_hot_laws(number_kept):
  tokens = [2, 3]
  q = np.eye(4, dtype=np.float32)[tokens]
  wanted = [*tokens[:number_kept], 1, 0, 0][:3]
  p = np.eye(4, dtype=np.float32)[wanted]
  for uniform in (0.0, 0.5, 1 - 2**-24):
    verdict = judge([uniform] * 2, tokens, uniform, p, q)
    assert verdict == (number_kept, wanted[number_kept])


def test_equal_laws_keep_everything():
  q = P[:2]
  highest = 1 - 2**-24
  for tokens in np.ndindex(4, 4):
    assert judge([highest] * 2, tokens, q=q)[0] == 2


def test_a_certain_guess_of_an_uncertain_target_passes_with_its_probability():
  q = np.eye(4, dtype=np.float32)[[1, 0]]
  assert judge([0.29, 0.0], [1, 0], q=q)[0] == 2
  assert judge([0.31, 0.0], [1, 0], q=q)[0] == 0
  # The residual is what is left of p: (.5, 0, .15, .05).
  after = [judge([0.9, 0.0], [1, 0], u, q=q)[1] for u in (0.7, 0.72, 0.99)]
  assert after == [0, 2, 3]


@pytest.mark.parametrize("length", [0, 1, 2])
def test_filler_is_neither_judged_nor_subtracted(length):
  # Filler that would pass, if it were looked at.
  number, following = judge([0.0, 0.0], [1, 0], 0.0, lengths=length)
  assert number == length
  law = [judge([0.0, 0.0], [1, 0], u, lengths=length)[1] for u in (0.2, 0.95)]
  ends = np.cumsum(P[length])
  assert law == [int(np.sum(ends <= u)) for u in (0.2, 0.95)]
  assert following == 0


def test_filler_may_hold_anything():
  q = np.array(Q)
  q[1] = np.nan
  assert judge([0.0, 0.0], [1, 0], 0.2, q=q, lengths=1) == judge(
    [0.0, 0.0], [1, 3], 0.2, lengths=1
  )


def test_rows_with_and_without_guesses_side_by_side():
  verdict = apply_rule(
    jnp.zeros((3, 2)),
    jnp.full((3,), 0.95),
    jnp.array([[1, 0]] * 3),
    jnp.tile(Q, (3, 1, 1)),
    jnp.tile(P, (3, 1, 1)),
    jnp.array([2, 0, 1]),
  )
  assert verdict.num_accepted.tolist() == [2, 0, 1]
  # The last words of each row's own law.
  assert verdict.next_token.tolist() == [3, 2, 3]


class TestResidual:
  def test_is_the_positive_part(self):
    np.testing.assert_allclose(
      residual(jnp.asarray(P[:2]), jnp.asarray(Q)),
      [[0.4, 0, 0, 0], [0, 0, 0.1, 0.3]],
      atol=1e-7,
    )

  def test_of_equal_laws_is_the_target(self):
    np.testing.assert_array_equal(residual(jnp.asarray(P), jnp.asarray(P)), P)

  def test_under_no_draft_is_the_target(self):
    np.testing.assert_array_equal(
      residual(jnp.asarray(P), jnp.zeros(P.shape)), P
    )

  def test_of_a_draft_above_the_target_is_the_target(self):
    # What rounding can do to equal laws.
    np.testing.assert_array_equal(
      residual(jnp.asarray(P), jnp.asarray(np.nextafter(P, np.float32(1)))), P
    )

  def test_has_finite_gradients(self):
    # No 0 / 0, not even in a branch that is not taken.
    gradient = jax.grad(lambda p: jnp.sum(residual(p, jnp.asarray(P))))(
      jnp.asarray(P)
    )
    assert np.all(np.isfinite(gradient))


class TestVerify:
  ARGUMENTS = (
    jnp.array([[1, 0]] * 4),
    jnp.tile(Q, (4, 1, 1)),
    jnp.tile(P, (4, 1, 1)),
  )

  def test_without_guesses_it_samples_the_target(self):
    verdict = _verify(
      jax.random.key(0),
      jnp.zeros((2, 0), jnp.int32),
      jnp.zeros((2, 0, 4)),
      jnp.array([[[0, 0, 1.0, 0]], [[0, 1.0, 0, 0]]]),
    )
    assert verdict.num_accepted.tolist() == [0, 0]
    assert verdict.next_token.tolist() == [2, 1]

  def test_a_key_per_row_makes_rows_independent_of_their_place(self):
    keys = jax.random.split(jax.random.key(0), 4)
    order = jnp.array([2, 0, 3, 1])
    one = _verify(keys, *self.ARGUMENTS)
    other = _verify(keys[order], *self.ARGUMENTS)
    np.testing.assert_array_equal(one.num_accepted[order], other.num_accepted)
    np.testing.assert_array_equal(one.next_token[order], other.next_token)

  def test_rows_under_one_key_differ(self):
    tokens, q, p = (
      jnp.tile(x[:1], (64, *[1] * (x.ndim - 1))) for x in self.ARGUMENTS
    )
    verdict = _verify(jax.random.key(0), tokens, q, p)
    assert len(set(verdict.num_accepted.tolist())) == 3
    assert len(set(verdict.next_token.tolist())) > 2
