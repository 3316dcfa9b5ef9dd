"""What is copied, by hand; then that copying changes no law."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.sampling import Sampler
from specdec_jax.verification import apply_block_rule, apply_rule
from tests import toy
from tests.enumeration import (
  drawn_law,
  law_after,
  law_of_rounds,
  outcomes,
  written_law,
)

GAMMA = 4
WIDTH = 12
PAIR = toy.table_pair(5, sources=1, seed=7)


@functools.partial(jax.jit, static_argnums=0)
def _draft(drafter, inputs, tokens, lengths):
  batch = len(inputs)
  return drafter.draft(
    None,
    sd.Context(tokens, lengths, jnp.zeros(batch, jnp.int32)),
    drafter.prefill(None, inputs, WIDTH, toy.NO_TARGET),
    jax.random.split(jax.random.key(0), batch),
    Sampler(jnp.ones(batch), 0, 1.0, False),
    GAMMA,
  )[0]


def guesses(source, written, vocab_size=20, **options):
  """What is guessed, without filler; the source may have padding."""
  drafter = sd.prompt_lookup_drafter(vocab_size, **options)
  # Beyond what is committed lies anything.
  tokens = np.full((1, WIDTH), 9, np.int32)
  tokens[0, : len(written)] = written
  draft = _draft(drafter, np.int32([source]), tokens, np.int32([len(written)]))
  np.testing.assert_array_equal(
    draft.probs, np.eye(vocab_size)[np.asarray(draft.tokens)]
  )
  assert int(draft.lengths[0]) <= GAMMA
  return np.asarray(draft.tokens)[0, : int(draft.lengths[0])].tolist()


def test_what_followed_in_the_source_is_guessed():
  assert guesses([3, 4, 5, 6, 7, 8, 1], [0, 4]) == [5, 6, 7, 8]


def test_the_longest_match_wins():
  source = [3, 4, 5, 2, 4, 6, 8, 3, 4, 7, 1]
  assert guesses(source, [0, 4]) == [5, 2, 4, 6]
  assert guesses(source, [0, 2, 4]) == [6, 8, 3, 4]
  assert guesses(source, [0, 8, 3, 4]) == [7, 1]
  # A difference further back than max_ngram decides nothing.
  assert guesses(source, [0, 8, 3, 4], max_ngram=2) == [5, 2, 4, 6]


def test_of_equal_matches_the_sources_is_taken():
  assert guesses([4, 5, 6, 1], [0, 4, 7, 4]) == [5, 6, 1]
  assert guesses([3, 5, 6, 1], [0, 4, 7, 8, 4]) == [7, 8, 4]
  # A longer one of what was written counts for more.
  assert guesses([4, 5, 6, 1], [0, 2, 4, 7, 2, 4]) == [7, 2, 4]


def test_guesses_end_where_the_text_does():
  assert guesses([3, 4, 1], [0, 4]) == [1]
  assert guesses([3, 4, 1, 0, 0, 0], [0, 4]) == [1]
  assert guesses([3, 4, 0, 9, 9], [7, 4], pad_id=9) == [0]
  # The source's last token has no follower; neither has padding.
  assert guesses([3, 4, 5], [0, 5]) == []
  assert guesses([3, 4, 0, 0, 0], [0, 0]) == [0]  # Of the written alone.


def test_without_a_match_nothing_is_guessed():
  assert guesses([3, 4, 5, 1], [0]) == []
  assert guesses([3, 4, 5, 1], [0, 6]) == []
  # What lies beyond the committed tokens is no match.
  assert guesses([3, 4, 5, 1], [0, 9]) == []
  assert guesses([3, 4, 5, 1], [0, 4], min_ngram=2) == []
  assert guesses([3, 4, 5, 1], [0, 3, 4], min_ngram=2) == [5, 1]


def _decode(pair, inputs, key=0, drafter=None, draft_params=None, **options):
  return sd.speculative_generate(
    jax.random.key(key) if isinstance(key, int) else key,
    inputs,
    target=pair.target,
    target_params=pair.target_params,
    drafter=drafter or sd.prompt_lookup_drafter(pair.target.vocab_size),
    draft_params=draft_params,
    config=toy.config(**options),
  )


T5 = toy.Pair(
  toy.T5_DRAFT,
  toy.t5_params(toy.T5_DRAFT, 0),
  toy.T5_DRAFT,
  toy.t5_params(toy.T5_DRAFT, 0),
)


@pytest.mark.parametrize(
  "pair",
  [T5, PAIR, toy.table_pair(5, prompted=True, seed=3)],
  ids=["t5", "encoder and decoder", "decoder only"],
)
def test_it_changes_no_greedy_token(pair):
  inputs = toy.inputs(5, 9, vocab_size=pair.target.vocab_size)
  options = {"temperature": 0.0, "max_new_tokens": 24, "eos_id": -1}
  output = _decode(pair, inputs, gamma=GAMMA, **options)
  baseline = pair.baseline(inputs, **options)
  np.testing.assert_array_equal(output.tokens, baseline.tokens)
  # Some guesses hold, some do not, and some rounds have none.
  stats = output.stats
  assert np.sum(stats.accepted) > 0
  assert np.sum(stats.corrected) > 0
  assert np.sum(stats.drafted) < GAMMA * np.sum(stats.target_calls)
  # Without a guess none is kept.
  plain = stats.scored_histogram[:, 0]
  assert np.all(plain <= stats.accepted_histogram[:, 0])


@pytest.mark.parametrize("rule", [apply_rule, apply_block_rule])
@pytest.mark.parametrize("top_k", [0, 2])
def test_the_law_is_the_targets(rule, top_k):
  # After each prefix the real drafter's guesses, then all outcomes of them.
  gamma, budget, vocab, eos = 2, 4, 5, 1
  drafter = sd.prompt_lookup_drafter(vocab)
  source = jnp.array([[2, 3, 4, 3, 2, 1]])
  logits = PAIR.target_params[0][:, None]
  sampler = Sampler(jnp.ones(len(logits)), top_k, 1.0, False)
  p = np.asarray(sampler.probs(logits)[:, 0])

  def after(prefix):
    """The law of the round's tokens, cut at EOS and budget."""
    written = jnp.array([[0, *prefix] + [0] * (budget - len(prefix))])
    draft = drafter.draft(
      None,
      sd.Context(
        written, jnp.array([1 + len(prefix)]), jnp.zeros(1, jnp.int32)
      ),
      drafter.prefill(None, source, 0, toy.NO_TARGET),
      jax.random.split(jax.random.key(0), 1),
      sampler,
      gamma,
    )[0]
    tokens = np.asarray(draft.tokens)
    contexts = [
      PAIR.target.context((0, *prefix, *tokens[0, :i]))
      for i in range(gamma + 1)
    ]
    law = outcomes(
      rule,
      tokens,
      np.asarray(draft.probs),
      p[contexts][None],
      np.asarray(draft.lengths),
    )[0]
    lengths.add(int(draft.lengths[0]))
    return law_after(prefix, tokens[0], law, eos_id=eos, budget=budget)

  lengths = set()
  law = law_of_rounds(after, eos_id=eos, budget=budget)
  assert lengths == {0, 1, 2}  # All kinds of rounds.

  expected = written_law(PAIR.target, drawn_law(p), eos_id=eos, budget=budget)
  assert law.keys() == expected.keys()
  assert sum(abs(law[each] - expected[each]) for each in law) / 2 < 1e-6


def test_a_row_is_its_own_run():
  inputs = toy.inputs(4, 6, vocab_size=5)
  keys = jax.random.split(jax.random.key(3), 4)
  options = {"gamma": GAMMA, "max_new_tokens": 16}
  together = _decode(PAIR, inputs, keys, **options)
  for row in range(4):
    alone = _decode(PAIR, inputs[row : row + 1], keys[row : row + 1], **options)
    np.testing.assert_array_equal(alone.tokens[0], together.tokens[row])
    for name in ("drafted", "accepted", "corrected", "bonus"):
      one, all_rows = (getattr(each.stats, name) for each in (alone, together))
      assert one[0] == all_rows[row]


@dataclasses.dataclass(frozen=True)
class _OneTokenACall(toy.TableModel):
  """Of more tokens in one call it knows nothing."""

  def extend(self, params, tokens, positions, cache):
    logits, cache = super().extend(params, tokens, positions, cache)
    return logits if tokens.shape[1] == 1 else logits * jnp.nan, cache


def test_where_no_row_has_a_guess_the_step_is_a_plain_one():
  pair = dataclasses.replace(PAIR, target=_OneTokenACall(5))
  inputs = np.int32([[2, 3, 1], [4, 1, 0]])
  drafter = sd.prompt_lookup_drafter(5, max_ngram=20, min_ngram=20)
  options = {"gamma": GAMMA, "max_new_tokens": 10, "temperature": 0.0}
  output = _decode(pair, inputs, drafter=drafter, **options)
  baseline = pair.baseline(inputs, max_new_tokens=10, temperature=0.0)
  assert not np.any(output.stats.drafted)
  np.testing.assert_array_equal(output.tokens, baseline.tokens)
  np.testing.assert_allclose(output.log_probs, baseline.log_probs, atol=1e-5)
  # And with a guess it is not: the model is seen to fail.
  assert np.any(np.isnan(_decode(pair, inputs, **options).log_probs))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
  ("options", "error", "message"),
  [
    ({"vocab_size": 0}, ValueError, "vocab_size is 0; it must be at least 1"),
    ({"max_ngram": 0}, ValueError, "max_ngram is 0"),
    ({"min_ngram": 2.0}, TypeError, r"min_ngram is 2\.0; it must be an int"),
    ({"min_ngram": 9}, ValueError, "min_ngram is 9 and max_ngram 8"),
    ({"pad_id": -1}, ValueError, "pad_id is -1; it must be at least 0"),
  ],
)
def test_what_cannot_be_is_refused(options, error, message):
  with pytest.raises(error, match=message):
    sd.prompt_lookup_drafter(**{"vocab_size": 5, **options})


def test_without_a_match_every_call_is_plain():
  drafter = sd.prompt_lookup_drafter(48, min_ngram=9, max_ngram=9)
  stats = _decode(
    T5, toy.inputs(3, 7), drafter=drafter, gamma=GAMMA, max_new_tokens=6
  ).stats
  plain = stats.scored_histogram[:, 0]
  assert np.all(plain > 0)
  np.testing.assert_array_equal(plain, stats.target_calls)
  np.testing.assert_array_equal(plain, stats.emitted)
