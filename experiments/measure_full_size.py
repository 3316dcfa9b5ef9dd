"""Table 2's speed column for the published sizes, without their weights.

    python -m experiments.measure_full_size --gin_file=measure_full_size.gin

SYNTHETIC: weights are random, and each guess is kept with a probability that
is given, the paper's alpha for one (`decoding/synthetic.py`). What a call costs
depends on the shapes and not on the weights, so the times are the real
shapes'; the texts mean nothing. Target and draft are timed in turns against the
target's own baseline, as trained pairs are, for each row of a table: task,
draft, temperature, gamma and alpha. Leaves a line a row in speed.jsonl, each
with "synthetic": true. An interrupted run goes on with the rows that are
missing.
"""

import gc
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import specdec_jax as sd
from experiments import compilation_cache, environment, gin_cli, memory
from experiments.checks import check_integers
from experiments.decoding.batching import make_batches
from experiments.decoding.random_pair import (
  RandomModel,
  bytes_needed,
  check_vocabularies,
  make_pair,
)
from experiments.decoding.speed import make_cell
from experiments.decoding.synthetic import with_alpha
from experiments.decoding.terminal import make_console
from experiments.decoding.timing import Timing, time_pair
from experiments.progress import progress_bar
from experiments.records import Records
from experiments.spread import spread
from specdec_jax.analysis import expected_rounds

CELLS = "speed.jsonl"


class Row(NamedTuple):
  """What a line is of; its fields have these names there too.

  Attributes:
    task: Where alpha was measured; a name and nothing else.
    draft: A published size.
    temperature: What to decode at.
    gamma: Guesses per round.
    alpha: How likely each of them is kept.
  """

  task: str
  draft: str
  temperature: float
  gamma: int
  alpha: float


def run(
  *,
  target: str,
  rows: Sequence[tuple[str, str, float, int, float]],
  output_dir: str,
  drafts: Sequence[str] | None = None,
  dtype: str | None = None,
  batch_size: int = 1,
  input_length: int = 64,
  output_length: int = 64,
  batches: int = 1,
  repeats: int = 3,
  seed: int = 0,
  resume: bool = True,
) -> list[dict[str, Any]]:
  """Times a target's size with drafts' sizes.

  Args:
    target: A published size, one of `t5.CONFIGS`.
    rows: What to time, each as `Row` has it.
    output_dir: Where the results go. Rows that are there already are not timed
      again.
    drafts: Which rows to take, by their drafts; None for all.
    dtype: What both compute in; None for bfloat16 on accelerators and float32
      on processors.
    batch_size: Inputs that are decoded side by side.
    input_length: Tokens of every input.
    output_length: Tokens of every output. Short ones leave alpha-hat far from
      alpha, by chance; `speedup_at_alpha` of the result takes that out.
    batches: How many batches to decode in each repeat.
    repeats: How often to time a row.
    seed: Of weights, inputs and decoding.
    resume: Whether to go on from what is there; otherwise it is overwritten.

  Returns:
    The lines, in the order of the rows.

  Raises:
    ValueError: If an argument cannot be, or `output_dir` holds rows of another
      run.
    MemoryError: If the largest pair does not fit.
  """
  if dtype is None:
    dtype = "float32" if jax.default_backend() == "cpu" else "bfloat16"
  check_integers(
    1,
    batch_size=batch_size,
    input_length=input_length,
    output_length=output_length,
    batches=batches,
    repeats=repeats,
  )
  wanted = _chosen(rows, drafts)
  configs = {
    row: sd.SpeculativeConfig(
      gamma=row.gamma,
      max_new_tokens=output_length,
      sampling=sd.SamplingConfig(row.temperature),
      eos_id=-1,
    )
    for row in wanted
  }
  large = RandomModel(target, dtype)
  small = {row.draft: RandomModel(row.draft, dtype) for row in wanted}
  for each in small.values():
    check_vocabularies(large, each)
  memory.check(
    max(
      bytes_needed(
        large,
        small[row.draft],
        config=config,
        batch_size=batch_size,
        input_length=input_length,
      )
      for row, config in configs.items()
    ),
    f"{target} in {dtype}, with its largest draft,",
    "free some, or set another target, dtype='bfloat16', or a smaller"
    " batch_size",
  )
  where = environment.describe(dtype)
  cells = Records(
    output_dir,
    CELLS,
    {
      "target": target,
      "batch_size": batch_size,
      "input_length": input_length,
      "output_length": output_length,
      "batches": batches,
      "repeats": repeats,
      "seed": seed,
      "code": environment.code_checksum(),
      # Times of one machine are not to be set beside those of another.
      "machine": environment.machine(where),
    },
    resume=resume,
  )
  found = _found(cells)
  missing = [row for row in wanted if row not in found]
  # No zeros, which are padding.
  inputs = np.random.default_rng(seed).integers(
    2, large.model.vocab_size, (batches * batch_size, input_length)
  )
  steps = repeats + 1
  with progress_bar(
    "rows",
    total=len(wanted) * steps,
    done=(len(wanted) - len(missing)) * steps,
  ) as advance:
    target_params = large.make(seed) if missing else None
    for name, draft in small.items():
      of_draft = [row for row in missing if row.draft == name]
      if not of_draft:
        continue
      pair = make_pair(large, target_params, draft, draft.make(seed + 1))
      for row in of_draft:
        timing = time_pair(
          with_alpha(pair, row.alpha),
          make_batches(
            inputs.tolist(),
            range(len(inputs)),
            batch_size=batch_size,
            length_multiple=input_length,
          ),
          config=configs[row],
          seed=seed,
          repeats=repeats,
          on_progress=lambda: advance(1),
        )
        cell = make_cell(
          timing,
          pair=pair,
          draft=name,
          task=row.task,
          kinds=[""] * len(inputs),
          config=configs[row],
          batch_size=batch_size,
          seed=seed,
        )
        cells.append(
          [
            cell
            | {
              "synthetic": True,
              "weights": "random",
              "alpha": row.alpha,
              "input_length": input_length,
              "speedup_at_alpha": speedup_at_alpha(timing, row.alpha),
            }
          ]
        )
      # One draft at a time: what decoded with it goes with it.
      del pair
      gc.collect()
  found = _found(cells)
  lines = [found[row] for row in wanted]
  console = make_console()
  _show(console, lines)
  console.print(f"Rows: {cells.path}")
  return lines


def speedup_at_alpha(timing: Timing, alpha: float) -> dict[str, float]:
  """Returns the measured speed-up as if chance had kept alpha's share.

  An output of a few dozen tokens takes a few rounds, and their number differs
  from run to run by a tenth and more. The measured speed-up is multiplied by
  the rounds counted over those that alpha leads to expect of outputs of these
  lengths (prefill is scaled with them).

  Args:
    timing: What was measured.
    alpha: Each guess's own probability.
  """
  stats = timing.stats
  expected = np.sum(expected_rounds(alpha, timing.gamma, stats.emitted))
  factor = np.sum(stats.target_calls) / expected
  return spread(factor * each for each in timing.speedup)


def _chosen(
  rows: Iterable[tuple[str, str, float, int, float]],
  drafts: Sequence[str] | None,
) -> list[Row]:
  found = []
  for row in rows:
    if len(row) != len(Row._fields):
      raise ValueError(
        f"measure_full_size.rows holds {row!r}; each row is"
        f" ({', '.join(Row._fields)})."
      )
    task, draft, temperature, gamma, alpha = row
    if alpha is None:
      raise ValueError(
        f"measure_full_size.rows holds {row!r}, without alpha; give the"
        " probability with which a guess is kept."
      )
    if not 0 <= alpha <= 1:
      raise ValueError(
        f"measure_full_size.rows holds {row!r}, whose alpha is {alpha}; it is a"
        " probability, in [0, 1]."
      )
    check_integers(1, **{f"gamma of {row!r}": gamma})
    found.append(Row(task, draft, float(temperature), gamma, float(alpha)))
  if len(set(found)) < len(found):
    raise ValueError(
      "measure_full_size.rows holds a row twice; give each once."
    )
  if drafts is not None:
    known = list(dict.fromkeys(row.draft for row in found))
    for each in drafts:
      if each not in known:
        raise ValueError(
          f"measure_full_size.drafts names {each!r}, of which there is no row;"
          f" the rows' drafts are {', '.join(known)}."
        )
    found = [row for row in found if row.draft in drafts]
  if not found:
    raise ValueError("measure_full_size has no row to time; give it rows.")
  return found


def _found(cells: Records) -> dict[Row, dict[str, Any]]:
  return {
    Row(*(each[name] for name in Row._fields)): each for each in cells.done
  }


def _show(console: Console, lines: list[dict[str, Any]]) -> None:
  first = lines[0]
  table = Table(
    title=f"SYNTHETIC: {first['pair']}, random weights, guesses kept by chance",
    box=None,
    padding=(0, 1, 0, 0),
  )
  for heading in (
    "task",
    "draft",
    "T",
    "\u03b3",
    "alpha",
    "alpha-hat",
    "c",
    "Theorem 3.8",
    "predicted",
    "speedup",
    "over predicted",
    "at alpha",
  ):
    table.add_column(heading, justify="right")
  for line in lines:
    speedup = line["speedup"]
    table.add_row(
      line["task"],
      line["draft"],
      f"{line['temperature']:g}",
      str(line["gamma"]),
      f"{line['alpha']:g}",
      f"{line['alpha_hat']['mean']:.3f}",
      f"{line['cost_ratio']:.3f}",
      f"{line['theorem_3_8']:.2f}",
      f"{line['predicted']['median']:.2f}",
      f"{speedup['median']:.2f} ({speedup['min']:.2f} to {speedup['max']:.2f})",
      f"{line['error_terms']['bookkeeping']:.3f}",
      f"{line['speedup_at_alpha']['median']:.2f}",
    )
  console.print(table)
  console.print(
    f"{first['target_parameters']:,} parameters; batch"
    f" {first['batch_size']}, {first['input_length']} tokens in,"
    f" {first['max_new_tokens']} out.",
    style="dim",
  )
  console.print(environment.line(first["environment"]), style="dim")


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
  """Runs the command line."""
  return gin_cli.main(run, name="measure_full_size", argv=argv)


if __name__ == "__main__":
  compilation_cache.enable()
  main()
