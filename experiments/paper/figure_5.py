"""Figure 5: the calls of one text over time, with and without speculation.

python -m experiments.paper.figure_5 --gin_file=paper/figure_5.gin
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from experiments import markdown
from experiments.markdown import NOT_MEASURED
from experiments.paper import measured, page
from experiments.paper.published import FIGURE_5

COLOURS = {
  "target, encoder": "gold",
  "draft, encoder": "darkorange",
  "target, decoder": "purple",
  "draft, decoder": "cornflowerblue",
}
"""Those of the paper."""


class Call(NamedTuple):
  """A call of a model; the unit of time is a target call of one token.

  Attributes:
    what: One of `COLOURS`.
    begin: When it begins.
    length: How long it takes.
  """

  what: str
  begin: float
  length: float


def make(results: Sequence[str]) -> page.Page:
  """Returns the page.

  Args:
    results: Files trace.jsonl, all of one text: a row per line, and one of the
      baseline, from the first line's times.

  Raises:
    FileNotFoundError: See `measured.read`.
    ValueError: Likewise, or if the lines are not of one text.
  """
  lines = measured.read(results, measured.TRACE)
  texts = list(dict.fromkeys((x["pair"], x["text"]) for x in lines))
  if len(texts) > 1:
    raise ValueError(
      f"{', '.join(results)} are of {len(texts)} texts or pairs, and Figure 5"
      " is of one; name files of one."
    )
  rows = {f"γ = {line['gamma']}": speculative_calls(line) for line in lines} | {
    "baseline": baseline_calls(lines[0])
  }
  runs = measured.Runs(lines)
  return page.Page(
    "Figure 5: one text's calls over time",
    "\n\n".join(
      [
        f"{measured.pair_name(lines[0])} on {lines[0]['task']}, T ="
        f' {lines[0]["temperature"]:g}, of: "{lines[0]["text"]}"',
        "The rounds are counted, and each call is as long as such calls were"
        " for this text (median of the repeats), in target calls of one token"
        " of the same run: runs one after the other are not equally fast, so"
        " their milliseconds are not to be set side by side. What is between"
        " calls is not drawn. A round's first draft call has two tokens. The"
        " paper's figure is a schema of another text.",
        markdown.table(
          (
            "",
            "target calls, paper",
            "target calls, ours",
            "draft calls",
            "time, in target calls",
            "a target call, ms",
            "baseline over it",
            "speed, measured",
            "run",
          ),
          [
            *(_row(line, runs) for line in lines),
            (
              "baseline",
              str(FIGURE_5[0]),
              str(lines[0]["baseline_calls"]),
              "0",
              f"{end(rows['baseline']):.1f}",
              f"{lines[0]['parts_ms']['target_step']:.2f}",
              "1.00x",
              NOT_MEASURED,
              runs.number(lines[0]),
            ),
          ],
        ),
        *measured.warnings(lines),
        runs.listed(),
      ]
    ),
    draw(rows),
  )


def speculative_calls(line: measured.Line) -> list[Call]:
  """Returns a trace's calls, in order."""
  parts = _in_steps(line)
  drafting = [parts["draft_first"]] + [parts["draft_step"]] * (
    line["gamma"] - 1
  )
  of_a_round = [("draft, decoder", each) for each in drafting]
  of_a_round.append(("target, decoder", parts["target_verify"]))
  return _in_order(
    [
      ("target, encoder", parts["target_prefill"]),
      ("draft, encoder", parts["draft_prefill"]),
      *of_a_round * len(line["rounds"]),
    ]
  )


def baseline_calls(line: measured.Line) -> list[Call]:
  """Returns the calls of plain decoding, in order."""
  parts = _in_steps(line)
  return _in_order(
    [
      ("target, encoder", parts["target_prefill"]),
      *[("target, decoder", parts["target_step"])] * line["baseline_calls"],
    ]
  )


def end(calls: Sequence[Call]) -> float:
  """Returns when the last call ends."""
  return calls[-1].begin + calls[-1].length


def draw(rows: dict[str, list[Call]]) -> Figure:
  """Returns the picture; the first row is on top."""
  figure = Figure(figsize=(9, 0.7 * len(rows) + 1.2), layout="constrained")
  diagram = figure.add_subplot(xlabel="time, in target calls of one token")
  for place, calls in enumerate(rows.values()):
    for what, colour in COLOURS.items():
      bars = [(each.begin, each.length) for each in calls if each.what == what]
      diagram.broken_barh(
        bars,
        (place - 0.35, 0.7),
        facecolors=colour,
        # Edges would cover what a small draft takes.
        edgecolors="white" if what == "target, decoder" else "none",
        linewidth=0.3,
        label=what if place == 0 else None,
      )
  diagram.set_yticks(range(len(rows)), list(rows))
  diagram.set_ylim(len(rows) - 0.5, -0.5)
  diagram.set_xlim(0, max(map(end, rows.values())))
  figure.legend(loc="outside upper center", ncols=len(COLOURS))
  return figure


def _in_steps(line: measured.Line) -> dict[str, float]:
  """Returns the parts' times in target calls of one token."""
  parts = line["parts_ms"]
  return {name: each / parts["target_step"] for name, each in parts.items()}


def _in_order(calls: Sequence[tuple[str, float]]) -> list[Call]:
  ends = itertools.accumulate((each for _, each in calls), initial=0.0)
  return [
    Call(what, begin, length)
    for (what, length), begin in zip(calls, ends, strict=False)
  ]


def _row(line: measured.Line, runs: measured.Runs) -> tuple[str, ...]:
  length = end(speculative_calls(line))
  faster = end(baseline_calls(line)) / length
  return (
    f"γ = {line['gamma']}",
    str(FIGURE_5.get(line["gamma"], NOT_MEASURED)),
    str(len(line["rounds"])),
    str(len(line["rounds"]) * line["gamma"]),
    f"{length:.1f}",
    f"{line['parts_ms']['target_step']:.2f}",
    f"{faster:.2f}x",
    measured.spread(line["speedup"]),
    runs.number(line),
  )


if __name__ == "__main__":
  page.main_with_results(make, "figure_5")
