"""Measures alpha of a target's drafts, and what drafting makes of it.

    python -m experiments.measure_alpha --gin_file=measure_alpha.gin

At each temperature the target first writes on its own. Over these tokens alpha
is the mean of sum min(p, q), the paper's definition: target and draft read
them, and nothing is drafted. Then each pair decodes the same texts
speculatively; alpha-hat is the share of its guesses that were kept, of those
examined. With lenience l, which is LOSSY, alpha is the mean of
sum min(p / l, q), over the same tokens. Leaves alpha.jsonl, a line per draft,
temperature and lenience: the cells of the paper's Tables 3 and 5. An
interrupted run goes on where it stopped, and so does one with more tokens,
drafts, temperatures or leniences.
"""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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
from experiments.decoding.decode import check_finite
from experiments.decoding.drafts import check_drafts, load_drafts
from experiments.decoding.pair import Pair, PairConfig, weights_checksum
from experiments.decoding.task import Task
from experiments.decoding.terminal import make_console
from experiments.progress import progress_bar
from experiments.ratio import ratio_interval
from experiments.records import Records, checksum, write_json_lines
from specdec_jax.acceptance import row_sums
from specdec_jax.config import check_lenience
from specdec_jax.drafters import ModelDrafter
from specdec_jax.keys import split_rows

CELLS = "alpha.jsonl"
TEXT = "text.jsonl"
COUNTS = "counts.jsonl"


class Written(NamedTuple):
  """What the target wrote to a batch.

  Attributes:
    batch: The batch; text i of round r has index r * (number of texts) + i,
      from which its random numbers follow.
    ids: The tokens of each text, EOS included.
  """

  batch: Batch
  ids: list[list[int]]


def run(
  *,
  drafts: Mapping[str, PairConfig],
  task: Task,
  output_dir: str,
  max_input_length: int,
  max_new_tokens: int,
  prompt_tokens: int | None = None,
  temperatures: Sequence[float] = (0.0, 1.0),
  leniences: Sequence[float] = (1.0,),
  top_k: int = 0,
  top_p: float = 1.0,
  gamma: int = 7,
  decode: bool = True,
  min_tokens: int = 10_000,
  batch_size: int = 16,
  input_length_multiple: int = 32,
  seed: int = 0,
  resume: bool = True,
) -> list[dict[str, Any]]:
  """Measures drafts on a task's texts.

  Texts are taken in order until the target has written enough. At positive
  temperatures they are taken again, with other random numbers, if one round
  over them is not enough; at 0 that would say the same again, so the result
  then says how many tokens there are.

  Args:
    drafts: By what to call each draft, the target with it; a draft may be an
      n-gram table.
    task: The texts.
    output_dir: Where the results go. The target's text and cells that are
      there already are not made again.
    max_input_length: Most tokens of a text, EOS included.
    max_new_tokens: Most tokens of an output, EOS included.
    prompt_tokens: See `workload.load`.
    temperatures: What to decode at.
    leniences: See `SpeculativeConfig`: LOSSY below 1.
    top_k: See `SamplingConfig`.
    top_p: See `SamplingConfig`.
    gamma: Draft tokens per round; alpha does not depend on it.
    decode: Whether to measure alpha-hat too, which takes most of the time.
    min_tokens: How many tokens of the target's own to measure alpha on.
    batch_size: Texts that are decoded side by side.
    input_length_multiple: Inputs are padded to a multiple of it.
    seed: For temperatures above 0.
    resume: Whether to go on from what is there.

  Returns:
    What is in alpha.jsonl.

  Raises:
    FileNotFoundError: If something is not there.
    ValueError: If an argument cannot be, something does not fit together, or
      `output_dir` holds another measurement.
  """
  configs = make_configs(temperatures, top_k, top_p, gamma, max_new_tokens)
  leniences = tuple(map(check_lenience, leniences))
  _check_each_once("leniences", leniences)
  check_integers(1, min_tokens=min_tokens, batch_size=batch_size)
  check_drafts(drafts, "measure_alpha.drafts")
  for each in drafts.values():
    each.check_only_draft("alpha is of a draft's laws")
  for each in drafts.values():
    each.load_vocabulary()
  first, *others = drafts.values()
  work = workload.load(
    first,
    task,
    max_input_length=max_input_length,
    prompt_tokens=prompt_tokens,
  )
  manifest = dict(work.manifest)
  del manifest["pair"]  # The target and each draft have manifests of their own.
  cells = measure(
    dict(zip(drafts, load_drafts(work.pair, others), strict=True)),
    work.encoded,
    configs,
    leniences=leniences,
    decode=decode,
    task=task.name,
    output_dir=output_dir,
    manifest=manifest,
    min_tokens=min_tokens,
    batch_size=batch_size,
    input_length_multiple=input_length_multiple,
    seed=seed,
    resume=resume,
  )
  made = {
    "environment": environment.describe(first.dtype),
    "command": environment.command(),
  }
  lines = [cell | made for cell in cells]
  path = pathlib.Path(output_dir) / CELLS
  write_json_lines(path, lines)
  console = make_console()
  _show(console, lines)
  console.print(f"Cells: {path}")
  return lines


def measure(
  drafts: Mapping[str, Pair],
  encoded: list[list[int]],
  configs: dict[float, sd.SpeculativeConfig],
  *,
  leniences: Sequence[float],
  decode: bool,
  task: str,
  output_dir: str,
  manifest: dict[str, Any],
  min_tokens: int,
  batch_size: int,
  input_length_multiple: int,
  seed: int,
  resume: bool,
) -> list[dict[str, Any]]:
  """Measures drafts in memory; what is not explained here is as in `run`.

  Args:
    drafts: By what to call each draft, one target with each of its drafts.
    encoded: Token ids of each text, for the models to read.
    configs: From `make_configs`.
    leniences: One or more, each once.
    decode: Whether to measure alpha-hat too.
    task: What to call the texts.
    output_dir: Where what is counted goes.
    manifest: What else names the texts.
    min_tokens: Least tokens of the target's own.
    batch_size: Texts side by side.
    input_length_multiple: Of padding.
    seed: Of the draws.
    resume: Whether to go on from what is there.

  Returns:
    A cell for each draft, temperature and lenience: what alpha.jsonl says of
    it, but for the environment.

  Raises:
    ValueError: If `output_dir` holds another measurement, or a model's logits
      are not finite.
  """
  folder = pathlib.Path(output_dir)
  target = next(iter(drafts.values()))
  common = next(iter(configs.values()))
  settings = {
    "max_new_tokens": common.max_new_tokens,
    "top_k": common.sampling.top_k,
    "top_p": common.sampling.top_p,
    "seed": seed,
    "batch_size": batch_size,
  }
  of_target = (
    manifest
    | settings
    | {
      "input_length_multiple": input_length_multiple,
      "inputs": checksum(encoded),
      "target": {
        "path": target.config.target,
        "dtype": target.config.dtype,
        "weights": weights_checksum(target.target_params),
      },
    }
  )
  of_drafts = {
    draft: {
      "path": pair.config.draft_name,
      "weights": weights_checksum(pair.draft_params),
    }
    for draft, pair in drafts.items()
  }
  cells = []
  for temperature, config in configs.items():
    name = f"temperature_{temperature:g}"
    of_text = of_target | {"temperature": temperature}
    written = _write(
      target,
      encoded,
      config,
      Records(folder / "target" / name, TEXT, of_text, resume=resume),
      min_tokens=min_tokens,
      batch_size=batch_size,
      length_multiple=input_length_multiple,
      seed=seed,
    )
    for draft, pair in drafts.items():
      of_draft = of_text | {
        "draft": of_drafts[draft],
        "gamma": config.gamma,
        "decode": decode,
      }
      records = {
        lenience: Records(
          folder / "drafts" / draft / f"{name}_lenience_{lenience:g}",
          COUNTS,
          of_draft | {"lenience": lenience},
          resume=resume,
        )
        for lenience in leniences
      }
      counts = _count(
        pair,
        written,
        config,
        records,
        what=draft,
        decode=decode,
        seed=seed,
        num_texts=len(encoded),
      )
      cells += [
        {
          "pair": pair.config.name,
          "task": task,
          "draft": draft,
          "temperature": temperature,
          "lenience": lenience,
          **_summary(counts[lenience], min_tokens),
          "gamma": config.gamma,
          **settings,
        }
        for lenience in leniences
      ]
  # In the order of the tables: all of a draft together.
  order = list(drafts)
  return sorted(cells, key=lambda cell: order.index(cell["draft"]))


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
  _check_each_once("temperatures", tuple(map(float, temperatures)))
  return configs


def _check_each_once(name: str, values: tuple[float, ...]) -> None:
  if not values or len(set(values)) < len(values):
    raise ValueError(f"{name} is {values}; give one or more, each once.")


def _batches(
  encoded: list[list[int]],
  batch_size: int,
  length_multiple: int,
  config: sd.SpeculativeConfig,
) -> Iterator[Batch]:
  """Yields what to decode, in one round or without an end; see `Written`."""
  rounds = 0
  while rounds == 0 or not config.sampling.greedy:
    for batch in make_batches(
      encoded,
      range(len(encoded)),
      batch_size=batch_size,
      length_multiple=length_multiple,
    ):
      yield batch._replace(
        indices=tuple(rounds * len(encoded) + i for i in batch.indices)
      )
    rounds += 1


def _keys(seed: int, batch: Batch):
  """Returns keys for the target's own text, and others for the pairs'."""
  return split_rows(example_keys(seed, batch), 2)


def _write(
  pair: Pair,
  encoded: list[list[int]],
  config: sd.SpeculativeConfig,
  records: Records,
  *,
  min_tokens: int,
  batch_size: int,
  length_multiple: int,
  seed: int,
) -> list[Written]:
  """Lets the target write, and returns the batches that have enough tokens."""
  written: list[Written] = []
  tokens = begin = 0
  with progress_bar(
    f"target, temperature {config.sampling.temperature:g}", total=min_tokens
  ) as advance:
    for batch in _batches(encoded, batch_size, length_multiple, config):
      end = begin + batch.size
      # A batch that was interrupted is at the end, and is decoded again.
      if len(records.done) < end:
        records.keep(begin)
        records.append(_write_batch(pair, batch, len(encoded), config, seed))
      ids = [each["ids"] for each in records.done[begin:end]]
      written.append(Written(batch, ids))
      begin = end
      new = sum(map(len, ids))
      tokens += new
      advance(new)
      if tokens >= min_tokens:
        break
  return written


def _write_batch(
  pair: Pair,
  batch: Batch,
  num_texts: int,
  config: sd.SpeculativeConfig,
  seed: int,
) -> list[dict[str, Any]]:
  """Returns a record per text."""
  config = dataclasses.replace(
    config, max_new_tokens=budgets(batch, config.width)
  )
  own_keys, _ = _keys(seed, batch)
  output = jax.device_get(pair.baseline(own_keys, batch.inputs, config))
  records = []
  for row, index in enumerate(batch.indices):
    check_finite(float(output.log_probs[row]), f"Text {index % num_texts}")
    records.append(
      {
        "index": index % num_texts,
        "sample": index // num_texts,
        "ids": output.tokens[row, : output.lengths[row]].tolist(),
      }
    )
  return records


def _count(
  pair: Pair,
  written: list[Written],
  config: sd.SpeculativeConfig,
  records: dict[float, Records],
  *,
  what: str,
  decode: bool,
  seed: int,
  num_texts: int,
) -> dict[float, list[dict[str, Any]]]:
  """Counts what is not there, and returns each lenience's record per text."""
  leniences = tuple(records)
  begin = end = 0
  with progress_bar(
    f"{what}, temperature {config.sampling.temperature:g}",
    total=len(written) * len(leniences),
  ) as advance:
    for each in written:
      begin, end = end, end + each.batch.size
      shared = None
      for i, lenience in enumerate(leniences):
        of_cell = records[lenience]
        if len(of_cell.done) < end:
          of_cell.keep(begin)
          if shared is None:
            # Of all leniences at once: both models read the text once then.
            shared = _shared(pair, each, config, leniences)
          lenient = dataclasses.replace(config, lenience=lenience)
          of_cell.append(
            _count_batch(
              pair,
              each,
              shared[i],
              num_texts,
              lenient if decode else None,
              seed,
            )
          )
        advance(1)
  return {lenience: records[lenience].done[:end] for lenience in leniences}


def _shared(
  pair: Pair,
  written: Written,
  config: sd.SpeculativeConfig,
  leniences: tuple[float, ...],
) -> list[np.ndarray]:
  """Returns each lenience's sums of beta, float64[B]."""
  batch = written.batch
  tokens = np.zeros((len(batch.inputs), config.width), np.int32)
  lengths = np.zeros(len(batch.inputs), np.int32)
  for row, ids in enumerate(written.ids):
    tokens[row, : len(ids)], lengths[row] = ids, len(ids)
  drafter = pair.drafter
  assert isinstance(drafter, ModelDrafter), "callers check it"
  betas = sd.acceptance_probabilities(
    batch.inputs,
    tokens,
    target=pair.target,
    target_params=pair.target_params,
    drafter=drafter,
    draft_params=pair.draft_params,
    sampling=config.sampling,
    lenience=leniences,
  )
  return [row_sums(each, lengths)[0] for each in betas]


def _count_batch(
  pair: Pair,
  written: Written,
  shared: np.ndarray,
  num_texts: int,
  config: sd.SpeculativeConfig | None,
  seed: int,
) -> list[dict[str, Any]]:
  """Returns a record per text; decodes if there is a configuration."""
  batch = written.batch
  stats = None
  if config is not None:
    _, pair_keys = _keys(seed, batch)
    config = dataclasses.replace(
      config, max_new_tokens=budgets(batch, config.width)
    )
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
    record = {
      "index": index % num_texts,
      "sample": index // num_texts,
      "tokens": len(written.ids[row]),
      "shared": float(shared[row]),
    }
    if stats is not None:
      record |= {
        "examined": int(stats.examined[row]),
        "accepted": int(stats.accepted[row]),
        "emitted": int(stats.emitted[row]),
        "target_calls": int(stats.target_calls[row]),
      }
    records.append(record)
  return records


def _summary(records: list[dict[str, Any]], min_tokens: int) -> dict[str, Any]:
  def column(name):
    return [each[name] for each in records]

  tokens = sum(column("tokens"))
  found = {
    "texts": len(records),
    "tokens": tokens,
    "min_tokens": min_tokens,
    "enough_tokens": tokens >= min_tokens,
    "alpha": ratio_interval(column("shared"), column("tokens")),
    "examined": None,
    "alpha_hat": None,
    "block_efficiency": None,
  }
  if "examined" in records[0]:
    found |= {
      "examined": sum(column("examined")),
      "alpha_hat": ratio_interval(column("accepted"), column("examined")),
      "block_efficiency": sum(column("emitted")) / sum(column("target_calls")),
    }
  return found


def _show(console: Console, lines: list[dict[str, Any]]) -> None:
  first = lines[0]
  table = Table(
    title=f"{first['pair']} on {first['task']}", box=None, padding=(0, 1, 0, 0)
  )
  for heading in (
    "draft",
    "T",
    "lenience",
    "tokens",
    "alpha",
    "alpha-hat",
    "tokens per call",
  ):
    table.add_column(
      heading, justify="right", no_wrap=heading.startswith("alpha")
    )

  def interval(values):
    if values is None or values["mean"] is None:
      return "-"
    mean, low, high = values["mean"], values["low"], values["high"]
    if low is None:
      return f"{mean:.3f}"
    return f"{mean:.3f} ({low:.3f}\u2013{high:.3f})"

  for each in lines:
    efficiency = each["block_efficiency"]
    table.add_row(
      each["draft"],
      f"{each['temperature']:g}",
      f"{each['lenience']:g}",
      f"{each['tokens']:,}",
      interval(each["alpha"]),
      interval(each["alpha_hat"]),
      "-" if efficiency is None else f"{efficiency:.2f}",
    )
  console.print(table)
  lossy = {each["lenience"]: None for each in lines if each["lenience"] != 1}
  if lossy:
    console.print(
      f"LOSSY: lenience {', '.join(f'{each:g}' for each in lossy)}. What is"
      " decoded with it is not the target's own output."
    )
  few = {
    each["temperature"]: each for each in lines if not each["enough_tokens"]
  }
  for temperature, each in few.items():
    console.print(
      f"At temperature {temperature:g} all texts together gave"
      f" {each['tokens']} tokens, fewer than min_tokens ="
      f" {each['min_tokens']}; give a task with more texts."
    )
  console.print(
    f"gamma {first['gamma']}; 95% intervals over texts.", style="dim"
  )
  console.print(environment.line(first["environment"]), style="dim")


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
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
