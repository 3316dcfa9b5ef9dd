"""Trains a SentencePiece vocabulary for both languages, T5's ids special.

python -m experiments.train_vocabulary \
      --gin_file=train/demo_vocabulary.gin \
      --gin.DATA='"ende_train.tsv.gz"' --output_dir=runs/demo_vocabulary
"""

import itertools
import pathlib
from collections.abc import Sequence

from experiments import gin_cli
from experiments.paths import resolve
from specdec_jax.t5 import vocabulary
from specdec_jax.tasks import parallel_text


def run(
  *,
  data: str,
  output_dir: str,
  origins: Sequence[str] = (),
  vocab_size: int = 4096,
) -> pathlib.Path:
  """Trains a unigram model on sources and targets together.

  Args:
    data: The text; see `parallel_text`.
    output_dir: Where sentencepiece.model goes.
    origins: Which rows to use; empty for all.
    vocab_size: Pieces, with pad, EOS and unknown.

  Returns:
    The model's path.
  """
  import sentencepiece

  rows = parallel_text.read(resolve(data), origins)
  path = pathlib.Path(output_dir) / "sentencepiece.model"
  path.parent.mkdir(parents=True, exist_ok=True)
  with open(path, "wb") as file:
    sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=itertools.chain.from_iterable(
        (row.source, row.target) for row in rows
      ),
      model_writer=file,
      vocab_size=vocab_size,
      model_type="unigram",
      character_coverage=0.9998,
      normalization_rule_name="nmt_nfkc",
      max_sentence_length=16384,
      pad_id=vocabulary.PAD_ID,
      eos_id=vocabulary.EOS_ID,
      unk_id=vocabulary.UNK_ID,
      bos_id=-1,
      num_threads=2,
      minloglevel=1,
    )
  return path


if __name__ == "__main__":
  gin_cli.main(run, name="train_vocabulary")
