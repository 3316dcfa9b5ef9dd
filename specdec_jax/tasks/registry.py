"""What the registrations share: vocabulary, features and preprocessors."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import seqio
import tensorflow as tf

from specdec_jax.t5.vocabulary import SentencePieceVocabulary

T5_VOCABULARY = "gs://t5-data/vocabs/cc_all.32000.100extra/sentencepiece.model"
"""That of the published T5 models; it holds their 100 sentinels."""

Metric = Callable[[Sequence[str], Sequence[str]], Mapping[str, float]]


def load_vocabulary(vocabulary: str | seqio.Vocabulary) -> seqio.Vocabulary:
  """Returns a vocabulary, given as such or as a SentencePiece model's path.

  Nothing is read over the network before the first text is encoded.

  Raises:
    FileNotFoundError: If a local path has no file.
    ValueError: If that is no SentencePiece model with T5's special ids.
  """
  if isinstance(vocabulary, seqio.Vocabulary):
    return vocabulary
  if "://" not in vocabulary:
    SentencePieceVocabulary(vocabulary)  # seqio's own errors name no file.
  return seqio.SentencePieceVocabulary(vocabulary)


def add_text_to_text(
  name: str,
  source: seqio.DataSource,
  vocabulary: seqio.Vocabulary,
  *,
  text: str,
  answer: str,
  prefix: str = "",
  metrics: Sequence[Metric] = (),
) -> None:
  """Registers a task of an encoder and a decoder.

  Args:
    name: The task's name; a task that has it already is replaced.
    source: The data.
    vocabulary: Of both sides.
    text: Where an example has its input: a key.
    answer: Where it has its target: a key.
    prefix: What stands before each input.
    metrics: Functions of targets and predictions.
  """
  feature = seqio.Feature(vocabulary, add_eos=True)
  _add(
    name,
    source,
    functools.partial(text_to_text, prefix=prefix, text=text, answer=answer),
    {"inputs": feature, "targets": feature},
    metrics,
  )


def add_language_model(
  name: str,
  source: seqio.DataSource,
  vocabulary: seqio.Vocabulary,
  *,
  text: str,
) -> None:
  """Registers a task of a decoder alone; its only metric is its loss.

  Args:
    name: The task's name; a task that has it already is replaced.
    source: The data.
    vocabulary: Of the text.
    text: Where an example has it: a key.
  """
  _add(
    name,
    source,
    functools.partial(only_text, text=text),
    {"targets": seqio.Feature(vocabulary, add_eos=True)},
    (),
  )


def add_mixture(name: str, rates: Mapping[str, float]) -> None:
  """Registers a mixture; one that has its name already is replaced."""
  seqio.MixtureRegistry.remove(name)
  seqio.MixtureRegistry.add(name, list(rates.items()))


@seqio.map_over_dataset
def text_to_text(example, prefix: str, text: str, answer: str):
  """Names an example's input and target, and puts the prefix before it."""
  return {
    "inputs": tf.strings.join([prefix, example[text]]),
    "targets": example[answer],
    **_origin(example),
  }


@seqio.map_over_dataset
def only_text(example, text: str):
  """Names an example's text."""
  return {"targets": example[text], **_origin(example)}


def _origin(example) -> dict[str, Any]:
  return {key: example[key] for key in ("origin",) if key in example}


def _add(name, source, preprocessor, features, metrics) -> None:
  seqio.TaskRegistry.remove(name)
  seqio.TaskRegistry.add(
    name,
    source=source,
    preprocessors=[
      preprocessor,
      seqio.preprocessors.tokenize,
      seqio.CacheDatasetPlaceholder(),
      seqio.preprocessors.append_eos_after_trim,
    ],
    output_features=features,
    metric_fns=list(metrics),
  )
