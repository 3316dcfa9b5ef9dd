import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.sampling import Sampler
from tests import toy

GAMMA = 3
PAIR = toy.table_pair(5, sources=1)


def draft(model, params, *, vocab_size=None, tokens=(0, 2, 3), seed=0, rows=64):
  """Guesses after the same tokens in every row, and their laws."""
  drafter = sd.model_drafter(model, vocab_size=vocab_size)

  @jax.jit
  def run(tokens, keys):
    cache = drafter.prefill(
      params, jnp.ones((rows, 1), jnp.int32), 12, toy.NO_TARGET
    )
    # As if a round had fed all but the last token.
    _, cache = drafter.score(
      params, tokens[:, :-1], jnp.zeros(rows, jnp.int32), cache
    )
    context = sd.Context(
      jnp.pad(tokens, ((0, 0), (0, 8))),
      jnp.full(rows, tokens.shape[1]),
      jnp.zeros(rows, jnp.int32),
    )
    sampler = Sampler(jnp.ones(rows), 0, 1.0, False)
    return drafter.draft(params, context, cache, keys, sampler, GAMMA)[0]

  result = run(
    jnp.tile(jnp.array(tokens), (rows, 1)),
    jax.random.split(jax.random.key(seed), rows),
  )
  return drafter, result


def test_each_law_is_that_of_the_prefix_with_the_guesses_before():
  _, result = draft(PAIR.draft, PAIR.draft_params)
  laws = np.asarray(jax.nn.softmax(PAIR.draft_params))[0]
  for tokens, probs in zip(result.tokens.tolist(), result.probs, strict=True):
    prefix = [0, 2, 3]
    for token, law in zip(tokens, probs, strict=True):
      np.testing.assert_allclose(
        law, laws[PAIR.draft.context(prefix)], atol=1e-6
      )
      prefix.append(token)
  assert result.lengths is None
  # Every row guesses on its own.
  assert len({tuple(row) for row in result.tokens.tolist()}) > 10


def test_a_narrower_draft_never_guesses_what_it_lacks():
  narrow = toy.table_pair(4, sources=1)
  drafter, result = draft(narrow.draft, narrow.draft_params, vocab_size=6)
  assert drafter.vocab_size == 6
  assert result.probs.shape == (64, GAMMA, 6)
  assert not np.any(result.probs[..., 4:])
  np.testing.assert_allclose(np.sum(result.probs, axis=-1), 1, atol=1e-6)
  assert np.all(result.tokens < 4)


def test_a_wider_draft_is_cut_before_the_softmax():
  drafter, result = draft(PAIR.draft, PAIR.draft_params, vocab_size=4)
  assert drafter.vocab_size == 4
  expected = jax.nn.softmax(
    PAIR.draft_params[0, PAIR.draft.context([2, 3]), :4]
  )
  np.testing.assert_allclose(result.probs[0, 0], expected, atol=1e-6)
  assert np.all(result.tokens < 4)


@pytest.mark.parametrize("word", [4, 5])
def test_words_that_a_narrower_draft_lacks_can_be_committed(word):
  # It is fed its own last word in their place.
  narrow = toy.table_pair(4, sources=1)
  _, result = draft(
    narrow.draft, narrow.draft_params, vocab_size=6, tokens=(0, word)
  )
  row = narrow.draft.context([0, 3])
  expected = jax.nn.softmax(narrow.draft_params[0, row])
  np.testing.assert_allclose(result.probs[0, 0, :4], expected, atol=1e-6)
