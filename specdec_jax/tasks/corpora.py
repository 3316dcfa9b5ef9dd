"""Offline tasks, of the text that experiments/corpora builds.

A model of one of them knows no other task, so inputs have no prefix.
"""

import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from specdec_jax.tasks import metrics, parallel_text, registry

ENDE = "ende"
ENDE_HELD_OUT = "ende_held_out"
SUMMARY = "summary"
ENGLISH_LM = "english_lm"

_SPLITS = ("train", "validation", "test")
# How a file's name begins, and the rows of its training split: mixed at these
# rates, an epoch of the mixture is one of each part.
_CUTS = {
  "sentence": ("ende_sent", 152_074),
  "paragraph": ("ende", 121_688),
  "long": ("ende_long", 15_289),
}
_SUMMARIES = {"synopsis": 26_714, "roundup": 9_349, "digest": 1_700}
_SUMMARY_FILE = "summ"
_HELD_OUT_FILE = "ende_ood.tsv.gz"


def register(
  vocabulary: str | seqio.Vocabulary,
  *,
  held_out: str,
  train: str | None = None,
  origins: Sequence[str] = (),
) -> tuple[str, ...]:
  """Registers translation, summaries and a language model.

  - `ende`: English to German; a mixture of `ende_sentence`, `ende_paragraph`
    and `ende_long`, which are the same text cut in three ways.
  - `ende_held_out`: two manuals of which nothing is trained on; test only.
  - `summary`: a mixture of `summary_synopsis`, `summary_roundup` and
    `summary_digest`.
  - `english_lm`: the English side of `ende`, for a decoder alone; a mixture of
    the same three parts.

  An example's `origin` says where it comes from.

  Args:
    vocabulary: A SentencePiece model, or a vocabulary.
    held_out: The folder of the validation and test splits; in the repository
      that is experiments/assets/corpora.
    train: The folder of the training split; None if it is not needed.
    origins: Keeps rows of these origins; see `parallel_text.read`. For
      translation and the language model only.

  Returns:
    The names of the mixtures and of `ende_held_out`. Tasks that have these
    names already are replaced.

  Raises:
    FileNotFoundError: If a folder lacks a file.
  """
  vocabulary = registry.load_vocabulary(vocabulary)
  folders = {"train": train, "validation": held_out, "test": held_out}
  for prefix in (*(name for name, _ in _CUTS.values()), _SUMMARY_FILE):
    for split in _SPLITS:
      if folders[split] is not None:
        _path(folders, prefix, split)

  def source(file, kept):
    return _source(functools.partial(_path, folders, file), kept, _SPLITS)

  for cut, (file, _) in _CUTS.items():
    registry.add_text_to_text(
      f"{ENDE}_{cut}",
      source(file, origins),
      vocabulary,
      text="source",
      answer="target",
      metrics=(metrics.bleu,),
    )
    registry.add_language_model(
      f"{ENGLISH_LM}_{cut}", source(file, origins), vocabulary, text="source"
    )
  for kind in _SUMMARIES:
    registry.add_text_to_text(
      f"{SUMMARY}_{kind}",
      source(_SUMMARY_FILE, (kind,)),
      vocabulary,
      text="source",
      answer="target",
      metrics=(metrics.rouge,),
    )
  for mixture in (ENDE, ENGLISH_LM):
    registry.add_mixture(
      mixture, {f"{mixture}_{cut}": rows for cut, (_, rows) in _CUTS.items()}
    )
  registry.add_mixture(
    SUMMARY, {f"{SUMMARY}_{kind}": rows for kind, rows in _SUMMARIES.items()}
  )
  registry.add_text_to_text(
    ENDE_HELD_OUT,
    _source(
      lambda split: os.path.join(held_out, _HELD_OUT_FILE), (), ("test",)
    ),
    vocabulary,
    text="source",
    answer="target",
    metrics=(metrics.bleu,),
  )
  return ENDE, ENDE_HELD_OUT, SUMMARY, ENGLISH_LM


def _path(folders, prefix: str, split: str) -> str:
  folder = folders[split]
  if folder is None:
    raise FileNotFoundError(
      "The training text has no folder; give its path as `train`. To build it:"
      " python -m experiments.corpora.build --out FOLDER"
    )
  path = os.path.join(folder, f"{prefix}_{split}.tsv.gz")
  if not os.path.isfile(path):
    raise FileNotFoundError(
      f"There is no {path}. To build it: python -m experiments.corpora.build"
      f" --out {folder}"
    )
  return path


def _source(path, origins, splits) -> seqio.DataSource:
  """Reads the whole file, so that a bad row is found before the first step."""

  def dataset(split, shuffle_files, seed=None):
    file = path(split)
    rows = list(parallel_text.read(file, origins))
    if not rows:
      raise ValueError(
        f"{file} has no row of the origins {tuple(origins)}; name origins that"
        " its third column has, or none for all."
      )
    if shuffle_files:
      order = np.random.default_rng(seed).permutation(len(rows))
      rows = [rows[i] for i in order]
    columns: Any = {
      name: [getattr(row, name) for row in rows]
      for name in parallel_text.COLUMNS
    }
    return tf.data.Dataset.from_tensor_slices(columns)

  return seqio.FunctionDataSource(dataset, splits=splits)
