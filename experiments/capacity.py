"""What do batches and load leave of a pair's speed-up?

    python -m experiments.capacity --gin_file=capacity.gin

First batches: `measure_speed` over batch sizes, and the memory of each. Then
load: requests that come at random times, at rising rates, into slots that are
refilled as soon as a text has ended, with and without speculation. Leaves what
was measured in batches/, memory.jsonl and load/, and a page with pictures,
capacity.md, which says from where on speculation does not pay. An interrupted
run goes on with what is missing.
"""

import itertools
import math
import pathlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import specdec_jax as sd
from experiments import (
  compilation_cache,
  environment,
  figures,
  gin_cli,
  measure_speed,
)
from experiments.checks import check_integers
from experiments.decoding import workload
from experiments.decoding.batching import spread_indices
from experiments.decoding.footprint import footprint
from experiments.decoding.pair import PairConfig
from experiments.decoding.task import Task
from experiments.progress import progress_bar
from experiments.records import Records, write_json_lines
from experiments.serving import page
from experiments.serving.load_test import LoadTest

BATCHES = "batches"
LOAD = "load"
MEMORY = "memory.jsonl"
SERVED = "served.jsonl"
PAGE = "capacity.md"


class Cell(NamedTuple):
  """What a line of served.jsonl is of; its fields have these names there too.

  Attributes:
    load: Requests per second, in those that the baseline can serve; None if
      all requests are there from the start.
    repeat: From 0 on; each has arrivals of its own.
    gamma: Draft tokens per round; 0 is the baseline.
  """

  load: float | None
  repeat: int
  gamma: int


def run(
  *,
  pair: PairConfig,
  task: Task,
  output_dir: str,
  max_input_length: int,
  max_new_tokens: int,
  prompt_tokens: int | None = None,
  temperature: float = 0.0,
  gammas: Sequence[int] = (4,),
  batch_sizes: Sequence[int] = (1, 2, 4, 8, 16, 32),
  examples: int = 32,
  repeats: int = 3,
  slots: int = 8,
  loads: Sequence[float] = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5),
  requests: int = 64,
  warm_up: int = 16,
  max_rounds: int = 4,
  input_length_multiple: int = 32,
  seed: int = 0,
  resume: bool = True,
) -> dict[str, list[dict[str, Any]]]:
  """Measures batches, then load.

  Args:
    pair: The models.
    task: The texts.
    output_dir: Where the results go; what is there is not measured again.
    max_input_length: Most tokens of a text, EOS included.
    max_new_tokens: Most tokens of an output, EOS included.
    prompt_tokens: See `workload.load`.
    temperature: What to decode at.
    gammas: Draft tokens per round; beside each of them the baseline.
    batch_sizes: Texts that are decoded side by side, in batches.
    examples: How many texts there are, spread over the task; best a multiple of
      all batch sizes.
    repeats: How often to time batches, and how often to serve at each load.
    slots: Texts that are decoded side by side, under load.
    loads: Rates of arrivals, ascending, in requests that the baseline can
      serve: 1 is what it serves if its slots are always full.
    requests: How many requests count, at each load.
    warm_up: How many come before these, so that the slots fill up.
    max_rounds: See `open_loop.serve`.
    input_length_multiple: Inputs are padded to a multiple of it.
    seed: Of arrivals, and of decoding at temperatures above 0.
    resume: Whether to go on from what is there; otherwise it is overwritten.

  Returns:
    The lines of "batches", "memory" and "load".

  Raises:
    FileNotFoundError: If something is not there.
    ValueError: If an argument cannot be, something does not fit together, or
      `output_dir` holds results of another run.
  """
  check_integers(
    1,
    slots=slots,
    requests=requests,
    max_rounds=max_rounds,
    # measure_speed checks its own; these are needed here as well.
    examples=examples,
    repeats=repeats,
    input_length_multiple=input_length_multiple,
  )
  check_integers(0, warm_up=warm_up)
  if not loads or list(loads) != sorted(set(loads)):
    raise ValueError(
      f"loads is {tuple(loads)}; give one or more, in ascending order, each"
      " once."
    )
  for each in loads:
    if not (each > 0 and math.isfinite(each)):
      raise ValueError(
        f"a value of loads is {each}; a load is a positive number, of which 1"
        " is the baseline's capacity."
      )
  if not pair.has_drafter:
    raise ValueError(
      "PairConfig.draft is None; there is nothing to compare the baseline with"
      " without a draft, so name one."
    )
  draft = pathlib.PurePath(pair.draft or "prompt lookup").name
  folder = pathlib.Path(output_dir)
  batches = measure_speed.run(
    drafts={draft: pair},
    task=task,
    output_dir=str(folder / BATCHES),
    max_input_length=max_input_length,
    max_new_tokens=max_new_tokens,
    prompt_tokens=prompt_tokens,
    temperatures=(temperature,),
    gammas=gammas,
    batch_sizes=batch_sizes,
    examples=examples,
    repeats=repeats,
    input_length_multiple=input_length_multiple,
    seed=seed,
    resume=resume,
  )
  work = workload.load(
    pair,
    task,
    max_input_length=max_input_length,
    prompt_tokens=prompt_tokens,
  )
  texts = [work.encoded[i] for i in spread_indices(len(work.encoded), examples)]
  longest = max(map(len, texts))
  input_length = -(-longest // input_length_multiple) * input_length_multiple
  configs = {
    gamma: sd.SpeculativeConfig(
      gamma=gamma,
      max_new_tokens=max_new_tokens,
      sampling=sd.SamplingConfig(temperature),
    )
    for gamma in (0, *gammas)
  }
  memory = [
    {
      "batch_size": batch_size,
      "gamma": gamma,
      **footprint(
        work.pair, config, batch_size=batch_size, input_length=input_length
      ),
    }
    for batch_size, (gamma, config) in itertools.product(
      batch_sizes, configs.items()
    )
  ]
  write_json_lines(folder / MEMORY, memory)
  where = environment.describe(pair.dtype)
  cells = Records(
    folder / LOAD,
    SERVED,
    work.manifest
    | {
      "max_new_tokens": max_new_tokens,
      "temperature": temperature,
      "examples": examples,
      "repeats": repeats,
      "slots": slots,
      "requests": requests,
      "warm_up": warm_up,
      "max_rounds": max_rounds,
      "input_length_multiple": input_length_multiple,
      "seed": seed,
      "code": environment.code_checksum(),
      # Times of one machine are not to be set beside those of another.
      "machine": environment.machine(where),
    },
    resume=resume,
  )
  served = _measure(
    LoadTest(
      work.pair,
      texts,
      input_length,
      slots=slots,
      requests=requests,
      warm_up=warm_up,
      max_rounds=max_rounds,
      seed=seed,
    ),
    configs,
    _cells(list(configs), [float(each) for each in loads], repeats),
    cells,
    {
      "pair": pair.name,
      "draft": draft,
      "task": task.name,
      "temperature": temperature,
      "slots": slots,
      "environment": where,
      "command": environment.command(),
    },
  )
  for name, figure in page.pictures(batches, served).items():
    figures.save(figure, folder / name)
  text = page.page(batches, memory, served)
  (folder / PAGE).write_text(text + "\n", encoding="utf-8")
  for each in page.findings(batches, served):
    print(each)
  print(folder / PAGE)
  return {"batches": batches, "memory": memory, "load": served}


def _cells(
  gammas: Sequence[int], loads: Sequence[float], repeats: int
) -> list[Cell]:
  """Returns what to measure, in this order.

  Full slots come first, as loads are in terms of what the baseline serves
  then. What is compared is measured in turns, and each goes first sometimes.
  """

  def in_turns(load, repeat):
    order = gammas if repeat % 2 == 0 else gammas[::-1]
    return [Cell(load, repeat, gamma) for gamma in order]

  full = [in_turns(None, repeat) for repeat in range(repeats)]
  others = [
    in_turns(load, repeat)
    for repeat, load in itertools.product(range(repeats), loads)
  ]
  return [*itertools.chain(*full, *others)]


def _measure(
  test: LoadTest,
  configs: Mapping[int, sd.SpeculativeConfig],
  wanted: Sequence[Cell],
  cells: Records,
  common: dict[str, Any],
) -> list[dict[str, Any]]:
  """Serves the cells that are missing; returns the lines of all."""
  found = {
    Cell(*(line[name] for name in Cell._fields)): line for line in cells.done
  }
  done = sum(cell in found for cell in wanted)
  with progress_bar("services", total=len(wanted), done=done) as advance:
    for cell in wanted:
      if cell in found:
        continue
      rate = math.inf
      if cell.load is not None:
        rate = cell.load * capacity(found.values())
      measures = test.measure(configs[cell.gamma], rate, cell.repeat)
      cells.append(
        [
          {
            **cell._asdict(),
            "rate": rate if math.isfinite(rate) else None,
            **measures,
            **common,
          }
        ]
      )
      found[cell] = cells.done[-1]
      advance(1)
  return [found[cell] for cell in wanted]


def capacity(lines: Iterable[dict[str, Any]]) -> float:
  """Requests per second that the baseline serves if its slots are full.

  Args:
    lines: Among them those of it.
  """
  return statistics.median(
    line["requests_per_second"]
    for line in lines
    if line["gamma"] == 0 and line["load"] is None
  )


def main(argv: Sequence[str] | None = None) -> dict[str, list[dict[str, Any]]]:
  """Runs the command line."""
  return gin_cli.main(
    run, name="capacity", configurables=(PairConfig, Task), argv=argv
  )


if __name__ == "__main__":
  compilation_cache.enable()
  main()
