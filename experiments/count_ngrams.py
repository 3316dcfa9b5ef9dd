"""Counts n-gram tables of a training text, to draft from.

    python -m experiments.count_ngrams --gin_file=count_ngrams.gin

leaves unigram.npz and bigram.npz, either of which `PairConfig.draft` may name,
and ngrams.json, which says what was counted.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

import specdec_jax as sd
from experiments import environment, gin_cli
from experiments.checks import check_integers
from experiments.decoding.pair import TABLE
from experiments.decoding.terminal import make_console
from experiments.paths import resolve
from experiments.records import write_json
from experiments.training import data as training_data
from experiments.training.seqio_task import SeqioTask
from specdec_jax.t5.vocabulary import PAD_ID, SentencePieceVocabulary

RESULT = "ngrams.json"
NAMES = ("unigram", "bigram")
"""Of the tables of order 1 and 2."""

CONFIGURABLES = (training_data.TextFiles, SeqioTask)


def run(
  *,
  data: training_data.Examples,
  output_dir: str,
  max_tokens: int = 192,
  discount: float = 0.75,
  max_followers: int = 128,
  vocab_size: int | None = None,
  overwrite: bool = False,
) -> dict[str, Any]:
  """Counts a unigram and a bigram table.

  Args:
    data: A `TextFiles` or a `SeqioTask`; the targets of its training split
      are counted, as the target model is to emit them.
    output_dir: Where the tables go.
    max_tokens: Examples with a longer side, EOS included, are left out.
    discount: See `count_ngrams`.
    max_followers: See `count_ngrams`.
    vocab_size: How many ids the tables know; None for those of the data's
      vocabulary. A pair whose vocabulary has sentinels (`PairConfig.extra_ids`)
      needs them here too.
    overwrite: Whether to replace tables that are there.

  Returns:
    What is in ngrams.json.

  Raises:
    FileExistsError: If a table is there that may not be replaced.
    FileNotFoundError: If a file is missing.
    ValueError: If an argument cannot be, or an example is bad.
  """
  check_integers(1, max_tokens=max_tokens, max_followers=max_followers)
  folder = pathlib.Path(output_dir)
  paths = {name: folder / f"{name}{TABLE}" for name in NAMES}
  found = [str(path) for path in paths.values() if path.exists()]
  if found and not overwrite:
    raise FileExistsError(
      f"{found[0]} is there. Choose another output_dir, or set"
      " count_ngrams.overwrite=True to count again."
    )
  vocabulary = SentencePieceVocabulary(resolve(data.vocabulary))
  size = vocabulary.vocab_size if vocab_size is None else vocab_size
  check_integers(vocabulary.vocab_size, vocab_size=size)
  pairs = data.load("train", max_tokens=max_tokens)
  texts = [np.asarray(target) for _, target in pairs]
  tables = {
    name: sd.count_ngrams(
      texts,
      vocab_size=size,
      order=order,
      discount=discount,
      max_followers=max_followers,
      start_id=PAD_ID,
    )
    for order, name in enumerate(NAMES, start=1)
  }
  for name, table in tables.items():
    sd.save_ngrams(paths[name], table, overwrite=overwrite)
  result = {
    "data": dict(vars(data)),
    "examples": training_data.checksum(pairs),
    "texts": len(texts),
    "tokens": sum(map(len, texts)),
    "max_tokens": max_tokens,
    "discount": discount,
    "max_followers": max_followers,
    "vocab_size": size,
    "tables": {
      name: {
        "file": paths[name].name,
        "followers": int(np.count_nonzero(table.follower_probs)),
      }
      for name, table in tables.items()
    },
    "environment": environment.describe("float32"),
    "command": environment.command(),
  }
  write_json(folder / RESULT, result)
  console = make_console()
  console.print(
    f"{result['texts']:,} texts with {result['tokens']:,} tokens: "
    + ", ".join(map(str, paths.values())),
    markup=False,
  )
  return result


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
  """Runs the command line."""
  return gin_cli.main(
    run, name="count_ngrams", configurables=CONFIGURABLES, argv=argv
  )


if __name__ == "__main__":
  main()
