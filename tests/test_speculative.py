import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import specdec_jax as sd
from specdec_jax import speculative
from tests import toy

PAIR = toy.table_pair(apart=0.7)
INPUTS = np.arange(6)[:, None]
GAMMA = 3


@dataclasses.dataclass(frozen=True)
class LookupDrafter:
  """Repeats the output so far: a deterministic drafter of uneven length.

  After every third token it has nothing to say; what it leaves open it fills
  with a word that the target likes, under a law that would pass.
  """

  vocab_size: int
  filler: int = 2

  def sizes(self, gamma):
    return 0, gamma

  def prefill(self, params, inputs, length, target):
    del params, length, target
    return jnp.zeros((inputs.shape[0], 0))

  def draft(self, params, context, cache, keys, sampler, gamma):
    del params, keys, sampler
    lengths = (context.lengths % 3) * gamma // 2
    at = jnp.maximum(context.lengths[:, None] - gamma, 0) + jnp.arange(gamma)
    tokens = jnp.take_along_axis(context.tokens, at, axis=1)
    is_guess = jnp.arange(gamma) < lengths[:, None]
    tokens = jnp.where(is_guess, tokens, self.filler)
    law = jax.nn.one_hot(tokens, self.vocab_size)
    return sd.Draft(tokens, law, lengths), cache


def lookup(**options):
  return sd.speculative_generate(
    jax.random.key(0),
    jnp.asarray(INPUTS),
    config=toy.config(gamma=GAMMA, **options),
    **{
      **PAIR.models,
      "drafter": LookupDrafter(PAIR.target.vocab_size),
      "draft_params": None,
    },
  )


def test_a_drafter_of_uneven_length_changes_no_greedy_token():
  options = {"temperature": 0.0, "max_new_tokens": 12, "eos_id": -1}
  output = lookup(**options)
  np.testing.assert_array_equal(
    output.tokens, PAIR.baseline(INPUTS, **options).tokens
  )
  assert 0 < sd.acceptance_rate(output.stats) < 1


def test_only_guesses_count_as_drafted():
  stats = lookup(temperature=1.0, max_new_tokens=12, eos_id=-1).stats
  calls = np.asarray(stats.target_calls)
  assert np.all(stats.drafted < GAMMA * calls)
  assert np.all(stats.examined <= stats.drafted)
  np.testing.assert_array_equal(
    stats.emitted, stats.accepted + stats.corrected + stats.bonus
  )
  # A round without a guess ends in a bonus; here every third begins so.
  assert np.all(stats.bonus > 0)


def _prepare(**options):
  return speculative.prepare(
    jax.random.key(1),
    jnp.asarray(INPUTS),
    config=toy.config(gamma=GAMMA, max_new_tokens=10, **options),
    **PAIR.models,
  )


def test_rounds_add_up_to_the_output():
  run, inputs = _prepare()
  step = jax.jit(speculative.step)
  state = jax.jit(speculative.start)(run, inputs)
  emitted = [[] for _ in INPUTS]
  while not np.all(state.is_done):
    before = state
    state, seen = step(run, state)
    for row, tokens in enumerate(emitted):
      kept = int(seen.verification.num_accepted[row])
      block = [
        *seen.draft.tokens[row, :kept].tolist(),
        int(seen.verification.next_token[row]),
      ]
      tokens += block[: int(seen.num_emitted[row])]
    # Rows that had ended stay as they are.
    ended = np.asarray(before.is_done)
    for name in ("tokens", "lengths", "log_probs", "is_done"):
      np.testing.assert_array_equal(
        np.asarray(getattr(state, name))[ended],
        np.asarray(getattr(before, name))[ended],
      )
    assert not np.any(np.asarray(seen.num_emitted)[ended])
  output = PAIR.speculative(INPUTS, key=1, gamma=GAMMA, max_new_tokens=10)
  jax.tree.map(np.testing.assert_array_equal, speculative.finish(state), output)
  for row, tokens in enumerate(emitted):
    assert output.tokens[row, : output.lengths[row]].tolist() == tokens


def test_the_pad_id_fills_what_follows_the_end():
  # Also a word that the models say.
  output = PAIR.speculative(
    INPUTS, gamma=GAMMA, max_new_tokens=(3, 9, 9, 9, 9, 9), pad_id=4
  )
  tokens, lengths = np.asarray(output.tokens), np.asarray(output.lengths)
  assert np.any(lengths < 9)
  assert np.all(tokens[np.arange(9) >= lengths[:, None]] == 4)
  plain = PAIR.speculative(
    INPUTS, gamma=GAMMA, max_new_tokens=(3, 9, 9, 9, 9, 9)
  )
  np.testing.assert_array_equal(
    np.where(np.arange(9) < lengths[:, None], tokens, 0), plain.tokens
  )


def test_no_speculation_is_the_baseline():
  options = {"max_new_tokens": 10, "temperature": (0, 1, 0.5, 2, 1, 1)}
  one = PAIR.speculative(INPUTS, key=1, gamma=0, **options)
  other = PAIR.baseline(INPUTS, key=1, gamma=4, **options)
  jax.tree.map(np.testing.assert_array_equal, one, other)
