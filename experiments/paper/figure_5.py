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
  """A call of a model.

  Attributes:
    what: One of `COLOURS`.
    begin: When it begins, in milliseconds.
    milliseconds: How long it takes.
  """

  what: str
  begin: float
  milliseconds: float


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
  rows = {
    f"γ = {line['gamma']}": speculative_calls(line) for line in lines
  } | {"baseline": baseline_calls(lines[0])}
  runs = measured.Runs(lines)
  return page.Page(
    "Figure 5: one text's calls over time",
    "\n\n".join(
      [
        f"{measured.pair_name(lines[0])} on {lines[0]['task']}, T ="
        f' {lines[0]["temperature"]:g}, of: "{lines[0]["text"]}"',
        "The rounds are counted, and each call is as long as such calls were"
        " for this text (median of the repeats); what is between calls is not"
        " drawn. A round's first draft call has two tokens. The paper's figure"
        " is a schema of another text.",
        markdown.table(
          (
            "",
            "target calls, paper",
            "target calls, ours",
            "draft calls",
            "milliseconds, from the parts",
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
  parts = line["parts_ms"]
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
  parts = line["parts_ms"]
  return _in_order(
    [
      ("target, encoder", parts["target_prefill"]),
      *[("target, decoder", parts["target_step"])] * line["baseline_calls"],
    ]
  )


def end(calls: Sequence[Call]) -> float:
  """Returns when the last call ends, in milliseconds."""
  return calls[-1].begin + calls[-1].milliseconds


def draw(rows: dict[str, list[Call]]) -> Figure:
  """Returns the picture; the first row is on top."""
  figure = Figure(figsize=(9, 0.7 * len(rows) + 1.2), layout="constrained")
  diagram = figure.add_subplot(xlabel="milliseconds")
  for place, calls in enumerate(rows.values()):
    for what, colour in COLOURS.items():
      bars = [
        (each.begin, each.milliseconds) for each in calls if each.what == what
      ]
      diagram.broken_barh(
        bars,
        (place - 0.35, 0.7),
        facecolors=colour,
        edgecolors="white",
        linewidth=0.3,
        label=what if place == 0 else None,
      )
  diagram.set_yticks(range(len(rows)), list(rows))
  diagram.set_ylim(len(rows) - 0.5, -0.5)
  diagram.set_xlim(0, max(map(end, rows.values())))
  figure.legend(loc="outside upper center", ncols=len(COLOURS))
  return figure


def _in_order(calls: Sequence[tuple[str, float]]) -> list[Call]:
  ends = itertools.accumulate((each for _, each in calls), initial=0.0)
  return [
    Call(what, begin, milliseconds)
    for (what, milliseconds), begin in zip(calls, ends, strict=False)
  ]


def _row(line: measured.Line, runs: measured.Runs) -> tuple[str, ...]:
  milliseconds = end(speculative_calls(line))
  # Of its own times: two lines were not timed side by side.
  faster = end(baseline_calls(line)) / milliseconds
  return (
    f"γ = {line['gamma']}",
    str(FIGURE_5.get(line["gamma"], NOT_MEASURED)),
    str(len(line["rounds"])),
    str(len(line["rounds"]) * line["gamma"]),
    f"{milliseconds:.1f}",
    f"{faster:.2f}x",
    measured.spread(line["speedup"]),
    runs.number(line),
  )


if __name__ == "__main__":
  page.main_with_results(make, "figure_5")
