"""Is greedy speculative decoding the baseline, token for token?

    python -m experiments.exactness --gin_file=exactness.gin

In float32, for each gamma and each batch size, every text's tokens are
compared with those of the baseline that decodes it alone. The baseline itself
is compared with the argmax (the lowest id on ties) of the teacher-forced
decode, which has no cache. Leaves cells.jsonl and exactness.json; the exit
code is 1 if anything differs.
"""

import dataclasses
import functools
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from rich.table import Table

import specdec_jax as sd
from experiments import compilation_cache, environment, gin_cli
from experiments.decoding import workload
from experiments.decoding.batching import (
  Batch,
  budgets,
  example_keys,
  make_batches,
)
from experiments.decoding.pair import Pair, PairConfig
from experiments.decoding.task import Task
from experiments.decoding.terminal import make_console
from experiments.progress import progress_bar
from experiments.records import Records, write_json

CELLS = "cells.jsonl"
RESULT = "exactness.json"


def run(
  *,
  pair: PairConfig,
  task: Task,
  output_dir: str,
  max_input_length: int,
  max_new_tokens: int,
  gammas: Sequence[int] = tuple(range(1, 9)),
  batch_sizes: Sequence[int] = (1, 3, 16),
  input_length_multiple: int = 32,
  resume: bool = True,
) -> dict[str, Any]:
  """Decodes a task's texts in every way and compares.

  Args:
    pair: The models; in float32.
    task: The texts.
    output_dir: Where the results go; an interrupted run goes on from there.
    max_input_length: Most tokens of a text, EOS included.
    max_new_tokens: Most tokens of an output, EOS included.
    gammas: Draft tokens per round; 0 is the baseline in batches.
    batch_sizes: Texts that are decoded side by side.
    input_length_multiple: Inputs are padded to a multiple of it.
    resume: Whether to go on from what is there.

  Returns:
    What is in exactness.json.
  """
  if pair.dtype != "float32":
    raise ValueError(
      f"PairConfig.dtype is {pair.dtype}, in which a call's tokens can"
      " depend on its shape by rounding; set it to 'float32'."
    )
  work = workload.load(pair, task, max_input_length=max_input_length)
  config = sd.SpeculativeConfig(
    gamma=0,
    max_new_tokens=max_new_tokens,
    sampling=sd.SamplingConfig(temperature=0.0),
  )
  cells = Records(
    output_dir,
    CELLS,
    work.manifest
    | {
      "max_new_tokens": max_new_tokens,
      "input_length_multiple": input_length_multiple,
      "code": environment.code_checksum(),
    },
    resume=resume,
  )

  def batches(batch_size):
    return make_batches(
      work.encoded,
      range(len(work.encoded)),
      batch_size=batch_size,
      length_multiple=input_length_multiple,
    )

  wanted = [
    (gamma, batch_size) for batch_size in batch_sizes for gamma in gammas
  ]
  done = {(cell["gamma"], cell["batch_size"]) for cell in cells.done}
  missing = [each for each in wanted if each not in done]
  with progress_bar("cells", total=len(missing) + 1) as advance:
    baseline = _decode(work.pair, batches(1), config)
    not_argmax = _compare_with_teacher_forcing(work.pair, batches(1), baseline)
    advance(1)
    for gamma, batch_size in missing:
      tokens = _decode(
        work.pair, batches(batch_size), dataclasses.replace(config, gamma=gamma)
      )
      cells.append(
        [
          {
            "gamma": gamma,
            "batch_size": batch_size,
            "texts": len(tokens),
            "tokens": sum(map(len, tokens)),
            "differences": _differences(baseline, tokens),
          }
        ]
      )
      advance(1)

  results = [
    cell for cell in cells.done if (cell["gamma"], cell["batch_size"]) in wanted
  ]
  result = {
    "pair": pair.name,
    "task": task.name,
    "texts": len(baseline),
    "tokens": sum(map(len, baseline)),
    "baseline_not_argmax": not_argmax,
    "cells": results,
    "identical": not not_argmax
    and not any(cell["differences"] for cell in results),
    "environment": environment.describe(pair.dtype),
    "command": environment.command(),
  }
  write_json(pathlib.Path(output_dir) / RESULT, result)
  _show(result, gammas, batch_sizes)
  return result


def _decode(
  pair: Pair, batches: list[Batch], config: sd.SpeculativeConfig
) -> list[list[int]]:
  """Returns each text's tokens, in order."""
  tokens = []
  for batch in batches:
    output = pair.speculative(
      example_keys(0, batch),
      batch.inputs,
      dataclasses.replace(config, max_new_tokens=budgets(batch, config.width)),
    )
    rows = zip(*jax.device_get((output.tokens, output.lengths)), strict=True)
    tokens += [row[:length].tolist() for row, length in rows][: batch.size]
  return tokens


def _differences(
  baseline: list[list[int]], tokens: list[list[int]]
) -> list[dict[str, Any]]:
  """Returns where texts differ first."""
  return [
    {"index": i, "position": _first_difference(one, other)}
    for i, (one, other) in enumerate(zip(baseline, tokens, strict=True))
    if one != other
  ]


def _first_difference(one: list[int], other: list[int]) -> int:
  for i, (a, b) in enumerate(zip(one, other, strict=False)):
    if a != b:
      return i
  return min(len(one), len(other))


def _compare_with_teacher_forcing(
  pair: Pair, batches: list[Batch], tokens: list[list[int]]
) -> list[dict[str, Any]]:
  """Returns where tokens are not the argmax of the decode without a cache.

  Args:
    pair: Who decoded.
    batches: Of one text each.
    tokens: Each text's tokens.
  """
  width = max(map(len, tokens))
  differences = []
  for batch, row in zip(batches, tokens, strict=True):
    # The start token in front, the last token out.
    decoder_inputs = np.zeros((1, width), np.int32)
    decoder_inputs[0, 1 : len(row)] = row[:-1]
    logits = np.asarray(
      _teacher_forced(
        pair.target, pair.target_params, batch.inputs, decoder_inputs
      )
    )[0, : len(row)]
    # NumPy's argmax is the lowest id on ties.
    best = np.argmax(logits, axis=-1).tolist()
    if best != row:
      position = _first_difference(best, row)
      gap = logits[position, best[position]] - logits[position, row[position]]
      differences.append(
        {
          "index": batch.indices[0],
          "position": position,
          "logit_gap": float(gap),
        }
      )
  return differences


@functools.partial(jax.jit, static_argnums=0)
def _teacher_forced(model, params, inputs, decoder_inputs):
  encoded = model.encode(params, inputs)
  return model.decode(params, encoded, inputs, decoder_inputs)


def _show(result, gammas, batch_sizes) -> None:
  console = make_console()
  table = Table(
    title=f"{result['pair']} on {result['task']}: texts that differ from"
    f" the baseline, of {result['texts']}"
  )
  table.add_column("gamma", justify="right")
  for batch_size in batch_sizes:
    table.add_column(f"batch of {batch_size}", justify="right")
  found = {
    (cell["gamma"], cell["batch_size"]): len(cell["differences"])
    for cell in result["cells"]
  }
  for gamma in gammas:
    table.add_row(
      str(gamma), *(str(found[gamma, each]) for each in batch_sizes)
    )
  console.print(table)
  console.print(
    f"The baseline's {result['tokens']} tokens differ from the teacher-forced"
    f" argmax in {len(result['baseline_not_argmax'])} texts."
  )
  console.print(environment.line(result["environment"]), style="dim")


def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command line; returns the exit code."""
  result = gin_cli.main(
    run, name="exactness", configurables=(PairConfig, Task), argv=argv
  )
  return 0 if result["identical"] else 1


if __name__ == "__main__":
  compilation_cache.enable()
  sys.exit(main())
