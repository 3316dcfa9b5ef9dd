"""The page on batches and load: where speculation pays, and where it stops."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import markdown
from experiments.paper import measured
from experiments.spread import spread

BATCHES_FIGURE = "capacity_batches.svg"
LATENCY_FIGURE = "capacity_latency.svg"
THROUGHPUT_FIGURE = "capacity_throughput.svg"

_BATCH_COLUMNS = (
  "batch",
  "γ",
  "α̂",
  "tokens per target call",
  "baseline, tokens/s",
  "speculative, tokens/s",
  "predicted",
  "speed",
)
_MEMORY_COLUMNS = (
  "batch",
  "γ",
  "target",
  "draft",
  "target's cache",
  "draft's cache",
  "at most",
)
_FULL_COLUMNS = (
  "γ",
  "requests/s",
  "tokens/s",
  "token, ms: p50",
  "p99",
  "slots busy",
  "speed",
)
_LOAD_COLUMNS = (
  "load",
  "requests/s",
  "γ",
  "first token, ms: p50",
  "p99",
  "token, ms: p50",
  "p99",
  "latency, s: p50",
  "p90",
  "p99",
  "tokens/s",
  "slots busy",
  "queue",
  "speed",
)


class Threshold(NamedTuple):
  """Between which measured points speculation stops paying.

  Attributes:
    pays: The last at which it pays; None if at none.
    stops: The first from which on it never does; None if it pays at the last.
  """

  pays: float | None
  stops: float | None


def threshold(speeds: Iterable[tuple[float, float]]) -> Threshold:
  """Returns where speculation stops paying; it pays if it is faster.

  Args:
    speeds: Batch size or load, ascending, and the speed-up there.
  """
  pays, stops = None, None
  for point, speed in speeds:
    if speed > 1:
      pays, stops = point, None
    elif stops is None:
      stops = point
  return Threshold(pays, stops)


def findings(
  batches: Sequence[measured.Line], served: Sequence[measured.Line]
) -> list[str]:
  """Returns a sentence for each gamma on batches, then on load.

  Args:
    batches: From `measure_speed`.
    served: From `experiments.capacity`.
  """
  found = []
  for gamma in _gammas(served):
    where = threshold(
      (line["batch_size"], line["speedup"]["median"])
      for line in _of_gamma(batches, gamma)
    )
    found.append(_sentence(gamma, where, "batch size"))
  for gamma in _gammas(served):
    where = threshold(
      (load, speed_under_load(served, load, gamma)["median"])
      for load in _loads(served)
    )
    full = throughput_when_full(served, gamma)
    found.append(
      f"{_sentence(gamma, where, 'load')} With slots that are always full it"
      f" writes {measured.spread(full)} the baseline's tokens a second."
    )
  different = _different(served)
  different += sum(line["equal_to_baseline"] is False for line in batches)
  if different:
    found.append(f"DIFFERENT TOKENS from the baseline's in {different} rows.")
  return found


def _sentence(gamma: int, where: Threshold, what: str) -> str:
  if where.pays is None:
    return f"γ = {gamma} pays at no {what} that was measured."
  if where.stops is None:
    return f"γ = {gamma} pays up to the largest {what}, {where.pays:g}."
  return (
    f"γ = {gamma} pays up to {what} {where.pays:g}, and not from"
    f" {where.stops:g} on."
  )


def speed_under_load(
  served: Iterable[measured.Line], load: float, gamma: int
) -> dict[str, float]:
  """Returns the baseline's median latency over speculation's, by repeat.

  Both have had the same requests at the same times.

  Args:
    served: From `experiments.capacity`.
    load: Which of the loads.
    gamma: Of the speculation.
  """
  return _ratios(
    served, load, gamma, lambda base, line: _p50(base) / _p50(line)
  )


def throughput_when_full(
  served: Iterable[measured.Line], gamma: int
) -> dict[str, float]:
  """Returns speculation's tokens a second over the baseline's, by repeat."""
  name = "tokens_per_second"
  return _ratios(
    served, None, gamma, lambda base, line: line[name] / base[name]
  )


def _p50(line: measured.Line) -> float:
  return line["latency"]["p50"]


def _ratios(
  served: Iterable[measured.Line],
  load: float | None,
  gamma: int,
  ratio: Callable[[measured.Line, measured.Line], float],
) -> dict[str, float]:
  chosen = {
    (line["gamma"], line["repeat"]): line
    for line in served
    if line["load"] == load
  }
  repeats = sorted({repeat for _, repeat in chosen})
  return spread(
    ratio(chosen[0, repeat], chosen[gamma, repeat]) for repeat in repeats
  )


def _different(served: Sequence[measured.Line]) -> int:
  """How many services gave other tokens, where there is but one right one."""
  first = served[0]
  if first["temperature"] or first["environment"]["dtype"] != "float32":
    return 0
  outputs = {
    (line["load"], line["repeat"]): line["outputs"]
    for line in served
    if line["gamma"] == 0
  }
  return sum(
    line["outputs"] != outputs[line["load"], line["repeat"]] for line in served
  )


def page(
  batches: Sequence[measured.Line],
  memory: Sequence[dict[str, int]],
  served: Sequence[measured.Line],
) -> str:
  """Returns the page.

  Args:
    batches: As in `findings`.
    memory: From `footprint`, with batch size and gamma.
    served: As in `findings`.
  """
  first = served[0]
  return "\n\n".join(
    [
      f"# Batches and load: {first['pair']} with {first['draft']}, on"
      f" {first['task']}, T = {first['temperature']:g}",
      "\n".join(f"- {each}" for each in findings(batches, served)),
      "## Batches",
      f"![speed by batch size]({BATCHES_FIGURE})",
      "Texts in batches of one size, each until its last text has ended."
      " Speed is the baseline's time per token over speculation's: median"
      " (lowest–highest) of the repeats; α̂ and tokens with 95% intervals over"
      " texts.",
      markdown.table(_BATCH_COLUMNS, map(_batch_row, batches)),
      "Memory in MB: parameters, caches, and what the program holds at most at"
      " once, as its compiler says. γ = 0 is the baseline.",
      markdown.table(_MEMORY_COLUMNS, map(_memory_row, memory)),
      "## Load",
      f"Requests arrive at random (Poisson) into {first['slots']} slots, which"
      " are refilled as soon as a text has ended. The time of a token is that"
      " from a text's first to its last one, over the tokens between. All are"
      f" medians over the repeats, each of {first['requests']} requests after"
      " some that fill the slots; both ways of decoding have the same ones.",
      "If requests never run out (speed: tokens a second, over the baseline's):",
      markdown.table(_FULL_COLUMNS, _full_rows(served)),
      "Load 1 is as many requests per second as the baseline serves then. First"
      " token and latency count from the arrival; the queue is what a request"
      " finds waiting. Speed is the baseline's median latency over"
      " speculation's.",
      f"![latency by load]({LATENCY_FIGURE})",
      f"![throughput by load]({THROUGHPUT_FIGURE})",
      markdown.table(_LOAD_COLUMNS, _load_rows(served)),
      markdown.made_by([*batches, *served]),
    ]
  )


def _batch_row(line: measured.Line) -> tuple[str, ...]:
  times = line["milliseconds_per_token"]
  return (
    str(line["batch_size"]),
    str(line["gamma"]),
    measured.interval(line["alpha_hat"]),
    measured.interval(line["block_efficiency"], digits=2),
    f"{1e3 / times['baseline']['median']:.0f}",
    f"{1e3 / times['speculative']['median']:.0f}",
    measured.spread(line["predicted"]),
    measured.spread(line["speedup"]),
  )


def _memory_row(line: dict[str, int]) -> tuple[str, ...]:
  return (
    str(line["batch_size"]),
    str(line["gamma"]),
    *(
      f"{line[name] / 1e6:.1f}"
      for name in (
        "target_parameters",
        "draft_parameters",
        "target_cache",
        "draft_cache",
        "total",
      )
    ),
  )


def _full_rows(served: Sequence[measured.Line]) -> list[tuple[str, ...]]:
  return [
    (
      str(gamma),
      _middle(lines, "requests_per_second", digits=2),
      _middle(lines, "tokens_per_second"),
      *_token_times(lines),
      _middle(lines, "utilisation", scale=100) + "%",
      measured.spread(throughput_when_full(served, gamma))
      if gamma
      else markdown.NOT_MEASURED,
    )
    for gamma, lines in _by_gamma(served, None)
  ]


def _load_rows(served: Sequence[measured.Line]) -> list[tuple[str, ...]]:
  return [
    (
      f"{load:g}",
      _middle(lines, "rate", digits=2),
      str(gamma),
      *(
        _middle(lines, "time_to_first_token", name, scale=1e3)
        for name in ("p50", "p99")
      ),
      *_token_times(lines),
      *(
        _middle(lines, "latency", name, digits=2)
        for name in ("p50", "p90", "p99")
      ),
      _middle(lines, "tokens_per_second"),
      _middle(lines, "utilisation", scale=100) + "%",
      _middle(lines, "queue_on_arrival", "mean", digits=1),
      measured.spread(speed_under_load(served, load, gamma))
      if gamma
      else markdown.NOT_MEASURED,
    )
    for load in _loads(served)
    for gamma, lines in _by_gamma(served, load)
  ]


def _token_times(lines: Sequence[measured.Line]) -> list[str]:
  return [
    _middle(lines, "time_per_output_token", name, scale=1e3, digits=1)
    for name in ("p50", "p99")
  ]


def _middle(
  lines: Sequence[measured.Line],
  *fields: str,
  scale: float = 1.0,
  digits: int = 0,
) -> str:
  """Returns a median over repeats, if there is something in each."""
  value = _median(lines, *fields)
  return markdown.number(None if value is None else scale * value, digits)


def _median(lines: Sequence[measured.Line], *fields: str) -> float | None:
  values: list[Any] = list(lines)
  for field in fields:
    values = [None if each is None else each[field] for each in values]
  return None if None in values else statistics.median(values)


def pictures(
  batches: Sequence[measured.Line], served: Sequence[measured.Line]
) -> dict[str, Figure]:
  """Returns the page's pictures, by the names of their files.

  Args:
    batches: As in `findings`.
    served: Likewise.
  """
  return {
    BATCHES_FIGURE: _draw_batches(batches),
    LATENCY_FIGURE: _draw_latency(served),
    THROUGHPUT_FIGURE: _draw_throughput(served),
  }


def _draw_batches(batches: Sequence[measured.Line]) -> Figure:
  figure, diagram = _axes("batch size", "speed, target alone = 1")
  for gamma in _gammas(batches):
    lines = _of_gamma(batches, gamma)
    speeds = [line["speedup"] for line in lines]
    diagram.errorbar(
      [line["batch_size"] for line in lines],
      [each["median"] for each in speeds],
      (
        [each["median"] - each["min"] for each in speeds],
        [each["max"] - each["median"] for each in speeds],
      ),
      fmt="o-",
      capsize=4,
      label=f"γ = {gamma}",
    )
  sizes = sorted({line["batch_size"] for line in batches})
  diagram.set_xscale("log", base=2)
  diagram.set_xticks(sizes, [str(each) for each in sizes])
  diagram.axhline(1, color="black", linewidth=0.8)
  diagram.legend()
  return figure


def _draw_latency(served: Sequence[measured.Line]) -> Figure:
  figure, diagram = _axes("load, baseline's capacity = 1", "latency, seconds")
  _draw_loads(diagram, served, "latency", "p50", style="o-")
  _draw_loads(diagram, served, "latency", "p99", style="o:")
  diagram.set_yscale("log")
  diagram.legend()
  return figure


def _draw_throughput(served: Sequence[measured.Line]) -> Figure:
  figure, diagram = _axes("load, baseline's capacity = 1", "tokens per second")
  _draw_loads(diagram, served, "tokens_per_second", style="o-")
  for i, (gamma, lines) in enumerate(_by_gamma(served, None)):
    diagram.axhline(
      _median(lines, "tokens_per_second"),
      color=f"C{i}",
      linestyle=":",
      label=f"{_name(gamma)}, slots always full",
    )
  diagram.set_ylim(bottom=0)
  diagram.legend()
  return figure


def _axes(across: str, up: str) -> tuple[Figure, Axes]:
  figure = Figure(figsize=(6, 4), layout="constrained")
  diagram = figure.add_subplot(xlabel=across, ylabel=up)
  diagram.grid(alpha=0.3)
  return figure, diagram


def _draw_loads(
  diagram: Axes, served: Sequence[measured.Line], *fields: str, style: str
) -> None:
  loads = _loads(served)
  for i, gamma in enumerate((0, *_gammas(served))):
    diagram.plot(
      loads,
      [
        _median(dict(_by_gamma(served, load))[gamma], *fields) for load in loads
      ],
      style,
      color=f"C{i}",
      label=", ".join((_name(gamma), *fields[1:])),
    )


def _name(gamma: int) -> str:
  return f"γ = {gamma}" if gamma else "baseline"


def _gammas(lines: Iterable[measured.Line]) -> list[int]:
  """Of the speculation, in the order of the lines."""
  found = dict.fromkeys(line["gamma"] for line in lines)
  return [gamma for gamma in found if gamma]


def _loads(served: Iterable[measured.Line]) -> list[float]:
  return sorted({line["load"] for line in served} - {None})


def _by_gamma(
  served: Sequence[measured.Line], load: float | None
) -> list[tuple[int, list[measured.Line]]]:
  """The lines of a load, the baseline's first."""
  at_load = [line for line in served if line["load"] == load]
  return [(gamma, _of_gamma(at_load, gamma)) for gamma in (0, *_gammas(served))]


def _of_gamma(
  lines: Iterable[measured.Line], gamma: int
) -> list[measured.Line]:
  return [line for line in lines if line["gamma"] == gamma]
