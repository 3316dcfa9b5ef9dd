"""What a run shows in a terminal: the paper's Figure 1, and a table."""

import os
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from experiments.decoding.trace import TracedRound
from experiments.environment import line as environment_line

ACCEPTED = "green"
REJECTED = "red"
ADDED = "blue"


def make_console(**kwargs) -> Console:
  """Returns a console for standard output.

  It writes control codes to terminals alone, and none if NO_COLOR is set.
  """
  if os.environ.get("NO_COLOR"):
    kwargs["color_system"] = None
  return Console(highlight=False, soft_wrap=True, **kwargs)


def show_decoding(
  console: Console, text: str, rounds: list[TracedRound], vocabulary
) -> None:
  """Prints a decoding as the paper's Figure 1: a line per target call.

  What is too long for a line loses its beginning.

  Args:
    console: Where to; without colours, marks take their place:
      [-rejected-] and {+added+}.
    text: What was decoded.
    rounds: From `trace`.
    vocabulary: Turns tokens into text.
  """
  plain = console.color_system is None
  console.print(Text.assemble("\n", (text, "bold")))
  before = ""
  for number, each in enumerate(rounds, start=1):
    accepted = "".join(map(vocabulary.token_text, each.accepted))
    new = Text(accepted, style="" if plain else ACCEPTED)
    if each.rejected is not None:
      new.append_text(_rejected(vocabulary.token_text(each.rejected), plain))
    added = ""
    if each.added is not None:
      added = vocabulary.token_text(each.added)
      new.append_text(_added(added, plain))
    start = Text(before, style="dim")
    room = max(console.width - 4 - new.cell_len, 1)
    while start.cell_len > room:
      start = Text("\u2026" + start.plain[2:], style="dim")
    console.print(Text.assemble(f"{number:3} ", start, new))
    before += accepted + added
  console.print(
    Text.assemble(
      f"{len(rounds)} target calls: ",
      ("accepted guesses", "" if plain else ACCEPTED),
      ", ",
      _rejected("rejected guess", plain),
      ", ",
      _added("the target's own token", plain),
      "\n",
    )
  )


def show_report(console: Console, report: dict[str, Any]) -> None:
  """Prints a report as a table, both decodings side by side."""
  console.print(_table(report))
  if report["lenience"] != 1:
    console.print(
      f"LOSSY: lenience {report['lenience']:g}. These are not the target's own"
      " outputs, nor the baseline's."
    )
  counts = report["counts"]
  equal = report["equal_to_baseline"]
  if equal is not None:
    same = "the same tokens" if equal else "DIFFERENT TOKENS"
    console.print(f"Both decodings gave {same} on {counts['examples']} texts.")
  if counts["unfinished"]:
    console.print(
      f"{counts['unfinished']} texts end at max_new_tokens ="
      f" {report['max_new_tokens']}, before EOS."
    )
  if report["speedup"] is not None:
    spread = report["speedup_range"]
    console.print(
      f"Speedup {report['speedup']:.2f} (from {spread['min']:.2f} to"
      f" {spread['max']:.2f} in {report['timing']['repeats']} repeats over"
      f" {report['timing']['examples']} texts); predicted from the parts'"
      f" times: {report['predicted_speedup']:.2f}."
    )
    console.print(
      f"A draft call costs {report['cost_ratio']:.3f} of a target call, a"
      f" verification {report['verify_ratio']:.2f}."
    )
  console.print(environment_line(report["environment"]), style="dim")


def _table(report: dict[str, Any]) -> Table:
  table = Table(title=f"{report['pair']} on {report['task']}")
  table.add_column("", no_wrap=True)
  table.add_column("baseline", justify="right")
  table.add_column(f"speculative, gamma {report['gamma']}", justify="right")

  def number(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"

  def spread(values):
    if values is None:
      return "-"
    return (
      f"{values['median']:.2f} ({values['min']:.2f} to {values['max']:.2f})"
    )

  def seconds(values):
    return "-" if values is None else number(values["median"])

  table.add_row("acceptance rate", "-", number(report["acceptance_rate"], 3))
  table.add_row(
    "tokens per target call", "1.00", number(report["block_efficiency"])
  )
  table.add_row(
    "ms per token",
    spread(report["baseline_ms_per_token"]),
    spread(report["speculative_ms_per_token"]),
  )
  timing = report["timing"] or {}
  table.add_row(
    "seconds",
    seconds(timing.get("baseline_seconds")),
    seconds(timing.get("speculative_seconds")),
  )
  return table


def _rejected(text: str, plain: bool) -> Text:
  return Text(f"[-{text}-]") if plain else Text(text, style=REJECTED)


def _added(text: str, plain: bool) -> Text:
  return Text(f"{{+{text}+}}") if plain else Text(text, style=ADDED)
