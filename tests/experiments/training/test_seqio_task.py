import jax
import jax.numpy as jnp
import pytest

REASON = "needs the extra 'data': pip install -e '.[data]'"
seqio = pytest.importorskip("seqio", reason=REASON)

import tensorflow as tf

from experiments import gin_cli, train
from experiments.paths import REPOSITORY
from experiments.training.data import TextFiles
from experiments.training.seqio_task import SeqioTask
from specdec_jax import lm, t5
from specdec_jax.training import batching, step
from tests.experiments import tiny_training
from tests.experiments.tiny_pair import SIZES

VOCABULARY = "experiments/assets/ende_demo/sentencepiece.model"
WIDTH = 200
ROWS = {
  "wmt14_translate/de-en:1.0.0": [
    {"en": "The file is small.", "de": "Die Datei ist klein."},
    {"en": "It is not used. " * 20, "de": "Die Datei ist klein."},
  ],
  "cnn_dailymail:3.4.0": [
    {"article": "The file is small. It is new.", "highlights": "small file"}
  ],
  "lm1b:1.1.0": [{"text": "The file is small."}],
}


@pytest.fixture
def rows_by_hand(monkeypatch):
  """TensorFlow Datasets has a few rows by hand."""

  def rows(self, split, shuffle=True, seed=None, shard_info=None, **_):
    found = ROWS[self.tfds_dataset.name]
    return tf.data.Dataset.from_tensor_slices(
      {key: [row[key] for row in found] for key in found[0]}
    )

  monkeypatch.setattr(seqio.TfdsDataSource, "get_dataset", rows)
  monkeypatch.setattr(
    seqio.TfdsDataSource, "num_input_examples", lambda self, split: 2
  )
  monkeypatch.setattr(
    seqio.TfdsDataSource, "list_shards", lambda self, split: [split]
  )


def configured(tmp_path, name: str) -> SeqioTask:
  """What a gin file makes of a script's task."""

  def script(*, task, output_dir):
    return task

  return gin_cli.main(
    script,
    name="script",
    configurables=(SeqioTask,),
    argv=[
      f"--gin_file=seqio/{name}.gin",
      f"--gin.VOCABULARY='{VOCABULARY}'",
      "--gin.script.task=@SeqioTask()",
      f"--output_dir={tmp_path}",
    ],
  )


def names() -> list[str]:
  folder = REPOSITORY / "gin_configs" / "seqio"
  return sorted(path.stem for path in folder.glob("*.gin"))


def test_there_is_a_file_for_each_task():
  published = ["cnn_dailymail", "lm1b", "wmt14_ende"]
  assert names() == sorted([*published, "ende", "english_lm", "summary"])


@pytest.mark.usefixtures("rows_by_hand")
@pytest.mark.parametrize("name", names())
def test_a_gin_file_feeds_a_tiny_model(tmp_path, name):
  task = configured(tmp_path, name)
  assert task.name == name
  pairs = task.load("validation", max_tokens=WIDTH, limit=8)
  assert pairs
  for source, target in pairs:
    assert target[-1] == 1
    assert max(len(source), len(target)) <= WIDTH
    is_language_model = name in ("lm1b", "english_lm")
    assert source == [] if is_language_model else source[-1] == 1
  if is_language_model:
    return
  batch = batching.Batches(pairs, batching.Batching(WIDTH, (WIDTH,)))[0]
  network = t5.T5Model(t5.T5Config(vocab_size=4096, **SIZES))
  params = network.init(jax.random.key(0))
  inputs, targets = map(jnp.asarray, batch)
  logits = step.token_logits(network, params, inputs, targets)
  assert logits.shape == (1, WIDTH, 4096)
  assert jnp.isfinite(logits).all()


@pytest.mark.usefixtures("rows_by_hand")
@pytest.mark.parametrize("name", ["wmt14_ende", "lm1b"])
def test_the_trainer_takes_a_task(tmp_path, name):
  kind = "LMConfig" if name == "lm1b" else "T5Config"
  layers = {
    "LMConfig": ("num_layers=1",),
    "T5Config": ("num_encoder_layers=1", "num_decoder_layers=1"),
  }[kind]
  saved = gin_cli.main(
    train.run,
    name="train",
    configurables=train.CONFIGURABLES,
    argv=[
      f"--gin_file=seqio/{name}.gin",
      "--gin_file=train/t5_finetune.gin",
      f"--gin.VOCABULARY='{VOCABULARY}'",
      "--gin.SIZE='tiny'",
      "--gin.INITIAL=None",
      f"--gin.train.model=@{kind}()",
      *(f"--gin.{kind}.{each}" for each in layers),
      f"--gin.{kind}.vocab_size=4096",
      f"--gin.{kind}.emb_dim=8",
      f"--gin.{kind}.num_heads=1",
      f"--gin.{kind}.head_dim=8",
      f"--gin.{kind}.mlp_dim=8",
      "--gin.LoopConfig.steps=2",
      f"--gin.train.widths=({WIDTH},)",
      f"--gin.train.tokens_per_batch={WIDTH}",
      "--gin.GreedyScore.max_new_tokens=4",
      *(["--gin.train.score=None"] if name == "lm1b" else []),
      f"--output_dir={tmp_path}",
    ],
  )
  package = lm if name == "lm1b" else t5
  assert package.load(None, saved)[0].vocab_size == 4096
  has_score = tiny_training.curve(tmp_path, "validation_bleu").keys() == {2}
  assert has_score == (name == "wmt14_ende")


@pytest.mark.usefixtures("rows_by_hand")
def test_what_is_too_long_is_left_out(tmp_path, caplog):
  task = configured(tmp_path, "wmt14_ende")
  with caplog.at_level("INFO", logger="experiments.training.seqio_task"):
    (pair,) = task.load("train", max_tokens=24)
  assert pair[1] == [95, 167, 32, 6, 1171, 444, 3, 1]
  assert "1 examples, 1 left out" in caplog.text
  assert len(task.load("train", max_tokens=200)) == 2
  with pytest.raises(ValueError, match="at most 3 tokens"):
    task.load("train", max_tokens=3)


def test_a_mixture_has_each_example_once():
  task = SeqioTask("ende", VOCABULARY, origins=("gnomehelp", "game"))
  pairs = task.load("test", max_tokens=10_000)
  rows = [
    SeqioTask(f"ende_{cut}", VOCABULARY, origins=task.origins).load(
      "test", max_tokens=10_000
    )
    for cut in ("sentence", "paragraph", "long")
  ]
  # As many as the splits' table of origins says.
  assert [len(each) for each in rows] == [254, 185, 9]
  assert sorted(pairs) == sorted(pair for each in rows for pair in each)
  # Drawn in turns: the first are not all of one task.
  assert not all(pair in rows[0] for pair in pairs[:50])
  assert task.load("test", max_tokens=10_000, limit=5) == pairs[:5]


def test_rows_have_text_and_origin():
  task = SeqioTask("ende_paragraph", VOCABULARY, origins=("gnomehelp",))
  rows = task.load_rows("test")
  files = TextFiles(
    vocabulary=VOCABULARY,
    test="experiments/assets/corpora/ende_test.tsv.gz",
    origins=("gnomehelp",),
  )
  assert rows == files.load_rows("test")
  assert {row.kind for row in rows} == {"gnomehelp"}


@pytest.mark.usefixtures("rows_by_hand")
def test_rows_of_a_published_task_have_no_origin(tmp_path):
  first, second = configured(tmp_path, "wmt14_ende").load_rows("test")
  assert first.reference == "Die Datei ist klein."
  assert first.target == [95, 167, 32, 6, 1171, 444, 3, 1]
  assert first.kind == ""
  # Whatever its length.
  assert second.longest > 80


def test_bad_names_are_told():
  with pytest.raises(ValueError, match="'wmt'; there are .*wmt14_ende"):
    SeqioTask("wmt", VOCABULARY).load("train", max_tokens=9)
  with pytest.raises(ValueError, match="no split 'dev'; there are train"):
    SeqioTask("lm1b", VOCABULARY).load("dev", max_tokens=9)


def test_missing_training_text_is_told():
  with pytest.raises(FileNotFoundError, match=r"experiments\.corpora\.build"):
    SeqioTask("ende", VOCABULARY).load("train", max_tokens=9)
