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
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import specdec_jax as sd
from experiments import (
  checkpoint,
  compilation_cache,
  gin_cli,
  training_data,
  training_text,
)
from experiments.batching import Batch, budgets, example_keys, make_batches
from experiments.pair import weights_checksum
from experiments.paths import resolve
from experiments.progress import progress_bar
from experiments.records import Records, checksum
from experiments.seqio_task import SeqioTask
from specdec_jax import lm
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
  compilation_cache.enable()
  vocabulary = SentencePieceVocabulary(resolve(data.vocabulary))
  writer, params = checkpoint.load(model)
  check_model_size(vocabulary, writer.vocab_size, model)
  pairs = data.load(split, max_tokens=max_input_length)
  if isinstance(writer, lm.LMModel):
    sources = _prompts([target for _, target in pairs], prompt_tokens)
  else:
    if prompt_tokens is not None:
      raise ValueError(
        f"prompt_tokens is {prompt_tokens}, but {model} is no language model,"
        " and reads sources; set it to None."
      )
    training_data.check_kind(pairs, decoder_only=False, split=split)
    sources = [source for source, _ in pairs]
  chosen = np.random.default_rng(seed).permutation(len(sources))[:limit]
  # Outputs of like length end together, so sources of like length should too.
  # Sample k of source i has index k * len(sources) + i: its random numbers.
  indices = [
    sample * len(sources) + int(i)
    for i in sorted(chosen, key=lambda i: (len(sources[i]), i))
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
  for name, value in (
    ("samples", samples),
    ("prompt_tokens", 1 if prompt_tokens is None else prompt_tokens),
  ):
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
      raise ValueError(
        f"{name} is {value!r}; it must be an integer, at least 1."
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
  main()
