"""A row's output is its own: no neighbour, place or padding changes it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import toy

T5 = toy.Pair(
  toy.T5_TARGET,
  toy.t5_params(toy.T5_TARGET, 0),
  toy.T5_DRAFT,
  toy.t5_params(toy.T5_DRAFT, 0),
)
TABLES = {
  "encoder and decoder": toy.table_pair(apart=0.7),
  "decoder only": toy.table_pair(apart=0.7, prompted=True),
  "bigrams": toy.ngram_pair(seed=7),
  "bigrams of prompts": toy.ngram_pair(seed=7, prompted=True),
}
KEYS = jax.random.split(jax.random.key(3), 4)
TEMPERATURES = (0.0, 1.0, 0.7, 1.5)
BUDGETS = (9, 4, 9, 9)


def _rows(output, rows):
  return jax.tree.map(lambda x: np.asarray(x)[np.array(rows)], output)


def _assert_same(output, other):
  """Equal in every field; a sum over another batch may round otherwise."""
  for field in dataclasses.fields(output):
    one, two = getattr(output, field.name), getattr(other, field.name)
    if field.name == "log_probs":
      np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)
    else:
      jax.tree.map(np.testing.assert_array_equal, one, two)


def _decode(pair, inputs, rows, *, budgets=BUDGETS, **options):
  """Decodes some of the four rows, in this order."""
  rows = np.array(rows)
  return pair.speculative(
    inputs[rows],
    **{
      "key": KEYS[rows],
      "gamma": 3,
      "temperature": tuple(np.array(TEMPERATURES)[rows]),
      "max_new_tokens": tuple(np.array(budgets)[rows]),
      **options,
    },
  )


def _table_inputs():
  return toy.inputs(4, 6, vocab_size=5)


@pytest.mark.parametrize("name", TABLES)
def test_a_row_is_its_own_run(name):
  inputs = _table_inputs()
  together = _decode(TABLES[name], inputs, range(4))
  for row in range(4):
    alone = _decode(TABLES[name], inputs, [row])
    width = alone.tokens.shape[1]  # Its own budget.
    assert width == BUDGETS[row]
    part = _rows(together, [row])
    assert not np.any(part.tokens[:, width:])
    _assert_same(
      dataclasses.replace(part, tokens=part.tokens[:, :width]), alone
    )


@pytest.mark.parametrize("name", TABLES)
def test_neither_order_nor_neighbours_matter(name):
  pair, inputs = TABLES[name], _table_inputs()
  together = _decode(pair, inputs, range(4))
  for order in ([3, 1, 0, 2], [2, 2, 2, 2], [0, 3, 3, 1]):
    _assert_same(_decode(pair, inputs, order), _rows(together, order))
  # What was compared is not all the same, nor all greedy or rejected.
  assert len({tuple(row) for row in together.tokens.tolist()}) > 2


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_one_round_keep_different_counts(name):
  output = _decode(TABLES[name], _table_inputs(), range(4))
  rounds = np.asarray(output.stats.target_calls)
  assert len(set(rounds.tolist())) > 1
  # From none to all, and something between.
  rounds = np.sum(output.stats.accepted_histogram, axis=0)
  assert rounds[0] > 0
  assert rounds[3] > 0
  assert rounds[1] + rounds[2] > 0


def test_padding_the_inputs_changes_nothing():
  pair, inputs = TABLES["decoder only"], _table_inputs()
  wider = np.pad(inputs, ((0, 0), (0, 5)))
  _assert_same(
    _decode(pair, inputs, range(4)),
    _decode(pair, wider, range(4)),
  )


@pytest.fixture(scope="module")
def t5_run():
  """Four rows of different lengths in one T5 batch."""
  inputs = toy.inputs(4, 6, seed=1)
  assert len(set(np.sum(inputs > 0, axis=1))) > 2
  # Budgets as wide as the batch's, so that every program has one width.
  options = {"budgets": (9,) * 4, "eos_id": 4}
  return inputs, options, _decode(T5, inputs, range(4), **options)


def test_t5_rows_are_their_own_runs(t5_run):
  inputs, options, together = t5_run
  for row in range(4):
    _assert_same(_decode(T5, inputs, [row], **options), _rows(together, [row]))


def test_t5_neither_order_nor_neighbours_matter(t5_run):
  inputs, options, together = t5_run
  for order in ([3, 1, 0, 2], [2, 2, 0, 2]):
    _assert_same(_decode(T5, inputs, order, **options), _rows(together, order))
  assert len({tuple(row) for row in together.tokens.tolist()}) > 2
  histogram = np.asarray(together.stats.accepted_histogram)
  assert len({tuple(row) for row in histogram.tolist()}) > 1


def test_t5_padding_the_inputs_changes_nothing(t5_run):
  inputs, options, together = t5_run
  wider = np.pad(inputs, ((0, 0), (0, 10)))
  _assert_same(_decode(T5, wider, range(4), **options), together)


def test_a_key_for_all_rows_gives_each_its_own():
  pair = TABLES["encoder and decoder"]
  inputs = np.ones((8, 1), np.int32)
  outputs = [
    pair.speculative(inputs, key=seed, gamma=3, max_new_tokens=9, eos_id=-1)
    for seed in (0, 1, 0)
  ]
  rows = [[tuple(row) for row in each.tokens.tolist()] for each in outputs]
  assert len(set(rows[0])) > 4
  assert rows[0] != rows[1]
  assert rows[0] == rows[2]


def test_a_seed_changes_nothing_in_greedy_rows():
  pair, inputs = TABLES["encoder and decoder"], _table_inputs()
  greedy = np.equal(TEMPERATURES, 0)
  outputs = []
  for seed in range(3):
    keys = jax.random.split(jax.random.key(seed), 4)
    outputs.append(_decode(pair, inputs, range(4), key=keys))
  for each in outputs[1:]:
    same = np.all(np.equal(each.tokens, outputs[0].tokens), axis=1)
    assert np.all(same[greedy])
    assert not np.all(same[~greedy])


class TestNumDecodes:
  PAIR = TABLES["encoder and decoder"]
  INPUTS = np.array([[1], [2]])

  def _decode(self, rows=(0, 1), **options):
    rows = np.array(rows)
    options = {"num_decodes": 5, "max_new_tokens": (8, 3), **options}
    return self.PAIR.speculative(
      self.INPUTS[rows], key=KEYS[rows], gamma=2, **options
    )

  def test_every_field_has_another_dimension(self):
    output = self._decode()
    assert output.tokens.shape == (2, 5, 8)
    assert output.lengths.shape == output.log_probs.shape == (2, 5)
    assert output.stats.emitted.shape == (2, 5)
    assert output.stats.accepted_histogram.shape == (2, 5, 3)

  def test_the_best_is_last(self):
    log_probs = np.asarray(self._decode().log_probs)
    assert np.all(np.diff(log_probs, axis=1) >= 0)
    assert np.all(log_probs[:, 0] < log_probs[:, -1])

  def test_all_fields_are_sorted_alike(self):
    output = self._decode()
    np.testing.assert_array_equal(output.stats.emitted, output.lengths)
    table = jax.nn.log_softmax(self.PAIR.target_params)
    for row, source in enumerate(self.INPUTS[:, 0]):
      for i in range(5):
        tokens, total = [0], 0.0
        for token in output.tokens[row, i, : output.lengths[row, i]].tolist():
          total += table[source, self.PAIR.target.context(tokens), token]
          tokens.append(token)
        np.testing.assert_allclose(output.log_probs[row, i], total, rtol=1e-4)

  def test_decodes_are_independent(self):
    tokens = np.asarray(self._decode().tokens)
    assert len({tuple(each) for each in tokens[0].tolist()}) > 2

  def test_neighbours_do_not_matter(self):
    output = self._decode()
    swapped = self._decode((1, 0), max_new_tokens=(3, 8))
    _assert_same(swapped, _rows(output, [1, 0]))

  def test_greedy_decodes_are_all_the_same(self):
    output = self._decode(temperature=0.0)
    one = self._decode(temperature=0.0, num_decodes=1)
    for i in range(5):
      _assert_same(jax.tree.map(lambda x, i=i: x[:, i], output), one)


def test_log_probs_are_those_of_the_plain_logits():
  # Whatever the temperature of the row.
  pair, inputs = TABLES["encoder and decoder"], _table_inputs()
  table = jax.nn.log_softmax(pair.target_params)
  output = _decode(pair, inputs, range(4))
  for row, source in enumerate(inputs.sum(axis=1) % len(table)):
    tokens, total = [0], 0.0
    for token in output.tokens[row, : output.lengths[row]].tolist():
      total += table[source, pair.target.context(tokens), token]
      tokens.append(token)
    np.testing.assert_allclose(output.log_probs[row], total, rtol=1e-4)


def test_logits_that_are_not_finite_do_not_pass_in_silence():
  pair = TABLES["encoder and decoder"]
  params = jnp.full_like(pair.target_params, jnp.nan)
  pair = dataclasses.replace(pair, target_params=params)
  output = _decode(pair, _table_inputs(), range(4))
  assert np.all(np.isnan(output.log_probs))
  assert np.all((output.tokens >= 0) & (output.tokens < 5))
  # Nothing passes for a sample; a greedy row takes any word for the largest.
  assert not np.any(output.stats.accepted[np.array(TEMPERATURES) > 0])
