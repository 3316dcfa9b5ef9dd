"""Which way to draft is fastest for a target? All of them on one clock.

    python -m experiments.compare_drafters --gin_file=compare_drafters.gin

Times every drafter with every gamma as `measure_speed` does, and goes on like
it; then takes the best gamma of each and writes compare_drafters.md, a table
with a picture, which sets them side by side over all texts, by their origin,
and by the length of the output.
"""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from experiments import (
  compilation_cache,
  figures,
  gin_cli,
  markdown,
  measure_speed,
)
from experiments.decoding.pair import PairConfig
from experiments.decoding.task import Task
from experiments.decoding.timing import drafting_cost, mean_guesses
from experiments.paper import measured

PAGE = "compare_drafters.md"
FIGURE = "compare_drafters.svg"

_COLUMNS = (
  "drafter",
  "T",
  "best γ",
  "α̂",
  "tokens per target call",
  "calls without a guess",
  "drafting, in target calls a round",
  "drafter's numbers",
  "predicted",
  "speed",
)


def run(
  *,
  drafts: Mapping[str, PairConfig],
  task: Task,
  output_dir: str,
  max_input_length: int,
  max_new_tokens: int,
  prompt_tokens: int | None = None,
  temperatures: Sequence[float] = (0.0, 1.0),
  gammas: Sequence[int] = (2, 4, 6),
  verification: str = "token",
  examples: int = 32,
  repeats: int = 3,
  length_bounds: Sequence[int] = (16, 32, 64),
  input_length_multiple: int = 32,
  seed: int = 0,
  resume: bool = True,
) -> list[dict[str, Any]]:
  """Compares drafters of one target, a text at a time.

  Args:
    drafts: By what to call each drafter, the target with it: a model, an n-gram
      table, layers of the target (`PairConfig.self_draft_layers`,
      `PairConfig.early_exit`), `PairConfig.prompt_lookup`, or that with one of
      the first three.
    task: See `measure_speed.run`, as for all that follow.
    output_dir: Where the results go; what is there is not timed again.
    max_input_length: Most tokens of a text, EOS included.
    max_new_tokens: Most tokens of an output, EOS included.
    prompt_tokens: See `workload.load`.
    temperatures: What to decode at.
    gammas: What to choose the best one from, for each drafter and temperature.
    verification: See `SpeculativeConfig`, "token" or "block".
    examples: How many texts to decode, spread over the task.
    repeats: How often to time.
    length_bounds: Most tokens of each group of output lengths.
    input_length_multiple: Inputs are padded to a multiple of it.
    seed: For temperatures above 0.
    resume: Whether to go on from what is there; otherwise it is overwritten.

  Returns:
    The lines of the best gammas, the temperatures one after the other.

  Raises:
    FileNotFoundError: If something is not there.
    ValueError: As `measure_speed.run`.
  """
  lines = measure_speed.run(
    drafts=drafts,
    task=task,
    output_dir=output_dir,
    max_input_length=max_input_length,
    max_new_tokens=max_new_tokens,
    prompt_tokens=prompt_tokens,
    temperatures=temperatures,
    gammas=gammas,
    batch_sizes=(1,),
    verification=verification,
    examples=examples,
    repeats=repeats,
    length_bounds=length_bounds,
    input_length_multiple=input_length_multiple,
    seed=seed,
    resume=resume,
  )
  best = fastest(lines)
  folder = pathlib.Path(output_dir)
  figures.save(draw(best), folder / FIGURE)
  path = folder / PAGE
  path.write_text(page(best) + "\n", encoding="utf-8")
  print(path)
  return best


def fastest(lines: Iterable[measured.Line]) -> list[measured.Line]:
  """Returns each drafter's line of the best gamma, by temperature.

  Args:
    lines: From `measure_speed.run`.
  """
  found: dict[tuple[float, str], measured.Line] = {}
  for line in lines:
    cell = (line["temperature"], line["draft"])
    if cell not in found or _speed(line) > _speed(found[cell]):
      found[cell] = line
  # A stable sort: drafters stay in their order.
  return sorted(found.values(), key=lambda line: line["temperature"])


def page(lines: Sequence[measured.Line]) -> str:
  """Returns the page.

  Args:
    lines: From `fastest`.
  """
  first = lines[0]
  parts = [
    f"# Drafters of {measured.pair_name(first)}, on {first['task']}",
    f"![speed of each drafter]({FIGURE})",
    "Speed is that of the target alone, in the same run, over the drafter's:"
    " median (lowest–highest) of the repeats, a text at a time, encoders"
    " included. Of each drafter the γ that was fastest here; α̂ and tokens with"
    " 95% intervals over texts. A round's drafting is in calls of the target"
    " with one token; predicted is from counted rounds and the parts' times.",
    markdown.table(_COLUMNS, map(_row, lines)),
    *(
      f"Speed by {what}, and how many texts\n\n" + _groups(lines, field)
      for what, field in (
        ("the texts' origin", "by_origin"),
        ("the output's tokens", "by_length"),
      )
      if any(line[field] for line in lines)
    ),
    markdown.made_by(lines),
  ]
  return "\n\n".join(parts)


def _row(line: measured.Line) -> tuple[str, ...]:
  parts = line["parts_ms"]
  drafting = drafting_cost(
    mean_guesses(line["scored"]), parts["draft_step"], parts["draft_first"]
  )
  return (
    line["draft"],
    f"{line['temperature']:g}",
    str(line["gamma"]),
    measured.interval(line["alpha_hat"]),
    measured.interval(line["block_efficiency"], digits=2),
    f"{line['scored'][0]:.0%}",
    f"{drafting / parts['target_step']:.2f}",
    f"{line['draft_parameters']:,}",
    measured.spread(line["predicted"]),
    measured.spread(line["speedup"]),
  )


def _groups(lines: Sequence[measured.Line], field: str) -> str:
  names = list(dict.fromkeys(name for line in lines for name in line[field]))

  def cell(line, name):
    group = line[field].get(name)
    if group is None or group["speedup"] is None:
      return markdown.NOT_MEASURED
    return f"{group['speedup']['median']:.2f}x ({group['examples']})"

  return markdown.table(
    ("drafter", "T", *names),
    [
      (
        line["draft"],
        f"{line['temperature']:g}",
        *(cell(line, name) for name in names),
      )
      for line in lines
    ],
  )


def draw(lines: Sequence[measured.Line]) -> Figure:
  """Returns the picture: a bar per drafter and temperature.

  Args:
    lines: From `fastest`.
  """
  drafters = list(dict.fromkeys(line["draft"] for line in lines))
  temperatures = list(dict.fromkeys(line["temperature"] for line in lines))
  height = 0.8 / len(temperatures)
  figure = Figure(figsize=(7, 1.2 + 0.45 * len(drafters)), layout="constrained")
  diagram = figure.add_subplot(xlabel="speed, target alone = 1")
  for i, temperature in enumerate(temperatures):
    chosen = [line for line in lines if line["temperature"] == temperature]
    speeds = [line["speedup"] for line in chosen]
    middle = [each["median"] for each in speeds]
    diagram.barh(
      [drafters.index(line["draft"]) + i * height for line in chosen],
      middle,
      height,
      xerr=(
        [each["median"] - each["min"] for each in speeds],
        [each["max"] - each["median"] for each in speeds],
      ),
      label=f"T = {temperature:g}",
    )
  diagram.set_yticks(
    [y + height * (len(temperatures) - 1) / 2 for y in range(len(drafters))],
    drafters,
  )
  diagram.invert_yaxis()
  diagram.axvline(1, color="black", linewidth=0.8)
  diagram.grid(axis="x", alpha=0.3)
  diagram.legend()
  return figure


def _speed(line: measured.Line) -> float:
  return line["speedup"]["median"]


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
  """Runs the command line."""
  return gin_cli.main(
    run, name="compare_drafters", configurables=(PairConfig, Task), argv=argv
  )


if __name__ == "__main__":
  compilation_cache.enable()
  main()
