"""Where training examples come from, and the batches made of them."""

import dataclasses
import hashlib
import itertools
import os
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from experiments import training_text
from experiments.paths import resolve
from experiments.training_text import TokenPair
from specdec_jax.t5.vocabulary import SentencePieceVocabulary


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
      split: "train" or "validation".
      max_tokens: Examples with a longer side are left out.
      limit: The most to return; None for all.
    """
    ...


@dataclasses.dataclass(frozen=True)
class TextFiles:
  """Files of examples: TSVs of text, or ids that a target generated.

  Attributes:
    train: The files to train on; see `training_text.load`.
    validation: Those to evaluate on. A limited number of examples is taken
      from them in turns.
    vocabulary: A SentencePiece model, that of the model to be trained.
    folder: The folder of `train`, for names without one; None for the working
      folder.
    origins: Which rows of a TSV to use; empty for all.
    only_source: Whether the sources alone are the texts, for a decoder without
      an encoder.
  """

  train: Sequence[str]
  validation: Sequence[str]
  vocabulary: str
  folder: str | None = None
  origins: Sequence[str] = ()
  only_source: bool = False

  def __post_init__(self):
    for field in ("train", "validation"):
      value = getattr(self, field)
      value = (value,) if isinstance(value, str) else tuple(value)
      if not value:
        raise ValueError(f"TextFiles.{field} names no file; give one.")
      object.__setattr__(self, field, value)

  def load(
    self, split: str, *, max_tokens: int, limit: int | None = None
  ) -> list[TokenPair]:
    """Reads the files of a split; see `Examples.load`.

    Raises:
      FileNotFoundError: If there is no such file.
      ValueError: If a row is bad, the vocabulary is not that of the text, or
        nothing is left.
    """
    paths = self.validation
    if split == "train":
      paths = [os.path.join(self.folder or "", path) for path in self.train]
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
