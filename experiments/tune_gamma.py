"""Which gamma is the fastest for a pair, on this machine?

    python -m experiments.tune_gamma --gin_file=tune_gamma.gin

Counts what rounds of many guesses keep, and so what rounds of fewer would have
kept; times target calls of one token to one more than that; and sets the one
against the other, without the theorem's assumptions that acceptance is i.i.d.
and that a verification costs a target step. The best gamma is then timed
against the baseline. Leaves tune_gamma.json and a picture of the curve.
"""

import collections
import dataclasses
import itertools
import json
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

import specdec_jax as sd
from experiments import compilation_cache, environment, figures, gin_cli
from experiments.checks import check_integers
from experiments.decoding import workload
from experiments.decoding.batching import (
  Batch,
  budgets,
  example_keys,
  make_batches,
  spread_indices,
)
from experiments.decoding.pair import Pair, PairConfig
from experiments.decoding.task import Task
from experiments.decoding.terminal import make_console
from experiments.decoding.timing import parts_sampler, time_pair
from experiments.progress import progress_bar
from experiments.spread import spread
from specdec_jax import analysis
from specdec_jax.array_typing import Array, Float, Int

REPORT = "tune_gamma.json"
FIGURE = "tune_gamma.svg"


class CostCurve(NamedTuple):
  """What a round is made of, in target calls of one token.

  Attributes:
    verification: float64[G + 1], a target call of g + 1 tokens.
    draft: c, a draft call.
    first_draft: A round's first draft call.
  """

  verification: Float[np.ndarray, "G1"]
  draft: float
  first_draft: float


def run(
  *,
  pair: PairConfig,
  task: Task,
  output_dir: str,
  max_input_length: int,
  max_new_tokens: int,
  prompt_tokens: int | None = None,
  most: int = 8,
  temperature: float = 0.0,
  top_k: int = 0,
  top_p: float = 1.0,
  batch_size: int = 1,
  examples: int = 32,
  repeats: int = 3,
  input_length_multiple: int = 32,
  seed: int = 0,
) -> dict[str, Any]:
  """Finds the best gamma.

  Args:
    pair: The models.
    task: The texts.
    output_dir: Where the results go.
    max_input_length: Most tokens of a text, EOS included.
    max_new_tokens: Most tokens of an output, EOS included.
    prompt_tokens: See `workload.load`.
    most: The largest gamma to think of.
    temperature: What to decode at.
    top_k: See `SamplingConfig`.
    top_p: See `SamplingConfig`.
    batch_size: Texts that are decoded side by side.
    examples: How many texts to decode, spread over the task.
    repeats: How often to time.
    input_length_multiple: Inputs are padded to a multiple of it.
    seed: For temperatures above 0.

  Returns:
    What is in the report. Its `gamma` is 0 where speculation does not pay.

  Raises:
    FileNotFoundError: If something is not there.
    ValueError: If an argument cannot be, or something does not fit together.
  """
  check_integers(
    1,
    most=most,
    batch_size=batch_size,
    examples=examples,
    repeats=repeats,
    input_length_multiple=input_length_multiple,
  )
  pair.check_only_draft("the curve is of a draft's calls")
  if not pair.has_draft:
    raise ValueError(
      "PairConfig.draft is None; there is no gamma to choose without a draft,"
      " so name one."
    )
  if pair.stops:
    raise ValueError(
      f"PairConfig.stops is {pair.stops}, but the curve is of rounds with"
      " gamma guesses each; set it to (), and confidence to None."
    )

  def config(gamma: int) -> sd.SpeculativeConfig:
    return sd.SpeculativeConfig(
      gamma=gamma,
      max_new_tokens=max_new_tokens,
      sampling=sd.SamplingConfig(temperature, top_k, top_p),
    )

  configs = [config(gamma) for gamma in range(most + 1)]
  work = workload.load(
    pair,
    task,
    max_input_length=max_input_length,
    prompt_tokens=prompt_tokens,
  )
  batches = make_batches(
    work.encoded,
    spread_indices(len(work.encoded), examples),
    batch_size=batch_size,
    length_multiple=input_length_multiple,
  )
  steps = len(batches) + 2 * repeats + 1
  with progress_bar("batches and repeats", total=steps) as advance:
    stats = _count(work.pair, batches, configs[most], seed, advance)
    costs = _time_costs(work.pair, batches, configs, repeats, advance)
    histogram = stats.accepted_histogram
    curve = analysis.counted_wall_time_improvement(
      histogram, costs.draft, costs.verification, costs.first_draft
    )
    best = int(np.argmax(curve))
    timing = None
    if best:
      timing = time_pair(
        work.pair,
        batches,
        config=configs[best],
        seed=seed,
        repeats=repeats,
        on_progress=lambda: advance(1),
      )
  alpha = sd.acceptance_rate(stats) or 0.0
  report = {
    "pair": pair.name,
    "draft": pair.draft_name,
    "task": task.name,
    "temperature": temperature,
    "top_k": top_k,
    "top_p": top_p,
    "batch_size": batch_size,
    "examples": int(stats.emitted.shape[0]),
    "tokens": int(np.sum(stats.emitted)),
    "gamma": best,
    "alpha_hat": alpha,
    "acceptance_by_position": acceptance_by_position(histogram),
    "tokens_per_round": analysis.counted_tokens(histogram).tolist(),
    "cost_ratio": costs.draft,
    "first_cost_ratio": costs.first_draft,
    "verification_ratios": costs.verification.tolist(),
    "improvement": curve.tolist(),
    "theorem_3_8": [
      float(analysis.wall_time_improvement(alpha, gamma, costs.draft))
      for gamma in range(most + 1)
    ],
    "speedup": None if timing is None else spread(timing.speedup),
    "predicted": None if timing is None else spread(timing.predicted_speedups),
    "environment": environment.describe(pair.dtype),
    "command": environment.command(),
  }
  folder = pathlib.Path(output_dir)
  folder.mkdir(parents=True, exist_ok=True)
  path = folder / REPORT
  path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
  figures.save(draw(report), folder / FIGURE)
  _show(report)
  print(f"Report: {path}")
  return report


def acceptance_by_position(
  histogram: Int[Array | np.ndarray, "B G1"],
) -> list[float | None]:
  """How often each guess holds of those whose predecessors held.

  If acceptance were i.i.d. all would be alpha.

  Args:
    histogram: As in `SpeculationStats.accepted_histogram`.

  Returns:
    A number per guess; None where no round came so far.
  """
  rounds = np.sum(histogram, axis=0)
  at_least = np.cumsum(rounds[::-1])[::-1]
  return [
    float(kept / examined) if examined else None
    for examined, kept in itertools.pairwise(at_least)
  ]


def _count(
  pair: Pair,
  batches: Sequence[Batch],
  config: sd.SpeculativeConfig,
  seed: int,
  advance,
) -> sd.SpeculationStats:
  """Decodes, and returns the counters of all texts."""
  counted = []
  for batch in batches:
    output = pair.speculative(
      example_keys(seed, batch),
      batch.inputs,
      # Dummies that fill the last batch end at once, and are left out.
      dataclasses.replace(config, max_new_tokens=budgets(batch, config.width)),
    )
    stats = jax.device_get(output.stats)
    counted.append(jax.tree.map(lambda x, n=batch.size: x[:n], stats))
    advance(1)
  return jax.tree.map(lambda *rows: np.concatenate(rows), *counted)


def _time_costs(
  pair: Pair,
  batches: Sequence[Batch],
  configs: Sequence[sd.SpeculativeConfig],
  repeats: int,
  advance,
) -> CostCurve:
  """Times the parts for every gamma, in turns, at the commonest shape."""
  shapes = collections.Counter(batch.inputs.shape for batch in batches)
  shape, _ = shapes.most_common(1)[0]
  inputs = next(each.inputs for each in batches if each.inputs.shape == shape)
  samplers = [parts_sampler(pair, inputs, config) for config in configs[1:]]
  samples = []
  for _ in range(repeats):
    samples.append([sampler() for sampler in samplers])
    advance(1)

  def median(field: str, of: Sequence[Any]) -> float:
    return statistics.median(getattr(each, field) for each in of)

  everything = [each for repeat in samples for each in repeat]
  step = median("target_step", everything)
  per_gamma = list(zip(*samples, strict=True))
  verify = [median("target_verify", each) for each in per_gamma]
  return CostCurve(
    np.array([1.0, *(each / step for each in verify)]),
    median("draft_step", everything) / step,
    max(median("draft_first", everything), 0.0) / step,
  )


def draw(report: dict[str, Any]) -> Figure:
  """Returns the curve, the theorem's beside it, and what was measured."""
  gammas = np.arange(len(report["improvement"]))
  figure = Figure(figsize=(6, 4), layout="constrained")
  diagram = figure.add_subplot(
    xlabel="γ",
    ylabel="speed-up",
    title=f"{report['pair']}, {report['draft']}, T = {report['temperature']:g},"
    f" batch {report['batch_size']}",
  )
  diagram.plot(gammas, report["theorem_3_8"], "--", label="Theorem 3.8")
  diagram.plot(
    gammas, report["improvement"], "o-", label="counted and timed, no prefill"
  )
  if report["speedup"] is not None:
    low, median, high = (
      report["speedup"][each] for each in ("min", "median", "max")
    )
    diagram.errorbar(
      [report["gamma"]],
      [median],
      [[median - low], [high - median]],
      fmt="s",
      capsize=4,
      label="measured, prefill included",
    )
  diagram.axhline(1, color="grey", linewidth=0.8)
  diagram.grid(alpha=0.3)
  diagram.legend()
  return figure


def _show(report: dict[str, Any]) -> None:
  table = Table(
    title=f"{report['pair']} on {report['task']},"
    f" T = {report['temperature']:g}, batch {report['batch_size']}",
    box=None,
    padding=(0, 1, 0, 0),
  )
  for heading in (
    "γ",
    "last guess holds",
    "tokens per round",
    "verification",
    "Theorem 3.8",
    "counted and timed",
  ):
    table.add_column(heading, justify="right")
  for gamma, improvement in enumerate(report["improvement"]):
    holds = report["acceptance_by_position"][gamma - 1] if gamma else None
    table.add_row(
      f"{gamma}" + (" *" if gamma == report["gamma"] else ""),
      "–" if holds is None else f"{holds:.3f}",
      f"{report['tokens_per_round'][gamma]:.2f}",
      f"{report['verification_ratios'][gamma]:.2f}",
      f"{report['theorem_3_8'][gamma]:.2f}",
      f"{improvement:.2f}",
    )
  console = make_console()
  console.print(table)
  if report["speedup"] is None:
    console.print("Speculation does not pay here: gamma = 0.")
    return
  speedup = report["speedup"]
  console.print(
    f"gamma = {report['gamma']}: {speedup['median']:.2f}x"
    f" ({speedup['min']:.2f} to {speedup['max']:.2f}) measured, prefill"
    f" included; predicted {report['predicted']['median']:.2f}x."
  )


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
  """Runs the command line."""
  return gin_cli.main(
    run, name="tune_gamma", configurables=(PairConfig, Task), argv=argv
  )


if __name__ == "__main__":
  compilation_cache.enable()
  main()
