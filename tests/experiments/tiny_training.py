"""A tiny text and a tiny run of the trainer; also a program that tests stop.

It is called with a text's folder, an output_dir, and what stops it: "die STEP"
kills it when the checkpoint of a step is all but finished, "limit BYTES" lets
no file grow beyond that.
"""

import gzip
import json
import os
import pathlib
import resource
import signal
import sys

from experiments import train
from experiments.training import data as training_data
from experiments.training import loop as training_loop
from experiments.training import metrics as training_metrics
from specdec_jax import lm, t5
from specdec_jax.t5.vocabulary import SentencePieceVocabulary
from specdec_jax.training.optimizer import OptimizerConfig
from tests.experiments import tiny_pair

SIZES = {
  "emb_dim": 16,
  "num_heads": 2,
  "head_dim": 8,
  "mlp_dim": 32,
  "num_encoder_layers": 1,
  "num_decoder_layers": 1,
  "mlp_activations": ("gelu", "linear"),
  "logits_via_embedding": False,
  "dropout_rate": 0.1,
}
# Lines of metrics do not fall on checkpoints, so that averages run over them.
LOOP = {"log_every": 2, "evaluate_every": 4, "checkpoint_every": 3}
STEPS = 42
"""Of the program: enough for a test to kill it before its end."""
OPTIMIZER = {"learning_rate": 0.03, "warmup_steps": 2, "decay_steps": 2}


def make_text(folder: pathlib.Path) -> pathlib.Path:
  """Fills a folder with a parallel text and its vocabulary."""
  with gzip.open(folder / "text.tsv.gz", "wt", encoding="utf-8") as file:
    for number, each in enumerate(tiny_pair.TEXTS * 4):
      origin = ("man:pages/ls", "help", "manual:other")[number % 3]
      file.write(f"{each}\t{each.split()[-1]}\t{origin}\n")
  tiny_pair.train_vocabulary(folder / "sentencepiece.model")
  return folder


def vocab_size(text: pathlib.Path) -> int:
  return SentencePieceVocabulary(text / "sentencepiece.model").vocab_size


def t5_config(text, **changes) -> t5.T5Config:
  return t5.T5Config(**{"vocab_size": vocab_size(text), **SIZES, **changes})


def lm_config(text) -> lm.LMConfig:
  sizes = {
    key: value for key, value in SIZES.items() if "coder_layers" not in key
  }
  return lm.LMConfig(vocab_size=vocab_size(text), num_layers=1, **sizes)


def files(text: pathlib.Path, **changes) -> training_data.TextFiles:
  fields = {
    "train": str(text / "text.tsv.gz"),
    "validation": str(text / "text.tsv.gz"),
    "vocabulary": str(text / "sentencepiece.model"),
  }
  return training_data.TextFiles(**{**fields, **changes})


def run(text, output_dir, *, steps=8, loop=None, optimizer=None, **changes):
  """Trains; arguments override those of `train.run`."""
  arguments = {
    "model": t5_config(text),
    "data": files(text),
    "optimizer": OptimizerConfig(**{**OPTIMIZER, **(optimizer or {})}),
    "loop": training_loop.LoopConfig(steps, **{**LOOP, **(loop or {})}),
    "output_dir": str(output_dir),
    "tokens_per_batch": 96,
    "widths": (64,),
  }
  return train.run(**{**arguments, **changes})


def lines(output_dir) -> list[dict]:
  """All lines of metrics; fails on half of one."""
  path = pathlib.Path(output_dir) / training_metrics.METRICS
  text = path.read_text()
  assert not text or text.endswith("\n")
  return [json.loads(line) for line in text.splitlines()]


def curve(output_dir, field="loss") -> dict[int, float]:
  """A field by step; fails if a step has it twice."""
  found = [
    (line["step"], line[field]) for line in lines(output_dir) if field in line
  ]
  assert len(dict(found)) == len(found)
  return dict(found)


def die(folder_name: str) -> None:
  """Kills this process when orbax is about to rename a finished folder."""
  rename = os.rename

  def dying(source, target, **options):
    if pathlib.Path(target).name == folder_name:
      os.kill(os.getpid(), signal.SIGKILL)
    return rename(source, target, **options)

  os.rename = dying


def limit(size: str) -> None:
  """Makes the disk look full to whoever writes large files."""
  resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))


if __name__ == "__main__":
  if len(sys.argv) > 3:
    {"die": die, "limit": limit}[sys.argv[3]](sys.argv[4])
  run(pathlib.Path(sys.argv[1]), sys.argv[2], steps=STEPS)
