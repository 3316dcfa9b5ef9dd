"""Lets a model write, for a draft to learn from what it wrote.

    python -m experiments.generate_text --gin_file=distill/demo_text.gin \
      --gin.DATA='"ende_train.tsv.gz"' --output_dir=runs/demo_text

leaves pairs of token ids in generated.jsonl.gz, which every trainer reads. A
draft that is trained on its target's own outputs guesses them more often than
one that has only seen the text which the target was trained on (Kim and Rush
2016; Zhou et al. 2023). Write at the temperature that will be decoded at.
"""

import dataclasses
import logging
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import specdec_jax as sd
from experiments import compilation_cache, gin_cli, training_text
from experiments.batching import Batch, budgets, example_keys, make_batches
from experiments.pair import weights_checksum
from experiments.paths import resolve
from experiments.progress import progress_bar
from experiments.records import Records, checksum
from specdec_jax import t5
from specdec_jax.t5.vocabulary import (
  EOS_ID,
  SentencePieceVocabulary,
  check_model_size,
)

log = logging.getLogger(__name__)

GENERATED = "generated.jsonl.gz"
OUTPUTS = "outputs.jsonl"


def run(
  *,
  model: str,
  vocabulary: str,
  data: str,
  output_dir: str,
  sampling: sd.SamplingConfig,
  samples: int = 1,
  limit: int | None = None,
  origins: Sequence[str] = (),
  max_input_length: int = 96,
  input_length_multiple: int = 32,
  max_new_tokens: int = 96,
  batch_size: int = 128,
  seed: int = 0,
  resume: bool = True,
) -> pathlib.Path:
  """Writes a model's outputs as token ids.

  Outputs that reach `max_new_tokens` without an EOS are left out of them:
  mostly they repeat themselves.

  Args:
    model: The checkpoint of a target, or of a draft.
    vocabulary: Its SentencePiece model.
    data: The text with the sources; see `training_text.load`.
    output_dir: Where generated.jsonl.gz goes. If an interrupted run of the
      same configuration left its outputs there, this one goes on from them.
    sampling: How to draw.
    samples: Outputs of each source; 1 if drawing is greedy.
    limit: How many sources to take, drawn at random; None for all.
    origins: Which rows of the text to use; empty for all.
    max_input_length: Rows with a longer side, EOS included, are left out.
    input_length_multiple: Sources are padded to a multiple of it; the larger,
      the fewer programs are compiled.
    max_new_tokens: Longest output, EOS included.
    batch_size: Outputs that are written side by side.
    seed: Of the draws. An output follows from it and from the source's place
      in the text, however sources are batched.
    resume: Whether to go on from outputs that are there; otherwise they are
      overwritten.

  Returns:
    The path of the pairs.
  """
  _check(sampling, samples)
  compilation_cache.enable()
  tokenizer = SentencePieceVocabulary(resolve(vocabulary))
  pairs = training_text.load(
    data, vocabulary=tokenizer, max_tokens=max_input_length, origins=origins
  )
  sources = [source for source, _ in pairs]
  chosen = np.random.default_rng(seed).permutation(len(sources))[:limit]
  # Outputs of like length end together, so sources of like length should too.
  # Sample k of source i has index k * len(sources) + i: its random numbers.
  indices = [
    sample * len(sources) + int(i)
    for i in sorted(chosen, key=lambda i: (len(sources[i]), i))
    for sample in range(samples)
  ]
  writer, params = t5.load(None, resolve(model))
  check_model_size(tokenizer, writer.vocab_size, model)
  records = Records(
    output_dir,
    OUTPUTS,
    {
      "model": model,
      "weights": weights_checksum(params),
      "vocabulary": vocabulary,
      "data": data,
      "sources": checksum(sources),
      "sampling": dataclasses.asdict(sampling),
      "samples": samples,
      "limit": limit,
      "input_length_multiple": input_length_multiple,
      "max_new_tokens": max_new_tokens,
      "batch_size": batch_size,
      "seed": seed,
    },
    resume=resume,
  )
  if len(records.done) < len(indices):
    # A batch that was interrupted is written again, as in `generate`.
    records.keep(len(records.done) // batch_size * batch_size)
  config = sd.SpeculativeConfig(
    gamma=0, max_new_tokens=max_new_tokens, sampling=sampling
  )
  with progress_bar(
    "writing", total=len(indices), done=len(records.done)
  ) as advance:
    for batch in make_batches(
      sources * samples,
      indices[len(records.done) :],
      batch_size=batch_size,
      length_multiple=input_length_multiple,
    ):
      records.append(_write(batch, len(sources), writer, params, config, seed))
      log.info("%d of %d outputs", len(records.done), len(indices))
      advance(batch.size)
  return _save(records, sources, output_dir)


def _check(sampling: sd.SamplingConfig, samples: int) -> None:
  if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
    raise ValueError(
      f"samples is {samples!r}; it must be an integer, at least 1."
    )
  if isinstance(sampling.temperature, tuple):
    raise ValueError(
      f"temperature is {sampling.temperature}; give one number, which holds"
      " for every source."
    )
  if sampling.greedy and samples > 1:
    raise ValueError(
      f"samples is {samples}, but the temperature is 0: all outputs of a"
      " source would be the same. Set samples=1, or a positive temperature."
    )


def _write(
  batch: Batch,
  num_sources: int,
  model: sd.DecoderModel,
  params: Any,
  config: sd.SpeculativeConfig,
  seed: int,
) -> list[dict[str, Any]]:
  output = sd.autoregressive_generate(
    example_keys(seed, batch),
    batch.inputs,
    model=model,
    params=params,
    config=dataclasses.replace(
      config, max_new_tokens=budgets(batch, config.width)
    ),
  )
  tokens, lengths = jax.device_get((output.tokens, output.lengths))
  records = []
  for row, index in enumerate(batch.indices):
    sample, source = divmod(index, num_sources)
    ids = tokens[row, : lengths[row]].tolist()
    records.append({"source": source, "sample": sample, "ids": ids})
  return records


def _save(records: Records, sources, output_dir: str) -> pathlib.Path:
  finished = [
    (sources[each["source"]], each["ids"])
    for each in records.done
    if each["ids"][-1] == EOS_ID
  ]
  log.info(
    "%d outputs, %d left out for want of an EOS",
    len(finished),
    len(records.done) - len(finished),
  )
  path = pathlib.Path(output_dir) / GENERATED
  training_text.write_generated(str(path), finished)
  return path


def main(argv: Sequence[str] | None = None) -> pathlib.Path:
  """Runs the command line."""
  return gin_cli.main(
    run,
    name="generate_text",
    configurables=(sd.SamplingConfig,),
    argv=argv,
  )


if __name__ == "__main__":
  logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
  logging.getLogger("absl").setLevel(logging.WARNING)
  main()
