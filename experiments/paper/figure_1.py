"""Figure 1: what became of each guess, a line per target call.

python -m experiments.paper.figure_1 --gin_file=paper/figure_1.gin
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from experiments.decoding.terminal import ACCEPTED, ADDED, REJECTED
from experiments.paper import measured, page
from experiments.paper.published import FIGURE_1

_COLUMNS = 92
"""How many letters a line has room for."""

_LETTER = 0.602
"""The width of a letter of DejaVu Sans Mono, in its size."""

_SIZE = 8
"""The size of the letters, in points."""


def make(results: Sequence[str]) -> page.Page:
  """Returns the page.

  Args:
    results: Files trace.jsonl; the first line of all is drawn.

  Raises:
    FileNotFoundError: See `measured.read`.
    ValueError: Likewise.
  """
  line = measured.read(results, measured.TRACE)[0]
  tokens, calls = count_tokens(line), len(line["rounds"])
  return page.Page(
    "Figure 1: a text, a line per target call",
    "\n\n".join(
      [
        f"Guesses that were kept are {ACCEPTED}, rejected ones {REJECTED}, and"
        f" the target's own tokens {ADDED}. What stood there before is grey;"
        " what is too long for a line loses its beginning.",
        f"Ours: {measured.pair_name(line)} on {line['task']}, T ="
        f" {line['temperature']:g}, γ = {line['gamma']}: {tokens} tokens in"
        f" {calls} target calls, {tokens / calls:.2f} a call. It is one text,"
        f' of: "{line["text"]}"',
        f"The paper's: {FIGURE_1.tokens} tokens in {FIGURE_1.target_calls}"
        f" target calls, {FIGURE_1.tokens / FIGURE_1.target_calls:.2f} a call,"
        " by its GPT-like models on LM1B; its γ is not printed.",
        *measured.warnings([line]),
        measured.Runs([line]).listed(),
      ]
    ),
    draw(line["rounds"]),
  )


def count_tokens(line: measured.Line) -> int:
  """Returns how many tokens a trace has, EOS included."""
  return sum(
    len(each["accepted"]) + (each["added"] is not None)
    for each in line["rounds"]
  )


def coloured(each: dict[str, Any]) -> list[tuple[str, str]]:
  """Returns a round's new text as (text, colour), without what is empty."""
  pieces = (
    ("".join(each["accepted"]), ACCEPTED),
    (each["rejected"] or "", REJECTED),
    (each["added"] or "", ADDED),
  )
  return [piece for piece in pieces if piece[0]]


def draw(rounds: Sequence[dict[str, Any]]) -> Figure:
  """Returns the picture of a trace's rounds."""
  points = _SIZE * _LETTER
  figure = Figure(figsize=(_COLUMNS * points / 72, (len(rounds) + 1) * 0.2))
  diagram = figure.add_axes((0, 0, 1, 1))
  diagram.set(xlim=(0, _COLUMNS), ylim=(len(rounds) + 0.5, -0.5))
  diagram.axis("off")
  before = ""
  for number, each in enumerate(rounds):
    new = coloured(each)
    room = max(_COLUMNS - 4 - sum(len(text) for text, _ in new), 0)
    shown = _end_of(before, room)
    column = 0
    for text, colour in ((f"{number + 1:3} ", "black"), (shown, "grey"), *new):
      # Spaces in front are left out of what is drawn: they are room alone.
      letters = text.lstrip(" ")
      diagram.text(
        column + len(text) - len(letters),
        number,
        letters,
        color=colour,
        family="DejaVu Sans Mono",
        fontsize=_SIZE,
        va="center",
        parse_math=False,
      )
      column += len(text)
    before += "".join(each["accepted"]) + (each["added"] or "")
  return figure


def _end_of(text: str, room: int) -> str:
  """Returns the end of a text that has at most `room` letters."""
  if len(text) <= room:
    return text
  return "…" + text[len(text) - room + 1 :] if room else ""


if __name__ == "__main__":
  page.main_with_results(make, "figure_1")
