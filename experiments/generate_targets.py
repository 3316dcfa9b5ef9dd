"""Lets a target translate sources greedily, for a draft to learn from.

    python -m experiments.generate_targets \
      --gin_file=train/demo_distillation.gin \
      --gin.DATA='"ende_train.tsv.gz"' --output_dir=runs/demo_distillation

A draft that is trained on the target's own outputs guesses them more often
than one that has only seen the text which the target was trained on
(sequence-level distillation, Kim and Rush 2016).
"""

import logging
import pathlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

import specdec_jax as sd
from experiments import compilation_cache, gin_cli, training_text
from experiments.paths import resolve
from specdec_jax import t5
from specdec_jax.t5.vocabulary import EOS_ID, SentencePieceVocabulary

log = logging.getLogger(__name__)

GENERATED = "generated.jsonl.gz"


def run(
  *,
  target: str,
  vocabulary: str,
  data: str,
  output_dir: str,
  limit: int | None = None,
  origins: Sequence[str] = (),
  widths: Sequence[int] = (16, 24, 32, 48, 64, 96),
  max_new_tokens: int = 96,
  batch_size: int = 128,
  seed: int = 0,
) -> pathlib.Path:
  """Writes the target's greedy outputs as token ids.

  Outputs that reach `max_new_tokens` without an EOS are left out: mostly they
  repeat themselves.

  Args:
    target: The target's checkpoint.
    vocabulary: Its SentencePiece model.
    data: The text with the sources; see `training_text.load`.
    output_dir: Where generated.jsonl.gz goes.
    limit: How many sources to translate, drawn at random; None for all.
    origins: Which rows of the text to use; empty for all.
    widths: What sources are padded to, each compiled once.
    max_new_tokens: Longest output, EOS included.
    batch_size: Sources that are translated side by side.
    seed: Of the draw.

  Returns:
    The path of the outputs.
  """
  compilation_cache.enable()
  model, params = t5.load(None, resolve(target))
  pairs = training_text.load(
    data,
    vocabulary=SentencePieceVocabulary(resolve(vocabulary)),
    max_tokens=max(widths),
    origins=origins,
  )
  order = np.random.default_rng(seed).permutation(len(pairs))[:limit]
  # Outputs of like length end together, so sources of like length should too.
  sources = sorted((pairs[i][0] for i in order), key=len)
  config = sd.SpeculativeConfig(
    gamma=0,
    max_new_tokens=max_new_tokens,
    sampling=sd.SamplingConfig(temperature=0.0),
  )
  generated = []
  for start in range(0, len(sources), batch_size):
    batch = sources[start : start + batch_size]
    width = next(each for each in widths if each >= len(batch[-1]))
    inputs = np.zeros((batch_size, width), np.int32)
    for row, source in enumerate(batch):
      inputs[row, : len(source)] = source
    inputs[len(batch) :, 0] = EOS_ID  # Fillers, so that no shape is new.
    output = sd.autoregressive_generate(
      jax.random.key(0),
      jnp.asarray(inputs),
      model=model,
      params=params,
      config=config,
    )
    tokens, lengths = np.asarray(output.tokens), np.asarray(output.lengths)
    for source, row, length in zip(batch, tokens, lengths, strict=False):
      if row[length - 1] == EOS_ID:
        generated.append((source, row[:length].tolist()))
    log.info("%d of %d sources", start + len(batch), len(sources))
  log.info(
    "%d outputs, %d left out for want of an EOS",
    len(generated),
    len(sources) - len(generated),
  )
  path = pathlib.Path(output_dir) / GENERATED
  path.parent.mkdir(parents=True, exist_ok=True)
  training_text.write_generated(str(path), generated)
  return path


if __name__ == "__main__":
  logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
  gin_cli.main(run, name="generate_targets")
