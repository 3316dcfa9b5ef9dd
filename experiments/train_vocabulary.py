"""Trains the demo pair's SentencePiece vocabulary, with T5's special ids."""

import argparse
import itertools
import os
from collections.abc import Sequence

from experiments import parallel_text


def train(
    *, data: str, origins: Sequence[str], output: str, vocab_size: int = 4096
) -> None:
  """Trains a unigram vocabulary jointly on both languages.

  Args:
    data: The training TSV; see `parallel_text`.
    origins: Which of its rows to use; empty for all.
    output: The `.model` file to write.
    vocab_size: Pieces, pad, EOS and unknown included.
  """
  import sentencepiece

  rows = parallel_text.read(data, origins)
  os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
  with open(output, "wb") as file:
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
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        num_threads=2,
        minloglevel=1,
    )


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--data", required=True)
  parser.add_argument("--origins", nargs="*", default=())
  parser.add_argument("--output", required=True)
  parser.add_argument("--vocab_size", type=int, default=4096)
  train(**vars(parser.parse_args()))


if __name__ == "__main__":
  main()
