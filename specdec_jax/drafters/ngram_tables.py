"""Counting n-gram tables from text, and keeping them in files (host side).

The paper drafts with unigrams and bigrams and does not say how they were
smoothed. Here each order takes a discount d off every count and hands what it
took to the order below, the lowest of which is the uniform law (absolute
discounting, interpolated: Ney, Essen and Kneser, 1994). With c the counts,
and c(v) how often anything follows v:

    q(w | v) = max(0, c(v, w) - d) / c(v) + backoff(v) q(w)
    q(w)     = max(0, c(w) - d) / n + (the rest) / V

where backoff(v) is 1 - the sum over w of the first term. So every word is
possible, every law sums to 1, and after a word that nothing follows in the
text the law is the unigram's: backoff(v) = 1.

A table of all pairs of words would not fit in memory. For each v only its most
frequent followers are kept (the lowest id on ties); the share of the others is
in backoff(v).
"""

import io
import numbers
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from specdec_jax.drafters.ngram import NgramTable

_FORMAT = "specdec_jax n-gram table, version 1"
_DTYPES = {
  "unigram": np.float32,
  "followers": np.int32,
  "follower_probs": np.float32,
  "backoff": np.float32,
}


def count_ngrams(
  sequences: Iterable[Sequence[int] | np.ndarray],
  *,
  vocab_size: int,
  order: int = 2,
  discount: float = 0.75,
  max_followers: int = 128,
  start_id: int = 0,
) -> NgramTable:
  """Counts a table from text, as a drafter for text of its kind.

  Args:
    sequences: Token ids of each text, as the target is to emit them: without
      the start token and without padding, EOS included.
    vocab_size: V, the target's, padding included.
    order: 1 for unigrams, 2 for bigrams.
    discount: What is taken off every count, 0 to 1; 0 smooths nothing.
    max_followers: Most followers of a word to keep. The table takes at most
      V (8 max_followers + 8) bytes, less if no word has as many followers.
    start_id: The first decoder input, after which each text begins.

  Returns:
    The table, on the default device.

  Raises:
    ValueError: If a setting is out of its range, or there is no text, or
      something in it is no token id.
  """
  _check_settings(vocab_size, order, discount, max_followers, start_id)
  words, before = _pairs(sequences, vocab_size, start_id)
  total = len(words)
  kept = _discounted(np.bincount(words, minlength=vocab_size), discount)
  unigram = (kept + (total - kept.sum()) / vocab_size) / total
  if order == 1:
    before = words = words[:0]
  followers, follower_probs, backoff = _count_followers(
    before, words, vocab_size, discount, max_followers
  )
  return NgramTable(
    jnp.asarray(unigram, jnp.float32),
    jnp.asarray(followers, jnp.int32),
    jnp.asarray(follower_probs, jnp.float32),
    jnp.asarray(backoff, jnp.float32),
  )


def save_ngrams(path: Any, table: NgramTable, *, overwrite: bool = False):
  """Saves a table as one .npz file, whole or not at all.

  Args:
    path: The file, local or gs://; its folder is made if it is not there.
    table: From `count_ngrams`.
    overwrite: Whether to replace a file that lies there.

  Raises:
    FileExistsError: If something lies at `path` that may not be replaced.
    TypeError: If `table` is none.
  """
  from etils import epath

  if not isinstance(table, NgramTable):
    raise TypeError(f"table is {type(table).__name__}; give an NgramTable.")
  path = epath.Path(path).expanduser()
  if path.exists() and (path.is_dir() or not overwrite):
    raise FileExistsError(
      f"{path} exists; save to another path, or pass overwrite=True to replace"
      " a file."
    )
  arrays = {name: np.asarray(getattr(table, name)) for name in _DTYPES}
  contents = io.BytesIO()
  arrays["format"] = np.array(_FORMAT)
  np.savez_compressed(contents, **arrays)  # type: ignore
  path.parent.mkdir(parents=True, exist_ok=True)
  unfinished = path.with_name(path.name + ".unfinished")
  unfinished.write_bytes(contents.getvalue())
  unfinished.replace(path)


def load_ngrams(path: Any) -> NgramTable:
  """Loads a table that `save_ngrams` wrote.

  Args:
    path: The file, local or gs://.

  Returns:
    The table, on the default device.

  Raises:
    FileNotFoundError: If there is no such file.
    ValueError: If the file is another one, or damaged.
  """
  from etils import epath

  path = epath.Path(path).expanduser()
  if not path.exists() or path.is_dir():
    raise FileNotFoundError(
      f"There is no file at {path}; give one that sd.save_ngrams wrote."
    )
  arrays = _read(path)
  fault = _fault(arrays)
  if fault:
    raise ValueError(
      f"{path} holds no n-gram table: {fault}. Count the text again and write"
      " it with sd.save_ngrams."
    )
  return NgramTable(**{name: jnp.asarray(arrays[name]) for name in _DTYPES})


def _pairs(sequences, vocab_size: int, start_id: int):
  """Returns all words, int64[n], and the word before each."""
  if isinstance(sequences, np.ndarray) and sequences.ndim == 2:
    raise ValueError(
      f"sequences is one array of shape {sequences.shape}, whose rows must be"
      " padded; give the token ids of each text, without padding."
    )
  texts = []
  for i, text in enumerate(sequences):
    text = np.asarray(text)
    if not text.size:
      continue
    if text.ndim != 1 or not np.issubdtype(text.dtype, np.integer):
      raise ValueError(
        f"sequences[{i}] has shape {text.shape} and dtype {text.dtype}; give"
        " the token ids of one text, integers."
      )
    lowest, highest = text.min(), text.max()
    if lowest < 0 or highest >= vocab_size:
      raise ValueError(
        f"sequences[{i}] holds token id {lowest if lowest < 0 else highest},"
        f" but the vocabulary has ids 0 to {vocab_size - 1}; encode the text"
        " with the target's tokenizer."
      )
    texts.append(text.astype(np.int64))
  if not texts:
    raise ValueError("sequences hold no token; give at least one text.")
  words = np.concatenate(texts)
  before = np.roll(words, 1)
  before[np.cumsum([0, *map(len, texts[:-1])])] = start_id
  return words, before


def _count_followers(before, words, vocab_size, discount, max_followers):
  """Returns `NgramTable`'s followers, follower_probs and backoff, float64."""
  pairs, counts = np.unique(before * vocab_size + words, return_counts=True)
  before, words = np.divmod(pairs, vocab_size)
  totals = np.bincount(before, weights=counts, minlength=vocab_size)
  # Within each row the most frequent first, then by id.
  order = np.lexsort((words, -counts, before))
  before, words, counts = before[order], words[order], counts[order]
  rank = np.arange(len(before)) - np.searchsorted(before, before)
  is_kept = rank < max_followers
  before, rank, words = before[is_kept], rank[is_kept], words[is_kept]
  kept = _discounted(counts[is_kept], discount)

  shape = (vocab_size, 1 + rank.max(initial=-1))
  followers, follower_probs = np.zeros(shape, np.int32), np.zeros(shape)
  followers[before, rank] = words
  follower_probs[before, rank] = kept / totals[before]
  rest = totals - np.bincount(before, weights=kept, minlength=vocab_size)
  backoff = np.where(totals > 0, rest / np.maximum(totals, 1), 1.0)
  return followers, follower_probs, backoff


def _discounted(counts, discount: float):
  return np.maximum(counts - discount, 0.0)


def _check_settings(vocab_size, order, discount, max_followers, start_id):
  for name, value, lowest in (
    ("vocab_size", vocab_size, 1),
    ("max_followers", max_followers, 1),
    ("start_id", start_id, 0),
  ):
    if (
      isinstance(value, bool)
      or not isinstance(value, (int, np.integer))
      or value < lowest
    ):
      raise ValueError(
        f"{name} is {value!r}; it must be an integer, at least {lowest}."
      )
  if start_id >= vocab_size:
    raise ValueError(
      f"start_id is {start_id}, but the vocabulary has {vocab_size} entries;"
      " give the target's first decoder input."
    )
  if order not in (1, 2):
    raise ValueError(
      f"order is {order!r}; it must be 1 (unigrams) or 2 (bigrams)."
    )
  if not (isinstance(discount, numbers.Real) and 0 <= float(discount) <= 1):
    raise ValueError(
      f"discount is {discount!r}; it must lie in [0, 1], where 0 smooths"
      " nothing."
    )


def _read(path) -> dict[str, np.ndarray]:
  """Returns the arrays of an .npz file; of any other file, none."""
  try:
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
      return dict(file)
  except (
    AttributeError,  # A lone array, which is no file of several.
    EOFError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
  ):
    return {}


def _fault(arrays: dict[str, np.ndarray]) -> str | None:
  """Returns what is wrong with a file's arrays."""
  if str(arrays.get("format")) != _FORMAT:
    return f"it is no whole .npz file with the mark {_FORMAT!r}"
  for name, dtype in _DTYPES.items():
    if name not in arrays or arrays[name].dtype != dtype:
      return f"it has no array {name} of {np.dtype(dtype).name}"
  unigram, backoff = arrays["unigram"], arrays["backoff"]
  followers, probs = arrays["followers"], arrays["follower_probs"]
  shapes = [arrays[name].shape for name in _DTYPES]
  size = unigram.shape
  if len(size) != 1 or not size[0] or followers.shape[:-1] != size:
    return f"its arrays have shapes {shapes}"
  if probs.shape != followers.shape or backoff.shape != size:
    return f"its arrays have shapes {shapes}"
  if np.any((followers < 0) | (followers >= size[0])):
    return f"it has followers beyond its {size[0]} words"
  sums = [unigram.sum(dtype=np.float64), *(probs.sum(1) + backoff)]
  lowest = min(unigram.min(), probs.min(initial=0), backoff.min())
  if not (lowest >= 0 and np.allclose(sums, 1, atol=1e-4)):
    return "its probabilities do not sum to 1"
  return None
