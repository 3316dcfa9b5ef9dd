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
import math
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

import specdec_jax as sd
from experiments import checkpoint, compilation_cache, gin_cli
from experiments.checks import check_integers
from experiments.decoding.batching import (
  Batch,
  budgets,
  example_keys,
  make_batches,
)
from experiments.decoding.pair import weights_checksum
from experiments.paths import resolve
from experiments.progress import progress_bar
from experiments.records import Records, checksum
from experiments.training import data as training_data
from experiments.training import text as training_text
from experiments.training.seqio_task import SeqioTask
from specdec_jax import lm
from specdec_jax.array_typing import Params
from specdec_jax.t5.vocabulary import (
  EOS_ID,
  SentencePieceVocabulary,
  check_model_size,
)

log = logging.getLogger(__name__)

GENERATED = "generated.jsonl.gz"
OUTPUTS = "outputs.jsonl"

CONFIGURABLES = (sd.SamplingConfig, training_data.TextFiles, SeqioTask)


def run(
  *,
  model: str,
  data: training_data.Examples,
  output_dir: str,
  sampling: sd.SamplingConfig,
  split: str = "train",
  samples: int = 1,
  limit: int | None = None,
  prompt_tokens: int | None = None,
  max_input_length: int = 96,
  input_length_multiple: int = 32,
  max_new_tokens: int = 96,
  batch_size: int = 128,
  seed: int = 0,
  resume: bool = True,
) -> pathlib.Path:
  """Writes a model's outputs as token ids.

  A T5 reads the sources of examples. A language model goes on with the
  beginning of their targets, which is the source of what is written.

  Outputs that reach `max_new_tokens` without an EOS are left out: mostly they
  repeat themselves.

  Args:
    model: The checkpoint of a target, or of a draft.
    data: Examples: a `TextFiles` or a `SeqioTask`, with the vocabulary of the
      model.
    output_dir: Where generated.jsonl.gz goes. If an interrupted run of the
      same configuration left its outputs there, this one goes on from them.
    sampling: How to draw.
    split: "train", "validation" or "test", as `data` has it.
    samples: Outputs of each source; 1 if drawing is greedy.
    limit: How many sources to take, drawn at random; None for all.
    prompt_tokens: For a language model, and for that alone: how many tokens of
      a target are the prompt. Shorter targets are left out.
    max_input_length: Examples with a longer side, EOS included, are left out.
    input_length_multiple: Sources are padded to a multiple of it; the larger,
      the fewer programs are compiled.
    max_new_tokens: Longest output, EOS included.
    batch_size: Outputs that are written side by side.
    seed: Of the draws. An output follows from it and from the source's place
      among the examples, however sources are batched.
    resume: Whether to go on from outputs that are there; otherwise they are
      overwritten.

  Returns:
    The path of the pairs.

  Raises:
    FileNotFoundError: If a file is missing.
    ValueError: If something does not fit together, an example is bad, or
      `output_dir` holds outputs of another run.
  """
  _check(sampling, samples, prompt_tokens)
  vocabulary = SentencePieceVocabulary(resolve(data.vocabulary))
  writer, params = checkpoint.load(model)
  check_model_size(vocabulary, writer.vocab_size, model)
  pairs = data.load(split, max_tokens=max_input_length)
  sources = sources_of(
    pairs, writer, prompt_tokens=prompt_tokens, split=split, path=model
  )
  chosen = np.random.default_rng(seed).permutation(len(sources))[:limit]
  # Sample k of source i has index k * len(sources) + i: its random numbers.
  indices = [
    sample * len(sources) + i
    for i in by_length(sources, chosen)
    for sample in range(samples)
  ]
  records = Records(
    output_dir,
    OUTPUTS,
    {
      "model": {"path": model, "weights": weights_checksum(params)},
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
  write(
    records,
    sources,
    indices,
    model=writer,
    params=params,
    config=sd.SpeculativeConfig(
      gamma=0, max_new_tokens=max_new_tokens, sampling=sampling
    ),
    samples=samples,
    batch_size=batch_size,
    input_length_multiple=input_length_multiple,
    seed=seed,
  )
  return _save(records, sources, output_dir)


def by_length(sources: Sequence[list[int]], chosen: Iterable[int]) -> list[int]:
  """Returns indices of sources, the short ones first.

  Outputs of like length end together, so sources of like length should too.
  """
  return sorted(map(int, chosen), key=lambda i: (len(sources[i]), i))


def write(
  records: Records,
  sources: list[list[int]],
  indices: Sequence[int],
  *,
  model: sd.DecoderModel,
  params: Params,
  config: sd.SpeculativeConfig,
  batch_size: int,
  input_length_multiple: int,
  seed: int,
  samples: int = 1,
) -> None:
  """Writes those outputs that are missing, and shows how far it has come.

  Args:
    records: Where they go: a line per output, with "source", "sample", "ids".
    sources: What the model reads.
    indices: Which outputs there shall be, in order: sample k of source i has
      index k * len(sources) + i.
    model: Who writes.
    params: Its parameters.
    config: How; nothing is drafted.
    batch_size: As in `run`.
    input_length_multiple: As in `run`.
    seed: As in `run`.
    samples: As in `run`.

  Raises:
    ValueError: If the model's logits are not finite.
  """
  if len(records.done) < len(indices):
    # A batch that was interrupted is written again, as in `generate`.
    records.keep(len(records.done) // batch_size * batch_size)
  with progress_bar(
    "writing", total=len(indices), done=len(records.done)
  ) as advance:
    for batch in make_batches(
      sources * samples,
      indices[len(records.done) :],
      batch_size=batch_size,
      length_multiple=input_length_multiple,
    ):
      records.append(_write(batch, len(sources), model, params, config, seed))
      log.info("%d of %d outputs", len(records.done), len(indices))
      advance(batch.size)


def sources_of(
  pairs: Sequence[training_text.TokenPair],
  model: sd.DecoderModel,
  *,
  prompt_tokens: int | None,
  split: str,
  path: str,
) -> list[list[int]]:
  """Returns what a model reads of examples.

  Args:
    pairs: The examples.
    model: The model.
    prompt_tokens: As in `run`.
    split: What to call the examples in an error.
    path: What to call the model.

  Returns:
    A T5's sources; a language model's prompts, of those texts that go on.

  Raises:
    ValueError: If the model reads no such examples.
  """
  if isinstance(model, lm.LMModel):
    return _prompts([target for _, target in pairs], prompt_tokens)
  if prompt_tokens is not None:
    raise ValueError(
      f"prompt_tokens is {prompt_tokens}, but {path} is no language model,"
      " and reads sources; set it to None."
    )
  training_data.check_kind(pairs, decoder_only=False, split=split)
  return [source for source, _ in pairs]


def _prompts(
  targets: list[list[int]], prompt_tokens: int | None
) -> list[list[int]]:
  if prompt_tokens is None:
    raise ValueError(
      "prompt_tokens is None, and the model is a language model; set it to"
      " how many tokens of each text it shall go on with."
    )
  # One more than the prompt is not enough: that may be the EOS.
  prompts = [
    each[:prompt_tokens] for each in targets if len(each) > prompt_tokens + 1
  ]
  log.info("%d texts, %d of them long enough", len(targets), len(prompts))
  if not prompts:
    raise ValueError(
      f"prompt_tokens is {prompt_tokens}, and no text has so many tokens and"
      " another one to go on with; lower it."
    )
  return prompts


def _check(
  sampling: sd.SamplingConfig, samples: int, prompt_tokens: int | None
) -> None:
  check_integers(1, samples=samples)
  if prompt_tokens is not None:
    check_integers(1, prompt_tokens=prompt_tokens)
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
  params: Params,
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
  tokens, lengths, log_probs = jax.device_get(
    (output.tokens, output.lengths, output.log_probs)
  )
  records = []
  for row, index in enumerate(batch.indices):
    sample, source = divmod(index, num_sources)
    ids = tokens[row, : lengths[row]].tolist()
    log_prob = float(log_probs[row])
    if not math.isfinite(log_prob):
      raise ValueError(
        f"Output {sample} of source {source} has log_prob {log_prob}: the"
        " model's logits are not finite. Check its weights."
      )
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
    run, name="generate_text", configurables=CONFIGURABLES, argv=argv
  )


if __name__ == "__main__":
  logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
  logging.getLogger("absl").setLevel(logging.WARNING)
  compilation_cache.enable()
  main()
