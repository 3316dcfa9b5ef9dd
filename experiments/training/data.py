"""Where training examples come from, and the batches made of them."""

import dataclasses
import hashlib
import itertools
import os
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from experiments.paths import resolve
from experiments.training import text as training_text
from experiments.training.text import EncodedRow, TokenPair
from specdec_jax.t5.vocabulary import SentencePieceVocabulary
from specdec_jax.tasks import parallel_text

_SPLITS = ("train", "validation", "test")


class Examples(Protocol):
  """Anything that has examples by split; `SeqioTask` is one.

  Attributes:
    vocabulary: The path of the SentencePiece model that encodes them.
  """

  @property
  def vocabulary(self) -> str: ...

  def load(
    self, split: str, *, max_tokens: int, limit: int | None = None
  ) -> list[TokenPair]:
    """Returns pairs of source and target ids, each with its EOS.

    Args:
      split: "train", "validation" or "test".
      max_tokens: Examples with a longer side are left out.
      limit: The most to return; None for all.
    """
    ...

  def load_rows(self, split: str) -> list[EncodedRow]:
    """Returns all examples of a split, whatever their length."""
    ...


@dataclasses.dataclass(frozen=True)
class TextFiles:
  """Files of examples: TSVs of text, or ids that a target generated.

  Attributes:
    vocabulary: A SentencePiece model, that of the model to be trained.
    train: The files to train on; see `training_text.load`.
    validation: Those to evaluate on. A limited number of examples is taken
      from them in turns.
    test: Those that nothing was chosen by, for the last evaluation.
    folder: The folder of `train`, for names without one; None for the working
      folder.
    origins: Which rows of a TSV to use; empty for all.
    only_source: Whether the sources alone are the texts, for a decoder without
      an encoder.
  """

  vocabulary: str
  train: Sequence[str] = ()
  validation: Sequence[str] = ()
  test: Sequence[str] = ()
  folder: str | None = None
  origins: Sequence[str] = ()
  only_source: bool = False

  def __post_init__(self):
    for field in _SPLITS:
      value = getattr(self, field)
      value = (value,) if isinstance(value, str) else tuple(value)
      object.__setattr__(self, field, value)

  def load(
    self, split: str, *, max_tokens: int, limit: int | None = None
  ) -> list[TokenPair]:
    """Reads the files of a split; see `Examples.load`.

    Raises:
      FileNotFoundError: If there is no such file.
      ValueError: If there is no such split, a row is bad, the vocabulary is
        not that of the text, or nothing is left.
    """
    paths = self._paths(split)
    vocabulary = SentencePieceVocabulary(resolve(self.vocabulary))
    files = [
      training_text.load(
        path,
        vocabulary=vocabulary,
        max_tokens=max_tokens,
        origins=self.origins,
        limit=limit,
        only_source=self.only_source,
      )
      for path in paths
    ]
    if limit is None:
      return list(itertools.chain.from_iterable(files))
    turns = itertools.chain.from_iterable(itertools.zip_longest(*files))
    return [pair for pair in turns if pair is not None][:limit]

  def load_rows(self, split: str) -> list[EncodedRow]:
    """Reads the files of a split; see `Examples.load_rows`.

    Raises:
      FileNotFoundError: If there is no such file.
      ValueError: If there is no such split, a row is bad, the vocabulary is
        not that of the text, or no row is of one of the origins.
    """
    paths = self._paths(split)
    vocabulary = SentencePieceVocabulary(resolve(self.vocabulary))
    rows = [
      row
      for path in paths
      for row in training_text.read(
        path,
        vocabulary=vocabulary,
        origins=self.origins,
        only_source=self.only_source,
      )
    ]
    self._check_origins(rows, paths)
    return rows

  def _paths(self, split: str) -> list[str]:
    if split not in _SPLITS:
      raise ValueError(
        f"TextFiles has no split {split!r}; there are {', '.join(_SPLITS)}."
      )
    paths = getattr(self, split)
    if not paths:
      raise ValueError(f"TextFiles.{split} names no file; give one.")
    if split == "train":
      return [os.path.join(self.folder or "", path) for path in paths]
    return list(paths)

  def _check_origins(
    self, rows: Sequence[EncodedRow], paths: Sequence[str]
  ) -> None:
    texts = [
      path for path in paths if not path.endswith(training_text.GENERATED)
    ]
    found = {row.origin for row in rows}
    for each in self.origins if texts else ():
      if not any(parallel_text.has_origin(origin, (each,)) for origin in found):
        kinds = {
          parallel_text.kind_of(row.origin)
          for path in texts
          for row in parallel_text.read(resolve(path))
        }
        raise ValueError(
          f"TextFiles.origins names {each!r}, which no row of"
          f" {', '.join(texts)} has; there are {', '.join(sorted(kinds))}."
          " Name some of these, or none for all."
        )


def check_kind(
  pairs: Sequence[TokenPair], *, decoder_only: bool, split: str
) -> None:
  """Checks that examples have what a kind of model reads.

  Raises:
    ValueError: If an encoder would have nothing to read.
  """
  if decoder_only:
    return
  empty = next((i for i, pair in enumerate(pairs) if not pair[0]), None)
  if empty is not None:
    raise ValueError(
      f"Example {empty} of the {split} split has no source, and a T5 needs one"
      " to read. Train an LMConfig on it, or choose examples with sources."
    )


def checksum(pairs: Sequence[TokenPair]) -> str:
  """Returns a short name of examples: of all their ids, in order."""
  digest = hashlib.sha256()
  for side in range(2):
    sizes = np.fromiter((len(pair[side]) for pair in pairs), np.int32)
    ids = itertools.chain.from_iterable(pair[side] for pair in pairs)
    digest.update(sizes.tobytes())
    digest.update(np.fromiter(ids, np.int32, int(sizes.sum())).tobytes())
  return digest.hexdigest()[:16]
