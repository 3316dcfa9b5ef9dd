import collections
import gzip
import re

import pytest

REASON = "needs the extra 'data': pip install -e '.[data]'"
seqio = pytest.importorskip("seqio", reason=REASON)

from experiments.paths import REPOSITORY
from specdec_jax.tasks import corpora, metrics

HELD_OUT = str(REPOSITORY / "experiments/assets/corpora")
ROW = "The file is small.\tDie Datei ist klein.\tman:pages/ls\n"
SUMMARY = "The file is small. It is not used.\tsmall file\tsynopsis:file\n"
GERMAN = [95, 167, 32, 6, 1171, 444, 3, 1]
ENGLISH = [51, 93, 22, 1165, 3, 1]


@pytest.fixture
def train(tmp_path):
  """A folder with a training split of three rows a file."""
  for name in ("ende", "ende_sent", "ende_long"):
    rows = ROW + ROW.replace("small", "new") + ROW.replace("man:", "dict:")
    write(tmp_path / f"{name}_train.tsv.gz", rows)
  rows = SUMMARY + "".join(
    SUMMARY.replace("synopsis", kind) for kind in ("roundup", "digest", "lead")
  )
  write(tmp_path / "summ_train.tsv.gz", rows)
  return tmp_path


def write(path, text: str) -> None:
  path.write_bytes(gzip.compress(text.encode()))


def examples(name: str, split: str, **options) -> list[dict]:
  provider = seqio.get_mixture_or_task(name)
  dataset = provider.get_dataset(
    sequence_length=None,
    split=split,
    num_epochs=1,
    **{"shuffle": False, "seed": 0, **options},
  )
  return list(dataset.as_numpy_iterator())


def parts(name: str) -> dict[str, float]:
  """A mixture's tasks and their rates."""
  mixture = seqio.MixtureRegistry.get(name)
  return {task.name: mixture.get_rate(task) for task in mixture.tasks}


def test_translation(vocabulary, train):
  corpora.register(vocabulary, held_out=HELD_OUT, train=str(train))
  first, _, third = examples("ende_paragraph", "train")
  assert first["inputs"].tolist() == ENGLISH
  assert first["targets"].tolist() == GERMAN
  assert first["origin"] == b"man:pages/ls"
  assert third["origin"] == b"dict:pages/ls"
  assert parts("ende") == {
    "ende_sentence": 152074,
    "ende_paragraph": 121688,
    "ende_long": 15289,
  }


def test_summaries_are_told_apart_by_origin(vocabulary, train):
  corpora.register(vocabulary, held_out=HELD_OUT, train=str(train))
  (example,) = examples("summary_digest", "train")
  assert example["inputs"].tolist() == [*ENGLISH[:-1], 146, 22, 109, 137, 3, 1]
  assert example["targets"].tolist() == [1165, 93, 1]
  assert example["origin"] == b"digest:file"
  assert parts("summary") == {
    "summary_synopsis": 26714,
    "summary_roundup": 9349,
    "summary_digest": 1700,
  }


def test_the_language_model_reads_the_english_side(vocabulary, train):
  corpora.register(vocabulary, held_out=HELD_OUT, train=str(train))
  first, *_ = examples("english_lm_sentence", "train")
  assert "inputs" not in first
  assert first["targets"].tolist() == ENGLISH
  assert parts("english_lm") == {
    "english_lm_sentence": 152074,
    "english_lm_paragraph": 121688,
    "english_lm_long": 15289,
  }


def test_origins_choose_the_rows(vocabulary, train):
  corpora.register(
    vocabulary, held_out=HELD_OUT, train=str(train), origins=("dict",)
  )
  (example,) = examples("ende_long", "train")
  assert example["origin"] == b"dict:pages/ls"
  assert len(examples("summary_synopsis", "train")) == 1
  corpora.register(
    vocabulary, held_out=HELD_OUT, train=str(train), origins=("wiki",)
  )
  with pytest.raises(ValueError, match=r"no row of the origins \('wiki',\)"):
    examples("ende_long", "train")


def test_shuffling_is_a_permutation_by_the_seed(vocabulary, train):
  rows = "".join(f"{i}\t{i}\tman:x\n" for i in range(50))
  write(train / "ende_train.tsv.gz", rows)
  corpora.register(vocabulary, held_out=HELD_OUT, train=str(train))

  def order(seed, shuffle=True):
    found = examples("ende_paragraph", "train", seed=seed, shuffle=shuffle)
    return [int(each["inputs_pretokenized"]) for each in found]

  assert order(0, shuffle=False) == list(range(50))
  assert order(1) == order(1)
  assert order(1) != order(2)
  assert sorted(order(1)) == sorted(order(2)) == list(range(50))


def test_the_shipped_splits_are_whole(vocabulary):
  names = corpora.register(vocabulary, held_out=HELD_OUT)
  assert names == ("ende", "ende_held_out", "summary", "english_lm")
  counts = {
    (name, split): len(list(rows(name, split)))
    for name, split in (
      ("ende_paragraph", "test"),
      ("ende_sentence", "validation"),
      ("ende_long", "test"),
      ("ende_held_out", "test"),
    )
  }
  assert counts == {
    ("ende_paragraph", "test"): 1833,
    ("ende_sentence", "validation"): 3224,
    ("ende_long", "test"): 262,
    ("ende_held_out", "test"): 1706,
  }
  kinds = collections.Counter(
    row["origin"].split(b":")[0]
    for kind in ("synopsis", "roundup", "digest")
    for row in rows(f"summary_{kind}", "test")
  )
  assert kinds == {b"synopsis": 538, b"roundup": 62, b"digest": 37}


def rows(name: str, split: str):
  """Rows before they are encoded."""
  source = seqio.TaskRegistry.get(name).source
  return source.get_dataset(split=split, shuffle=False).as_numpy_iterator()


def test_metrics(vocabulary):
  corpora.register(vocabulary, held_out=HELD_OUT)

  def metric_functions(name):
    return list(seqio.TaskRegistry.get(name).metric_fns)

  assert metric_functions("ende_long") == [metrics.bleu]
  assert metric_functions("ende_held_out") == [metrics.bleu]
  assert metric_functions("summary_roundup") == [metrics.rouge]
  assert metric_functions("english_lm_long") == []


def test_missing_training_text_names_the_command(vocabulary, train):
  command = r"python -m experiments\.corpora\.build --out"
  corpora.register(vocabulary, held_out=HELD_OUT)
  with pytest.raises(FileNotFoundError, match=f"`train`.*{command} FOLDER"):
    examples("ende_long", "train")
  (train / "ende_sent_train.tsv.gz").unlink()
  message = f"no .*ende_sent_train.*{command} {re.escape(str(train))}"
  with pytest.raises(FileNotFoundError, match=message):
    corpora.register(vocabulary, held_out=HELD_OUT, train=str(train))
  with pytest.raises(FileNotFoundError, match="no .*ende_sent_validation"):
    corpora.register(vocabulary, held_out=str(train))


def test_a_bad_row_is_found_before_the_first_example(vocabulary, train):
  path = train / "ende_train.tsv.gz"
  write(path, ROW * 5 + "one column\n")
  corpora.register(vocabulary, held_out=HELD_OUT, train=str(train))
  provider = seqio.get_mixture_or_task("ende_paragraph")
  with pytest.raises(ValueError, match=re.escape(f"{path}:6: 1 columns")):
    provider.get_dataset(sequence_length=None, split="train")
