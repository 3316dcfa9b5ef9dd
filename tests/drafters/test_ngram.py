"""n-gram tables: their laws against plain counting, and what they draft."""

import collections
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import specdec_jax as sd
from specdec_jax.drafters import NgramModel
from specdec_jax.sampling import Sampler
from tests import toy
from tests.enumeration import standardise

VOCAB = 6
GAMMA = 3


@jax.jit
def _laws(table):
  tokens = jnp.arange(table.vocab_size)[:, None]
  logits, _ = NgramModel(table.vocab_size).extend(
    table, tokens, jnp.zeros(len(tokens), jnp.int32), ()
  )
  return jnp.exp(logits)[:, 0]


def laws_of(table):
  """The law after every word, [V, V], as the drafter has it."""
  return np.asarray(_laws(table))


def counted(texts, vocab_size, *, order, discount, max_followers, start_id):
  """The same by the formula, word for word, in float64."""
  words = collections.Counter(word for text in texts for word in text)
  pairs = collections.Counter()
  for text in texts:
    pairs.update(zip([start_id, *text], text, strict=False))
  total = sum(words.values())

  def unigram(word):
    share = max(words[word] - discount, 0) / total
    taken = sum(min(count, discount) for count in words.values()) / total
    return share + taken / vocab_size

  laws = np.zeros((vocab_size, vocab_size))
  for before in range(vocab_size):
    after = {w: c for (v, w), c in pairs.items() if v == before and order == 2}
    most = sorted(after, key=lambda w: (-after[w], w))[:max_followers]
    shares = {
      w: max(after[w] - discount, 0) / sum(after.values()) for w in most
    }
    backoff = 1 - sum(shares.values())
    for word in range(vocab_size):
      laws[before, word] = shares.get(word, 0.0) + backoff * unigram(word)
  return laws


texts = st.lists(
  st.lists(st.integers(0, VOCAB - 1), max_size=12), min_size=1, max_size=6
).filter(any)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
  texts=texts,
  order=st.sampled_from([1, 2]),
  discount=st.sampled_from([0.0, 0.3, 0.75, 1.0]),
  max_followers=st.integers(1, VOCAB + 1),
  start_id=st.integers(0, VOCAB - 1),
)
def test_laws_are_those_of_direct_counting(texts, **options):
  table = sd.count_ngrams(texts, vocab_size=VOCAB, **options)
  laws = laws_of(table)
  np.testing.assert_allclose(
    laws, counted(texts, VOCAB, **options), atol=3e-7, rtol=3e-6
  )
  np.testing.assert_allclose(laws.sum(axis=1), 1, atol=1e-6)


def test_an_example_by_hand():
  table = sd.count_ngrams([[2, 3, 2, 1], [2, 1]], vocab_size=5, discount=0.5)
  # Counts 0 2 3 1 0 of 6; three halves are handed to the uniform law.
  unigram = np.array([0.0, 1.5, 2.5, 0.5, 0.0]) / 6 + 0.25 / 5
  np.testing.assert_allclose(table.unigram, unigram, rtol=1e-6)
  # 0 (the start) is followed by 2, twice; 2 by 1 twice and by 3; 3 by 2.
  assert table.followers.tolist() == [[2, 0], [0, 0], [1, 3], [2, 0], [0, 0]]
  np.testing.assert_allclose(
    table.follower_probs,
    [[0.75, 0], [0, 0], [0.5, 0.5 / 3], [0.5, 0], [0, 0]],
    rtol=1e-6,
  )
  np.testing.assert_allclose(table.backoff, [0.25, 1, 1 / 3, 0.5, 1], rtol=1e-6)
  laws = laws_of(table)
  np.testing.assert_allclose(laws[2][3], 0.5 / 3 + unigram[3] / 3, rtol=1e-5)
  # After a word that nothing followed, or that never was, the unigram.
  for word in (1, 4):
    np.testing.assert_allclose(laws[word], unigram, rtol=1e-5)


def test_a_unigram_is_the_same_after_every_word():
  table = sd.count_ngrams([[2, 3, 2, 1]], vocab_size=5, order=1)
  assert table.followers.shape == (5, 0)
  laws = laws_of(table)
  np.testing.assert_array_equal(laws, np.tile(laws[:1], (5, 1)))


def test_without_a_discount_nothing_unseen_is_possible():
  table = sd.count_ngrams([[2, 3, 2, 1]], vocab_size=5, discount=0.0)
  laws = laws_of(table)
  np.testing.assert_array_equal(laws[2] > 0, [False, True, False, True, False])
  np.testing.assert_array_equal(laws[1] > 0, [False, True, True, True, False])


def test_empty_texts_count_for_nothing():
  table = sd.count_ngrams([[], [2, 1], []], vocab_size=5)
  other = sd.count_ngrams(iter([np.array([2, 1])]), vocab_size=5)
  jax.tree.map(np.testing.assert_array_equal, table, other)


@pytest.fixture(scope="module")
def large():
  """A table of a vocabulary of T5's size, from a few thousand words."""
  random = np.random.default_rng(0)
  text = np.minimum(random.zipf(1.3, 5000), 32127)
  return text, sd.count_ngrams([text], vocab_size=32128, max_followers=20)


def test_a_large_vocabulary(large):
  text, table = large
  assert table.followers.shape == (32128, 20)
  tokens = jnp.array([[1, 2, 3], [int(text[0]), 32127, 32000]])
  laws = np.float64(jax.jit(sd.NgramTable.laws)(table, tokens))
  assert laws.shape == (2, 3, 32128)
  assert np.all(laws > 0)
  np.testing.assert_allclose(laws.sum(axis=-1), 1, atol=1e-6)
  # And as it is drafted from, at any temperature.
  sampler = Sampler(jnp.array([1.0, 0.3]), 0, 1.0, False)
  probs = np.float64(jax.jit(Sampler.probs)(sampler, jnp.log(laws)))
  np.testing.assert_allclose(probs.sum(axis=-1), 1, atol=1e-5)
  np.testing.assert_allclose(probs[0], laws[0], atol=1e-6)


def test_words_beyond_the_most_frequent_fall_to_the_unigram(large):
  text, table = large
  after = collections.Counter(text[1:][text[:-1] == 1].tolist())
  assert len(after) > 20
  most = sorted(after, key=lambda w: (-after[w], w))[:20]
  assert table.followers[1].tolist() == most
  law = np.asarray(table.laws(jnp.array([[1]])))[0, 0]
  rest = np.setdiff1d(list(after), most)
  np.testing.assert_allclose(
    law[rest], table.backoff[1] * table.unigram[rest], rtol=1e-6
  )


@functools.partial(jax.jit, static_argnums=0)
def _draft(drafter, table, context, keys, sampler):
  inputs = jnp.ones((len(keys), 1), jnp.int32)
  cache = drafter.prefill(table, inputs, 12, toy.NO_TARGET)
  return drafter.draft(table, context, cache, keys, sampler, GAMMA)


def draft(table, words, filler, *, rows=64, **options):
  """Guesses after these words, filler behind them, and the cache."""
  sampling = toy.config(**options).sampling
  sampler = Sampler(
    jnp.full(rows, sampling.temperature), sampling.top_k, sampling.top_p, False
  )
  tokens = np.full((rows, 6), filler, np.int32)
  tokens[:, : len(words)] = words
  context = sd.Context(
    jnp.asarray(tokens), jnp.full(rows, len(words)), jnp.zeros(rows, jnp.int32)
  )
  keys = jax.random.split(jax.random.key(0), rows)
  drafter = sd.ngram_drafter(table.vocab_size)
  return _draft(drafter, table, context, keys, sampler)


PAIR = toy.ngram_pair(VOCAB)


@pytest.mark.parametrize(
  "options",
  [
    {"temperature": 1.0},
    {"temperature": 0.5, "top_k": 3},
    {"temperature": 2.0, "top_p": 0.8},
  ],
)
def test_each_guess_has_the_law_of_the_word_before(options):
  table = PAIR.draft_params
  result, cache = draft(table, [0, 2, 3], 1, **options)
  assert not jax.tree.leaves(cache)
  with np.errstate(divide="ignore"):
    laws = standardise(
      np.log(np.float64(laws_of(table))), toy.config(**options).sampling
    )
  tokens, probs = np.asarray(result.tokens), np.asarray(result.probs)
  before = np.pad(tokens[:, :-1], ((0, 0), (1, 0)), constant_values=3)
  np.testing.assert_allclose(probs, laws[before], atol=2e-6)
  assert np.all(np.take_along_axis(probs, tokens[..., None], axis=-1) > 0)
  assert len({tuple(row) for row in tokens.tolist()}) > 4


def test_the_first_guess_follows_the_start_token():
  table = PAIR.draft_params
  result, _ = draft(table, [0], 5)
  np.testing.assert_allclose(result.probs[0, 0], laws_of(table)[0], atol=2e-6)


def test_guesses_have_the_frequencies_of_their_law():
  table = PAIR.draft_params
  rows = 2**14
  result, _ = draft(table, [0, 2], 1, rows=rows)
  seen = np.bincount(np.asarray(result.tokens)[:, 0], minlength=VOCAB) / rows
  law = laws_of(table)[2]
  assert np.all(np.abs(seen - law) < 5 * np.sqrt(law * (1 - law) / rows))
  assert np.max(np.abs(law - laws_of(table)[3])) > 0.05


@pytest.mark.parametrize("vocab_size", [7, 300])
def test_greedy_guesses_are_the_most_likely_the_lowest_id_on_ties(vocab_size):
  # After 3 all words are equal, after 0 the two last ones; 2 is followed by 5.
  last = vocab_size - 1
  text = [[last], [last - 1], [2, 5, 5]]
  table = sd.count_ngrams(text, vocab_size=vocab_size)
  uniform = dataclasses.replace(
    table, unigram=jnp.full(vocab_size, 1 / vocab_size, jnp.float32)
  )
  result, _ = draft(uniform, [0, 2], 1, temperature=0.0)
  assert result.tokens[0].tolist() == [5, 5, 5]
  result, _ = draft(uniform, [0, 3], 1, temperature=0.0)
  # 0 at first, after which 2 is as frequent as the two last.
  assert result.tokens[0].tolist() == [0, 2, 5]
  np.testing.assert_array_equal(result.probs[0], np.eye(vocab_size)[[0, 2, 5]])


def test_a_table_is_fed_one_token_a_call(monkeypatch):
  widths = []
  extend = NgramModel.extend

  def watched(self, params, tokens, positions, cache):
    widths.append(tokens.shape[1])
    return extend(self, params, tokens, positions, cache)

  monkeypatch.setattr(NgramModel, "extend", watched)
  # Other numbers of rows than elsewhere, so that it is traced anew.
  draft(PAIR.draft_params, [0, 2], 1, rows=3)
  assert widths == [1, 1]  # The first call, and the scan's body.


class TestFiles:
  def test_a_table_comes_back(self, tmp_path):
    path = tmp_path / "folder" / "table.npz"
    sd.save_ngrams(path, PAIR.draft_params)
    loaded = sd.load_ngrams(str(path))
    jax.tree.map(np.testing.assert_array_equal, loaded, PAIR.draft_params)
    assert [x.dtype for x in jax.tree.leaves(loaded)] == [
      x.dtype for x in jax.tree.leaves(PAIR.draft_params)
    ]
    assert [each.name for each in path.parent.iterdir()] == ["table.npz"]

  def test_a_unigram_comes_back(self, tmp_path):
    table = sd.count_ngrams([[2, 1]], vocab_size=4, order=1)
    sd.save_ngrams(tmp_path / "table", table)
    jax.tree.map(
      np.testing.assert_array_equal,
      sd.load_ngrams(tmp_path / "table"),
      table,
    )

  def test_nothing_is_replaced_unasked(self, tmp_path):
    path = tmp_path / "table.npz"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite=True"):
      sd.save_ngrams(path, PAIR.draft_params)
    assert path.read_text() == "mine"
    with pytest.raises(FileExistsError, match="exists"):
      sd.save_ngrams(tmp_path, PAIR.draft_params, overwrite=True)
    sd.save_ngrams(path, PAIR.draft_params, overwrite=True)
    assert sd.load_ngrams(path).vocab_size == VOCAB

  def test_an_interrupted_save_leaves_what_was_there(
    self, tmp_path, monkeypatch
  ):
    path = tmp_path / "table.npz"
    sd.save_ngrams(path, PAIR.draft_params)
    before = path.read_bytes()

    def fail(*_):
      raise OSError("no space left")

    monkeypatch.setattr("pathlib.Path.write_bytes", fail)
    monkeypatch.setattr("etils.epath.gpath.PosixGPath.write_bytes", fail)
    other = sd.count_ngrams([[2, 1]], vocab_size=4)
    with pytest.raises(OSError, match="no space left"):
      sd.save_ngrams(path, other, overwrite=True)
    monkeypatch.undo()
    assert path.read_bytes() == before

  @pytest.mark.parametrize(
    ("change", "message"),
    [
      ({"format": np.array("another")}, "no whole .npz file"),
      ({"backoff": None}, "no array backoff of float32"),
      ({"unigram": np.ones(VOCAB)}, "no array unigram of float32"),
      ({"unigram": np.float32([0.5, 0.5])}, "shapes"),
      ({"unigram": np.full(VOCAB, 1.0, np.float32)}, "do not sum to 1"),
      ({"unigram": np.full(VOCAB, np.nan, np.float32)}, "do not sum to 1"),
      (
        {"unigram": np.float32([1.5, -0.5, 0, 0, 0, 0])},
        "do not sum to 1",
      ),
      ({"backoff": np.ones(VOCAB, np.float32)}, "do not sum to 1"),
      ({"followers": "beyond"}, "followers beyond its 6 words"),
      ({"followers": "below"}, "followers beyond its 6 words"),
    ],
  )
  def test_a_damaged_table_is_refused(self, tmp_path, change, message):
    path = tmp_path / "table.npz"
    sd.save_ngrams(path, PAIR.draft_params)
    with np.load(path) as file:
      arrays = dict(file)
    for name, value in change.items():
      if isinstance(value, str):
        value = np.array(arrays[name])
        value[0, 0] = VOCAB if change[name] == "beyond" else -1
      arrays[name] = value
    arrays = {name: each for name, each in arrays.items() if each is not None}
    with open(path, "wb") as f:
      np.savez(f, **arrays)
    with pytest.raises(ValueError, match=message) as caught:
      sd.load_ngrams(path)
    assert str(path) in str(caught.value)
    assert "sd.save_ngrams" in str(caught.value)

  @pytest.mark.parametrize("kind", ["text", "empty", "array", "cut", "flipped"])
  def test_any_other_file_is_refused(self, tmp_path, kind):
    path = tmp_path / "table.npz"
    sd.save_ngrams(path, PAIR.draft_params)
    contents = path.read_bytes()
    if kind == "array":
      with open(path, "wb") as f:
        np.save(f, np.ones(3))
    else:
      middle = len(contents) // 2
      path.write_bytes(
        {
          "text": b"no table",
          "empty": b"",
          "cut": contents[:middle],
          "flipped": contents[:60]
          + bytes(255 - byte for byte in contents[60:90])
          + contents[90:],
        }[kind]
      )
    with pytest.raises(ValueError, match="no whole .npz file"):
      sd.load_ngrams(path)

  def test_a_file_that_is_not_there(self, tmp_path):
    for path in (tmp_path / "none.npz", tmp_path):
      with pytest.raises(FileNotFoundError, match="sd.save_ngrams"):
        sd.load_ngrams(path)
