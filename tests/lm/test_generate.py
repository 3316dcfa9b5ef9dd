"""The algorithm on decoder-only models: nothing of it knows the difference."""

import dataclasses

import jax
import numpy as np
import pytest

import specdec_jax as sd
from tests.lm import tiny

LENGTHS = (3, 0, 7, 1)
INPUTS = tiny.prompts(LENGTHS)
BUDGET = 9
KEYS = jax.random.split(jax.random.key(3), len(LENGTHS))
TEMPERATURES = (0.0, 1.0, 0.7, 1.5)
PAIR = tiny.pair()


def _decode(rows=range(4), inputs=INPUTS, pair=PAIR, **options):
  rows = np.array(rows)
  return pair.speculative(
    inputs[rows],
    **{
      "key": KEYS[rows],
      "gamma": 3,
      "temperature": tuple(np.array(TEMPERATURES)[rows]),
      "max_new_tokens": BUDGET,
      "eos_id": 4,
      **options,
    },
  )


@pytest.fixture(scope="module")
def together():
  return _decode()


def _assert_rows(output, other, rows):
  """Equal in every field; a sum over another batch may round otherwise."""
  for field in dataclasses.fields(output):
    one = getattr(output, field.name)
    two = jax.tree.map(
      lambda x: np.asarray(x)[np.array(rows)], getattr(other, field.name)
    )
    if field.name == "log_probs":
      np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)
    else:
      jax.tree.map(np.testing.assert_array_equal, one, two)


def test_models_are_decoder_models():
  assert isinstance(tiny.TARGET, sd.DecoderModel)


def test_a_row_is_its_own_run(together):
  for row in range(4):
    _assert_rows(_decode([row]), together, [row])


def test_neither_order_nor_padding_matters(together):
  _assert_rows(_decode([3, 1, 0, 2]), together, [3, 1, 0, 2])
  wider = np.pad(INPUTS, ((0, 0), (0, 6)))
  _assert_rows(_decode(inputs=wider), together, range(4))
  # What was compared is not all the same, and some guesses were kept.
  assert len({tuple(row) for row in together.tokens.tolist()}) == 4
  histogram = np.sum(together.stats.accepted_histogram, axis=0)
  assert histogram[0] > 0
  assert np.any(histogram[1:] > 0)


def test_log_probs_are_those_of_the_whole_sequence(together):
  tokens = np.asarray(together.tokens)
  read = tiny.sequences(INPUTS, LENGTHS, tokens)
  log_probs = jax.nn.log_softmax(
    tiny.at(tiny.decode(PAIR.target, PAIR.target_params, read), LENGTHS, BUDGET)
  )
  each = np.take_along_axis(log_probs, tokens[..., None], axis=2)[..., 0]
  emitted = np.arange(BUDGET) < np.asarray(together.lengths)[:, None]
  np.testing.assert_allclose(
    together.log_probs, np.sum(each, axis=1, where=emitted), rtol=1e-4
  )


def test_greedy_is_the_argmax_token_for_token():
  options = {"temperature": 0.0, "max_new_tokens": 12, "eos_id": -1}
  output = _decode(gamma=4, **options)
  baseline = PAIR.baseline(INPUTS, **options)
  np.testing.assert_array_equal(output.tokens, baseline.tokens)
  # The logits over what was written have their maxima there.
  tokens = np.asarray(output.tokens)
  read = tiny.sequences(INPUTS, LENGTHS, tokens)
  logits = tiny.at(
    tiny.decode(PAIR.target, PAIR.target_params, read), LENGTHS, 12
  )
  np.testing.assert_array_equal(np.argmax(logits, axis=-1), tokens)
  # Guesses were kept and rejected.
  assert 0 < sd.acceptance_rate(output.stats) < 1


def test_a_draft_that_is_the_target_is_always_right():
  budgets = (10, 11, 12, 13)
  output = _decode(
    pair=PAIR.same, max_new_tokens=budgets, temperature=1.0, eos_id=-1
  )
  np.testing.assert_array_equal(output.lengths, budgets)
  assert sd.acceptance_rate(output.stats) == 1
  assert not np.any(output.stats.corrected)
  np.testing.assert_array_equal(
    output.stats.target_calls, -(-np.array(budgets) // 4)
  )
