"""Measures alpha, and what drafting makes of it.

    python -m experiments.measure_alpha --gin_file=measure_alpha.gin

At each temperature the target first writes on its own. Over these tokens alpha
is the mean of sum min(p, q), the paper's definition: both models read them,
and nothing is drafted. Then the pair decodes the same texts speculatively;
alpha-hat is the share of its guesses that were kept, of those examined. Leaves
alpha.jsonl, a line per text and temperature, and alpha.json.
"""

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import specdec_jax as sd
from experiments import compilation_cache, environment, gin_cli
from experiments.checks import check_integers
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
from experiments.ratio import ratio_interval
from experiments.records import Records, write_json
from specdec_jax.acceptance import row_sums
from specdec_jax.keys import split_rows

TEXTS = "alpha.jsonl"
RESULT = "alpha.json"


def run(
  *,
  pair: PairConfig,
  task: Task,
  output_dir: str,
  max_input_length: int,
  max_new_tokens: int,
  prompt_tokens: int | None = None,
  temperatures: Sequence[float] = (0.0, 1.0),
  top_k: int = 0,
  top_p: float = 1.0,
  gamma: int = 7,
  min_tokens: int = 10_000,
  batch_size: int = 16,
  input_length_multiple: int = 32,
  seed: int = 0,
  resume: bool = True,
) -> dict[str, Any]:
  """Measures a pair on a task's texts.

  Texts are taken in order until the target has written enough. At positive
  temperatures they are taken again, with other random numbers, if one round
  over them is not enough; at 0 that would say the same again, so the result
  then says how many tokens there are.

  Args:
    pair: The models.
    task: The texts.
    output_dir: Where the results go; an interrupted run goes on from there.
    max_input_length: Most tokens of a text, EOS included.
    max_new_tokens: Most tokens of an output, EOS included.
    prompt_tokens: See `workload.load`.
    temperatures: What to decode at.
    top_k: See `SamplingConfig`.
    top_p: See `SamplingConfig`.
    gamma: Draft tokens per round; alpha does not depend on it.
    min_tokens: How many tokens of the target's own to measure alpha on.
    batch_size: Texts that are decoded side by side.
    input_length_multiple: Inputs are padded to a multiple of it.
    seed: For temperatures above 0.
    resume: Whether to go on from what is there.

  Returns:
    What is in alpha.json.
  """
  configs = make_configs(temperatures, top_k, top_p, gamma, max_new_tokens)
  check_integers(1, min_tokens=min_tokens, batch_size=batch_size)
  if pair.draft is None:
    raise ValueError(
      "PairConfig.draft is None; alpha is of a pair, so name a draft."
    )
  work = workload.load(
    pair,
    task,
    max_input_length=max_input_length,
    prompt_tokens=prompt_tokens,
  )
  result = measure(
    work.pair,
    work.encoded,
    configs,
    task=task.name,
    output_dir=output_dir,
    manifest=work.manifest,
    min_tokens=min_tokens,
    batch_size=batch_size,
    input_length_multiple=input_length_multiple,
    seed=seed,
    resume=resume,
  )
  _show(make_console(), result)
  return result


def measure(
  pair: Pair,
  encoded: list[list[int]],
  configs: dict[float, sd.SpeculativeConfig],
  *,
  task: str,
  output_dir: str,
  manifest: dict[str, Any],
  min_tokens: int,
  batch_size: int,
  input_length_multiple: int,
  seed: int,
  resume: bool,
) -> dict[str, Any]:
  """Measures a pair in memory; what is not explained here is as in `run`.

  Args:
    pair: The models, of which one is a draft.
    encoded: Token ids of each text, for the models to read.
    configs: From `make_configs`.
    task: What to call the texts.
    output_dir: Where the results go.
    manifest: What names the pair and the texts.
    min_tokens: Least tokens of the target's own.
    batch_size: Texts side by side.
    input_length_multiple: Of padding.
    seed: Of the draws.
    resume: Whether to go on from what is there.

  Returns:
    What is in alpha.json.

  Raises:
    ValueError: If `output_dir` holds another measurement, or a model's logits
      are not finite.
  """
  common = next(iter(configs.values()))
  settings = {
    "max_new_tokens": common.max_new_tokens,
    "top_k": common.sampling.top_k,
    "top_p": common.sampling.top_p,
    "gamma": common.gamma,
    "seed": seed,
  }
  records = Records(
    output_dir,
    TEXTS,
    manifest
    | settings
    | {
      "batch_size": batch_size,
      "input_length_multiple": input_length_multiple,
    },
    resume=resume,
  )
  results = []
  for temperature, config in configs.items():
    # A batch that was interrupted is at the end, and is decoded again.
    done = _of(records, temperature)
    records.keep(len(records.done) - len(done) % len(encoded) % batch_size)
    done = _of(records, temperature)
    with progress_bar(
      f"temperature {temperature}",
      total=min_tokens,
      done=sum(each["tokens"] for each in done),
    ) as advance:
      for batch in _batches(
        encoded, len(done), batch_size, input_length_multiple, config
      ):
        if sum(each["tokens"] for each in done) >= min_tokens:
          break
        new = _measure(pair, batch, len(encoded), config, seed)
        records.append(new)
        done += new
        advance(sum(each["tokens"] for each in new))
    results.append(_summary(done, temperature, min_tokens))
  result = {
    "pair": pair.config.name,
    "task": task,
    **settings,
    "min_tokens": min_tokens,
    "temperatures": results,
    "environment": environment.describe(pair.config.dtype),
    "command": environment.command(),
  }
  write_json(pathlib.Path(output_dir) / RESULT, result)
  return result


def make_configs(
  temperatures: Sequence[float],
  top_k: int,
  top_p: float,
  gamma: int,
  max_new_tokens: int,
) -> dict[float, sd.SpeculativeConfig]:
  """Returns how to decode at each temperature; arguments as in `run`.

  Raises:
    ValueError: If one of them cannot be.
  """
  if gamma < 1:
    raise ValueError(
      f"gamma is {gamma}; drafting needs at least 1 token a round."
    )
  configs = {
    float(each): sd.SpeculativeConfig(
      gamma=gamma,
      max_new_tokens=max_new_tokens,
      sampling=sd.SamplingConfig(float(each), top_k, top_p),
    )
    for each in temperatures
  }
  if not configs or len(configs) < len(temperatures):
    raise ValueError(
      f"temperatures is {tuple(temperatures)}; give one or more, each once."
    )
  return configs


def _of(records: Records, temperature: float) -> list[dict[str, Any]]:
  return [each for each in records.done if each["temperature"] == temperature]


def _batches(
  encoded: list[list[int]],
  done: int,
  batch_size: int,
  length_multiple: int,
  config: sd.SpeculativeConfig,
) -> Iterator[Batch]:
  """Yields what is to be decoded after `done` texts, one round or no end.

  Text i of round r has index r * len(encoded) + i, from which its random
  numbers follow.
  """
  rounds, begin = divmod(done, len(encoded))
  while rounds == 0 or not config.sampling.greedy:
    for batch in make_batches(
      encoded,
      range(begin, len(encoded)),
      batch_size=batch_size,
      length_multiple=length_multiple,
    ):
      yield batch._replace(
        indices=tuple(rounds * len(encoded) + i for i in batch.indices)
      )
    rounds, begin = rounds + 1, 0


def _measure(
  pair: Pair,
  batch: Batch,
  num_texts: int,
  config: sd.SpeculativeConfig,
  seed: int,
) -> list[dict[str, Any]]:
  """Returns a record per text."""
  assert pair.draft is not None, "callers check it"
  config = dataclasses.replace(
    config, max_new_tokens=budgets(batch, config.width)
  )
  # Two decodes that share no random number.
  own_keys, pair_keys = split_rows(example_keys(seed, batch), 2)
  own = pair.baseline(own_keys, batch.inputs, config)
  betas = sd.acceptance_probabilities(
    batch.inputs,
    own.tokens,
    target=pair.target,
    target_params=pair.target_params,
    drafter=sd.model_drafter(pair.draft, vocab_size=pair.target.vocab_size),
    draft_params=pair.draft_params,
    sampling=config.sampling,
  )
  shared, tokens = row_sums(betas, own.lengths)
  drafted = pair.speculative(pair_keys, batch.inputs, config)
  stats = jax.device_get(drafted.stats)
  records = []
  for row, index in enumerate(batch.indices):
    if not np.isfinite(shared[row]):
      raise ValueError(
        f"Text {index % num_texts} has sum min(p, q) = {shared[row]}: the"
        " logits of the target or of the draft are not finite. Check their"
        " weights."
      )
    records.append(
      {
        "temperature": config.sampling.temperature,
        "index": index % num_texts,
        "sample": index // num_texts,
        "tokens": int(tokens[row]),
        "shared": float(shared[row]),
        "examined": int(stats.examined[row]),
        "accepted": int(stats.accepted[row]),
        "emitted": int(stats.emitted[row]),
        "target_calls": int(stats.target_calls[row]),
      }
    )
  return records


def _summary(
  records: list[dict[str, Any]], temperature: float, min_tokens: int
) -> dict[str, Any]:
  def column(name):
    return [each[name] for each in records]

  tokens = sum(column("tokens"))
  return {
    "temperature": temperature,
    "outputs": len(records),
    "tokens": tokens,
    "enough_tokens": tokens >= min_tokens,
    "alpha": ratio_interval(column("shared"), column("tokens")),
    "examined": sum(column("examined")),
    "alpha_hat": ratio_interval(column("accepted"), column("examined")),
    "block_efficiency": sum(column("emitted")) / sum(column("target_calls")),
  }


def _show(console: Console, result: dict[str, Any]) -> None:
  table = Table(title=f"{result['pair']} on {result['task']}")
  for heading in (
    "temperature",
    "tokens",
    "alpha",
    "examined",
    "alpha-hat",
    "tokens per target call",
  ):
    table.add_column(heading, justify="right")

  def interval(values):
    mean, low, high = values["mean"], values["low"], values["high"]
    if mean is None:
      return "-"
    if low is None:
      return f"{mean:.3f}"
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"

  for each in result["temperatures"]:
    table.add_row(
      f"{each['temperature']:g}",
      f"{each['tokens']:,}",
      interval(each["alpha"]),
      f"{each['examined']:,}",
      interval(each["alpha_hat"]),
      f"{each['block_efficiency']:.2f}",
    )
  console.print(table)
  for each in result["temperatures"]:
    if not each["enough_tokens"]:
      console.print(
        f"At temperature {each['temperature']:g} all texts together gave"
        f" {each['tokens']} tokens, fewer than min_tokens ="
        f" {result['min_tokens']}; give a task with more texts."
      )
  console.print(
    f"gamma {result['gamma']}; 95% intervals over texts.", style="dim"
  )
  console.print(environment.line(result["environment"]), style="dim")


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
  """Runs the command line."""
  return gin_cli.main(
    run,
    name="measure_alpha",
    configurables=(PairConfig, Task),
    argv=argv,
  )


if __name__ == "__main__":
  compilation_cache.enable()
  main()
