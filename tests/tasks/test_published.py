import json
import subprocess
import sys

import numpy as np
import pytest

REASON = "needs the extra 'data': pip install -e '.[data]'"
seqio = pytest.importorskip("seqio", reason=REASON)

import tensorflow as tf
import tensorflow_datasets as tfds

from experiments.paths import REPOSITORY
from specdec_jax.tasks import metrics, published, registry

# Of the demo pair's vocabulary.
GERMAN = [95, 167, 32, 6, 1171, 444, 3, 1]  # Die Datei ist klein.
ENGLISH = [51, 93, 22, 1165, 3, 1]  # The file is small.


@pytest.fixture(autouse=True)
def registered(vocabulary):
  return published.register(vocabulary)


def preprocess(name: str, example: dict[str, str], lengths=None) -> dict:
  """What a task makes of one example."""
  task = seqio.TaskRegistry.get(name)
  dataset = tf.data.Dataset.from_tensors(example)
  dataset = task.preprocess_precache(dataset)
  dataset = task.preprocess_postcache(dataset, sequence_length=lengths)
  (result,) = dataset.as_numpy_iterator()
  return result


def test_translation():
  example = {"en": "The file is small.", "de": "Die Datei ist klein."}
  result = preprocess("wmt14_ende", example)
  assert result["inputs_pretokenized"] == (
    b"translate English to German: The file is small."
  )
  assert result["inputs"].tolist() == [
    3840, 3052, 15, 130, 23, 1483, 39, *ENGLISH,
  ]  # fmt: skip
  assert result["targets"].tolist() == GERMAN
  assert result["targets"].dtype == np.int32


def test_summarisation():
  example = {
    "article": "The file is small. It is not used.",
    "highlights": "The file is small.",
    "id": "1",
    "publisher": "x",
  }
  result = preprocess("cnn_dailymail", example)
  assert result["inputs"].tolist() == [
    855, 1044, 116, 641, 39, *ENGLISH[:-1], 146, 22, 109, 137, 3, 1,
  ]  # fmt: skip
  assert result["targets"].tolist() == ENGLISH


def test_a_language_model_has_no_inputs():
  result = preprocess("lm1b", {"text": "The file is small."})
  assert "inputs" not in result
  assert result["targets"].tolist() == ENGLISH
  assert set(seqio.TaskRegistry.get("lm1b").output_features) == {"targets"}


def test_a_length_trims_and_keeps_the_end():
  example = {"en": "The file is small.", "de": "Die Datei ist klein."}
  result = preprocess("wmt14_ende", example, {"inputs": 4, "targets": 3})
  assert result["inputs"].tolist() == [3840, 3052, 15, 1]
  assert result["targets"].tolist() == [95, 167, 1]


def test_metrics_and_splits(registered):
  tasks = {name: seqio.TaskRegistry.get(name) for name in registered}
  assert {name: list(task.metric_fns) for name, task in tasks.items()} == {
    "wmt14_ende": [metrics.bleu],
    "cnn_dailymail": [metrics.rouge],
    "lm1b": [],
  }
  for task in tasks.values():
    assert set(task.splits) == {"train", "validation", "test"}


@pytest.mark.parametrize(
  ("name", "builder", "config", "version"),
  [
    ("wmt14_ende", "wmt14_translate", "de-en", "1.0.0"),
    ("cnn_dailymail", "cnn_dailymail", None, "3.4.0"),
    ("lm1b", "lm1b", None, "1.1.0"),
  ],
)
def test_tensorflow_datasets_can_prepare_it(name, builder, config, version):
  asked = seqio.TaskRegistry.get(name).source.tfds_dataset.name
  assert asked == "/".join(filter(None, (builder, config))) + f":{version}"
  known = tfds.builder_cls(builder)
  if config:
    known = known.builder_configs[config]
    assert set(known.language_pair) == {"en", "de"}
    assert str(known.version) == version
  else:
    assert str(known.VERSION) == version


def test_registering_again_replaces(vocabulary):
  other = seqio.ByteVocabulary()
  published.register(other)
  feature = seqio.TaskRegistry.get("lm1b").output_features["targets"]
  assert feature.vocabulary == other
  published.register(vocabulary)
  feature = seqio.TaskRegistry.get("lm1b").output_features["targets"]
  assert feature.vocabulary.vocab_size == 4096


def test_bad_vocabularies_are_named(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"no vocabulary at .*none"):
    published.register(str(tmp_path / "none.model"))
  path = tmp_path / "text.model"
  path.write_text("text")
  with pytest.raises(ValueError, match=r"text\.model .*no SentencePiece model"):
    published.register(str(path))


def test_t5x_registers_by_an_import_without_the_network():
  code = (
    "import json, seqio\n"
    "assert 'wmt14_ende' not in seqio.TaskRegistry.names()\n"
    "import specdec_jax.tasks.t5_defaults\n"
    "task = seqio.TaskRegistry.get('wmt14_ende')\n"
    "vocabulary = task.output_features['targets'].vocabulary\n"
    "print(json.dumps(vocabulary.sentencepiece_model_file))\n"
  )
  run = subprocess.run(
    [sys.executable, "-c", code],
    cwd=REPOSITORY,
    capture_output=True,
    text=True,
    check=True,
  )
  assert json.loads(run.stdout) == registry.T5_VOCABULARY
