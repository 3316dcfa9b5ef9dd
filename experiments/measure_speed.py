"""How fast is a pair, and why not as fast as the formula says?

    python -m experiments.measure_speed --gin_file=measure_speed.gin

Times a target with each of its drafts against its own baseline, for every
temperature, gamma and batch size: the cells of a grid, of which the paper's
Tables 2 and 4 are some. Each leaves a line in speed.jsonl, with Theorem 3.8's
prediction beside what was measured, and between the two a factor for each
cause of the difference. An interrupted run goes on with the cells that are
missing, and so does one of a larger grid.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

import specdec_jax as sd
from experiments import compilation_cache, environment, gin_cli
from experiments.checks import check_integers
from experiments.decoding import workload
from experiments.decoding.batching import make_batches, spread_indices
from experiments.decoding.drafts import check_drafts, load_drafts
from experiments.decoding.pair import PairConfig
from experiments.decoding.speed import make_cell
from experiments.decoding.task import Task
from experiments.decoding.terminal import make_console
from experiments.decoding.timing import time_pair
from experiments.progress import progress_bar
from experiments.records import Records

CELLS = "speed.jsonl"


class Cell(NamedTuple):
  """What one line is of; the fields have these names there too."""

  draft: str
  batch_size: int
  temperature: float
  gamma: int


def run(
  *,
  drafts: Mapping[str, PairConfig],
  task: Task,
  output_dir: str,
  max_input_length: int,
  max_new_tokens: int,
  prompt_tokens: int | None = None,
  temperatures: Sequence[float] = (0.0, 1.0),
  gammas: Sequence[int] = (3, 5, 7),
  batch_sizes: Sequence[int] = (1, 4, 16),
  top_k: int = 0,
  top_p: float = 1.0,
  lenience: float = 1.0,
  verification: str = "token",
  examples: int = 32,
  repeats: int = 3,
  length_bounds: Sequence[int] = (16, 32, 64),
  input_length_multiple: int = 32,
  seed: int = 0,
  resume: bool = True,
) -> list[dict[str, Any]]:
  """Times a grid.

  Args:
    drafts: By what to call each draft, the target with it; a draft may be an
      n-gram table.
    task: The texts.
    output_dir: Where the results go. Cells that are there already are not
      timed again.
    max_input_length: Most tokens of a text, EOS included.
    max_new_tokens: Most tokens of an output, EOS included.
    prompt_tokens: See `workload.load`.
    temperatures: What to decode at.
    gammas: Draft tokens per round.
    batch_sizes: Texts that are decoded side by side.
    top_k: See `SamplingConfig`.
    top_p: See `SamplingConfig`.
    lenience: See `SpeculativeConfig`: LOSSY below 1.
    verification: See `SpeculativeConfig`, "token" or "block".
    examples: How many texts to decode, spread over the task; best a multiple
      of all batch sizes, as what a batch lacks is filled up with empty rows.
    repeats: How often to time a cell.
    length_bounds: Most tokens of each group of output lengths, ascending; one
      more group takes what is longer.
    input_length_multiple: Inputs are padded to a multiple of it; the larger,
      the fewer programs are compiled.
    seed: For temperatures above 0.
    resume: Whether to go on from what is there; otherwise it is overwritten.

  Returns:
    The lines of the grid, in its order.

  Raises:
    FileNotFoundError: If something is not there.
    ValueError: If an argument cannot be, something does not fit together, or
      `output_dir` holds cells of another run.
  """
  temperatures = [float(each) for each in temperatures]
  _check_each_once(
    temperatures=temperatures, gammas=gammas, batch_sizes=batch_sizes
  )
  _check_each_from_1(
    gammas=gammas, batch_sizes=batch_sizes, length_bounds=length_bounds
  )
  if list(length_bounds) != sorted(set(length_bounds)):
    raise ValueError(
      f"length_bounds is {tuple(length_bounds)}; give them in ascending order,"
      " each once."
    )
  configs = {
    (temperature, gamma): sd.SpeculativeConfig(
      gamma=gamma,
      max_new_tokens=max_new_tokens,
      sampling=sd.SamplingConfig(temperature, top_k, top_p),
      lenience=lenience,
      verification=verification,
    )
    for temperature in temperatures
    for gamma in gammas
  }
  check_integers(
    1,
    max_input_length=max_input_length,
    max_new_tokens=max_new_tokens,
    examples=examples,
    repeats=repeats,
    input_length_multiple=input_length_multiple,
  )
  check_drafts(drafts, "measure_speed.drafts")
  for each in drafts.values():
    each.load_vocabulary()
  first, *others = drafts.values()
  work = workload.load(
    first,
    task,
    max_input_length=max_input_length,
    prompt_tokens=prompt_tokens,
  )
  pairs = dict(zip(drafts, load_drafts(work.pair, others), strict=True))
  where = environment.describe(first.dtype)
  cells = Records(
    output_dir,
    CELLS,
    work.manifest
    | {
      "pair": {
        name: dataclasses.asdict(pair.config) | {"weights": pair.checksum()}
        for name, pair in pairs.items()
      },
      "max_new_tokens": max_new_tokens,
      "top_k": top_k,
      "top_p": top_p,
      "lenience": lenience,
      "verification": verification,
      "examples": examples,
      "repeats": repeats,
      "length_bounds": list(length_bounds),
      "input_length_multiple": input_length_multiple,
      "seed": seed,
      "code": environment.code_checksum(),
      # Times of one machine are not to be set beside those of another.
      "machine": environment.machine(where),
    },
    resume=resume,
  )

  wanted = [
    Cell(*each)
    for each in itertools.product(drafts, batch_sizes, temperatures, gammas)
  ]
  missing = [each for each in wanted if each not in _found(cells)]
  steps = repeats + 1
  with progress_bar(
    "cells",
    total=len(wanted) * steps,
    done=(len(wanted) - len(missing)) * steps,
  ) as advance:
    for cell in missing:
      pair = pairs[cell.draft]
      config = configs[cell.temperature, cell.gamma]
      timing = time_pair(
        pair,
        make_batches(
          work.encoded,
          spread_indices(len(work.encoded), examples),
          batch_size=cell.batch_size,
          length_multiple=input_length_multiple,
        ),
        config=config,
        seed=seed,
        repeats=repeats,
        on_progress=lambda: advance(1),
      )
      cells.append(
        [
          make_cell(
            timing,
            pair=pair,
            draft=cell.draft,
            task=task.name,
            kinds=[each.kind for each in work.examples],
            config=config,
            batch_size=cell.batch_size,
            seed=seed,
            length_bounds=length_bounds,
          )
        ]
      )
  found = _found(cells)
  lines = [found[each] for each in wanted]
  console = make_console()
  _show(console, lines)
  console.print(f"Cells: {cells.path}")
  return lines


def _check_each_once(**axes: Sequence[Any]) -> None:
  for name, values in axes.items():
    if not values or len(set(values)) < len(values):
      raise ValueError(
        f"{name} is {tuple(values)}; give one or more, each once."
      )


def _check_each_from_1(**axes: Sequence[int]) -> None:
  for name, values in axes.items():
    for each in values:
      check_integers(1, **{f"a value of {name}": each})


def _found(cells: Records) -> dict[Cell, dict[str, Any]]:
  return {
    Cell(*(each[name] for name in Cell._fields)): each for each in cells.done
  }


def _show(console: Console, lines: list[dict[str, Any]]) -> None:
  first = lines[0]

  def table(title, *headings):
    made = Table(title=title, box=None, padding=(0, 1, 0, 0))
    for heading in ("draft", "T", "\u03b3", "batch", *headings):
      made.add_column(heading, justify="right")
    return made

  def cell(line):
    return (
      line["draft"],
      f"{line['temperature']:g}",
      str(line["gamma"]),
      str(line["batch_size"]),
    )

  speeds = table(
    f"{first['pair']} on {first['task']}",
    "alpha-hat",
    "tokens per call",
    "Theorem 3.8",
    "predicted",
    "speedup",
  )
  names = list(first["error_terms"])
  terms = table(
    "What stands between Theorem 3.8 and the measured speedup",
    "c",
    *(str(number) for number in range(1, len(names) + 1)),
  )
  for line in lines:
    speedup = line["speedup"]
    speeds.add_row(
      *cell(line),
      f"{line['alpha_hat']['mean']:.3f}",
      f"{line['block_efficiency']['mean']:.2f}",
      f"{line['theorem_3_8']:.2f}",
      f"{line['predicted']['median']:.2f}",
      f"{speedup['median']:.2f} ({speedup['min']:.2f} to {speedup['max']:.2f})",
    )
    terms.add_row(
      *cell(line),
      f"{line['cost_ratio']:.3f}",
      *(f"{line['error_terms'][name]:.2f}" for name in names),
    )
  console.print(speeds)
  console.print(terms)
  legend = (
    f"{number} {name.replace('_', ' ')}"
    for number, name in enumerate(names, start=1)
  )
  console.print(f"Factors: {', '.join(legend)}.", style="dim")
  if first["lenience"] != 1:
    console.print(
      f"LOSSY: lenience {first['lenience']:g}. These are not the target's own"
      " outputs, nor the baseline's."
    )
  different = [each for each in lines if each["equal_to_baseline"] is False]
  if different:
    console.print(
      f"DIFFERENT TOKENS from the baseline's in {len(different)} cells."
    )
  console.print(environment.line(first["environment"]), style="dim")


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
  """Runs the command line."""
  return gin_cli.main(
    run, name="measure_speed", configurables=(PairConfig, Task), argv=argv
  )


if __name__ == "__main__":
  compilation_cache.enable()
  main()
