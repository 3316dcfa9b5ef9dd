"""Decodes texts speculatively, and reports what it brought.

    python -m experiments.generate --gin_file=demo.gin

leaves a line per text in outputs.jsonl and a summary in report.json.
"""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import specdec_jax as sd
from experiments import compilation_cache, gin_cli
from experiments.checks import check_integers
from experiments.decoding import workload
from experiments.decoding.batching import (
  example_keys,
  make_batches,
  spread_indices,
)
from experiments.decoding.decode import decode_batch
from experiments.decoding.pair import PairConfig
from experiments.decoding.report import make_report
from experiments.decoding.task import Task
from experiments.decoding.terminal import (
  make_console,
  show_decoding,
  show_report,
)
from experiments.decoding.timing import time_pair
from experiments.decoding.trace import trace
from experiments.progress import progress_bar
from experiments.records import Records, write_json
from specdec_jax.t5.vocabulary import EOS_ID

OUTPUTS = "outputs.jsonl"
REPORT = "report.json"


def run(
  *,
  pair: PairConfig,
  task: Task,
  config: sd.SpeculativeConfig,
  output_dir: str,
  max_input_length: int,
  batch_size: int = 1,
  input_length_multiple: int = 32,
  seed: int = 0,
  compare_with_baseline: bool = True,
  timing_repeats: int = 0,
  timing_examples: int = 20,
  show_examples: int = 0,
  resume: bool = True,
) -> dict[str, Any]:
  """Decodes a task's texts with a pair of models.

  Args:
    pair: The models.
    task: The texts.
    config: How to decode.
    output_dir: Where the results go. If an interrupted run of the same
      configuration left its outputs there, this one goes on from them.
    max_input_length: Most tokens of a text, EOS included; longer ones are
      refused before anything is decoded.
    batch_size: Texts that are decoded side by side.
    input_length_multiple: Inputs are padded to a multiple of it; the larger,
      the fewer programs are compiled.
    seed: For temperatures above 0. A text's output follows from it and from
      the text's index, however the texts are batched.
    compare_with_baseline: Whether to decode without speculation too, and to
      compare the tokens. Done where they must be equal: if decoding is greedy,
      in float32 and without lenience.
    timing_repeats: How often to time both ways of decoding; 0 is not at all.
    timing_examples: How many texts to time them on, spread over the task.
    show_examples: How many decodings to show round by round.
    resume: Whether to go on from outputs that are there; otherwise they are
      overwritten.

  Returns:
    The report.
  """
  _check_config(config, timing_repeats)
  check_integers(
    1,
    max_input_length=max_input_length,
    batch_size=batch_size,
    input_length_multiple=input_length_multiple,
    timing_examples=timing_examples,
  )
  check_integers(0, timing_repeats=timing_repeats, show_examples=show_examples)
  work = workload.load(pair, task, max_input_length=max_input_length)
  examples = work.examples
  compare_with_baseline &= (
    config.sampling.greedy and pair.dtype == "float32" and config.is_exact
  )
  records = Records(
    output_dir,
    OUTPUTS,
    work.manifest
    | {
      "config": dataclasses.asdict(config),
      "batch_size": batch_size,
      "input_length_multiple": input_length_multiple,
      "seed": seed,
      "compare_with_baseline": compare_with_baseline,
    },
    resume=resume,
  )

  def batches_of(indices, size=batch_size):
    return make_batches(
      work.encoded,
      indices,
      batch_size=size,
      length_multiple=input_length_multiple,
    )

  console = make_console()
  lookup = ""
  if pair.prompt_lookup is not None:
    lookup = f", copies after {pair.prompt_lookup} equal tokens"
  console.print(
    f"{pair.name}: target {pair.target}, draft {pair.draft_name}{lookup}\n"
    f"{task.name}: {len(examples)} texts from {task.source}"
  )
  for batch in batches_of(spread_indices(len(examples), show_examples), size=1):
    index = batch.indices[0]
    rounds = trace(
      example_keys(seed, batch), batch.inputs, pair=work.pair, config=config
    )
    show_decoding(console, examples[index].text, rounds, work.pair.vocabulary)

  batches = batches_of(range(len(examples)))
  # Batches are decoded whole: an interrupted one is decoded again, so that
  # its rows have the neighbours, and so the last bits, they would have had.
  done = len(records.done) // batch_size
  if len(records.done) < len(examples):
    records.keep(done * batch_size)
    batches = batches[done:]
  else:
    batches = []
  if records.done:
    console.print(f"{len(records.done)} texts were decoded before.")
  with progress_bar(
    "decoding", total=len(examples), done=len(records.done)
  ) as advance:
    for batch in batches:
      records.append(
        decode_batch(
          work.pair,
          batch,
          examples,
          config=config,
          seed=seed,
          compare=compare_with_baseline,
        )
      )
      advance(batch.size)

  timing = None
  if timing_repeats:
    with progress_bar("timing", total=timing_repeats + 1) as advance:
      timing = time_pair(
        work.pair,
        batches_of(spread_indices(len(examples), timing_examples)),
        config=config,
        seed=seed,
        repeats=timing_repeats,
        on_progress=lambda: advance(1),
      )

  report = make_report(
    records.done,
    timing,
    pair=work.pair,
    task=task,
    config=config,
    batch_size=batch_size,
    seed=seed,
  )
  report_path = pathlib.Path(output_dir) / REPORT
  write_json(report_path, report)
  show_report(console, report)
  console.print(f"Outputs: {records.path}\nReport: {report_path}")
  return report


def _check_config(config: sd.SpeculativeConfig, timing_repeats: int):
  if config.num_decodes != 1:
    raise ValueError(
      f"num_decodes is {config.num_decodes}; a text has one output here, so"
      " set SpeculativeConfig.num_decodes=1."
    )
  if config.eos_id not in (EOS_ID, -1):
    raise ValueError(
      f"eos_id is {config.eos_id}, but the vocabulary's is {EOS_ID}; set"
      f" SpeculativeConfig.eos_id to it, or to -1 for no end."
    )
  if timing_repeats and not config.gamma:
    raise ValueError(
      "gamma is 0, so there is nothing to time the baseline against; set"
      " timing_repeats=0, or a positive gamma."
    )
  for name, value in (
    ("max_new_tokens", config.max_new_tokens),
    ("temperature", config.sampling.temperature),
  ):
    if isinstance(value, tuple):
      raise ValueError(
        f"{name} is {value}; give one number, which holds for every text."
      )


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
  """Runs the command line."""
  return gin_cli.main(
    run,
    name="generate",
    configurables=(PairConfig, Task, sd.SpeculativeConfig, sd.SamplingConfig),
    argv=argv,
  )


if __name__ == "__main__":
  compilation_cache.enable()
  main()
