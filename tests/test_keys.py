import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax import speculative
from specdec_jax.base import Context
from specdec_jax.keys import fold_in_rows, row_keys, split_rows, uniform_rows
from specdec_jax.sampling import Sampler
from tests import toy


def _data(keys):
  return [
    tuple(each) for each in np.asarray(jax.random.key_data(keys)).tolist()
  ]


def test_one_key_gives_each_row_another():
  keys = row_keys(jax.random.key(0), 5)
  assert keys.shape == (5,)
  assert len(set(_data(keys))) == 5


def test_a_row_key_depends_on_its_index_alone():
  assert _data(row_keys(jax.random.key(0), 5))[:3] == _data(
    row_keys(jax.random.key(0), 3)
  )


def test_given_keys_are_used_as_they_are():
  keys = jax.random.split(jax.random.key(0), 3)
  assert _data(row_keys(keys, 3)) == _data(keys)


def test_rows_fold_in_and_split_on_their_own():
  keys = jax.random.split(jax.random.key(0), 3)
  folded = fold_in_rows(keys, jnp.array([4, 5, 4]))
  parts = split_rows(keys, 2)
  assert parts.shape == (2, 3)
  for row in range(3):
    one = jax.random.fold_in(keys[row], [4, 5, 4][row])
    assert _data(folded)[row] == _data(one[None])[0]
    assert _data(parts[:, row]) == _data(jax.random.split(keys[row], 2))


def test_uniform_numbers_of_a_row_are_many_and_its_own():
  keys = jax.random.split(jax.random.key(0), 3)
  numbers = np.asarray(uniform_rows(keys, 4))
  assert numbers.shape == (3, 4)
  assert len(np.unique(numbers)) == 12
  np.testing.assert_array_equal(uniform_rows(keys[1:2], 4)[0], numbers[1])


def test_keys_are_new_in_every_round_for_every_purpose(monkeypatch):
  pair = toy.table_pair()
  used = []
  verify = speculative.verify

  class Watched(type(pair.models["drafter"])):
    def draft(self, params, context, cache, keys, sampler, gamma):
      used.append(keys)
      return super().draft(params, context, cache, keys, sampler, gamma)

  def watch(keys, *args):
    used.append(keys)
    return verify(keys, *args)

  monkeypatch.setattr(speculative, "verify", watch)
  run, inputs = speculative.prepare(
    jax.random.key(0),
    jnp.ones((3, 1), jnp.int32),
    config=toy.config(gamma=2, max_new_tokens=6, eos_id=-1),
    **{**pair.models, "drafter": Watched(pair.draft)},
  )

  @jax.jit
  def step(state):
    used.clear()
    state, _ = speculative.step(run, state)
    return state, list(used)

  state = jax.jit(speculative.start)(run, inputs)
  seen = _data(state.keys)
  for _ in range(3):
    state, keys = step(state)
    assert len(keys) == 2  # To draft, and to verify.
    seen += [each for purpose in keys for each in _data(purpose)]
  assert len(seen) == 3 + 3 * 2 * 3
  assert len(set(seen)) == len(seen)


def test_no_key_is_used_twice():
  pair = toy.table_pair()
  drafter = pair.models["drafter"]
  inputs = jnp.ones((2, 1), jnp.int32)
  cache = drafter.prefill(pair.draft_params, inputs, 9, toy.NO_TARGET)
  context = Context(
    jnp.zeros((2, 9), jnp.int32),
    jnp.ones(2, jnp.int32),
    jnp.zeros(2, jnp.int32),
  )
  sampler = Sampler(jnp.ones(2), 0, 1.0, False)

  def draft_and_verify(draft_keys, verify_keys):
    draft, _ = drafter.draft(
      pair.draft_params, context, cache, draft_keys, sampler, 3
    )
    p = jnp.pad(draft.probs, ((0, 0), (0, 1), (0, 0)))
    return speculative.verify(verify_keys, draft.tokens, draft.probs, p)

  one, other = jax.random.split(jax.random.key(0), (2, 2))
  with jax.debug_key_reuse(True):
    jax.jit(draft_and_verify)(one, other)
    with pytest.raises(jax.errors.KeyReuseError):
      jax.jit(lambda key: draft_and_verify(key, key))(one)
