import io

import jax
import jax.numpy as jnp
from rich.color import Color
from rich.text import Text

import specdec_jax as sd
from experiments.decoding import terminal
from experiments.decoding.trace import TracedRound, trace
from tests.experiments.tiny_pair import TEXTS


class Letters:
  def token_text(self, token):
    return " " + chr(token)


def tokens(text):
  return tuple(map(ord, text))


ROUNDS = [
  TracedRound(accepted=tokens("ab"), rejected=ord("x"), added=ord("c")),
  TracedRound(accepted=tokens("de"), rejected=None, added=ord("f")),
  TracedRound(accepted=tokens("g"), rejected=None, added=None),
]


def test_colours_are_those_of_figure_1():
  out = io.StringIO()
  console = terminal.make_console(
    file=out, force_terminal=True, color_system="standard"
  )
  terminal.show_decoding(console, "the text", ROUNDS, Letters())
  printed = Text.from_ansi(out.getvalue())
  names = {Color.parse(name).number: name for name in ("green", "red", "blue")}
  coloured = [
    (printed.plain[span.start : span.end], names[span.style.color.number])
    for span in printed.spans
    if span.style.color
  ]
  assert coloured == [
      (" a b", "green"), (" x", "red"), (" c", "blue"),
      (" d e", "green"), (" f", "blue"),
      (" g", "green"),
      ("accepted guesses", "green"), ("rejected guess", "red"),
      ("the target's own token", "blue"),
  ]  # fmt: skip
  assert printed.plain.splitlines()[1:5] == [
      "the text", "  1  a b x c", "  2  a b c d e f", "  3  a b c d e f g",
  ]  # fmt: skip


def test_marks_take_the_place_of_colours(monkeypatch):
  monkeypatch.setenv("NO_COLOR", "1")
  out = io.StringIO()
  console = terminal.make_console(file=out, force_terminal=True, width=40)
  terminal.show_decoding(console, "the text", ROUNDS, Letters())
  assert "\x1b" not in out.getvalue()
  assert "  1  a b[- x-]{+ c+}\n" in out.getvalue()
  assert "  2  a b c d e{+ f+}\n" in out.getvalue()
  monkeypatch.delenv("NO_COLOR")
  out = io.StringIO()
  terminal.show_decoding(
    terminal.make_console(file=out), "the text", ROUNDS, Letters()
  )
  assert "\x1b" not in out.getvalue()


def test_a_trace_is_the_decoding(pair):
  config = sd.SpeculativeConfig(
    gamma=3, max_new_tokens=12, sampling=sd.SamplingConfig(0.0)
  )
  total = []
  for text in TEXTS:
    inputs = jnp.array([pair.vocabulary.encode(text)])
    inputs = jnp.pad(inputs, ((0, 0), (0, 32 - inputs.shape[1])))
    keys = jax.random.split(jax.random.key(3), 1)
    rounds = trace(keys, inputs, pair=pair, config=config)
    output = pair.speculative(keys, inputs, config)
    shown = []
    for each in rounds:
      shown += [*each.accepted, *([] if each.added is None else [each.added])]
      assert each.rejected is None or each.rejected != each.added
    assert shown == output.tokens[0, : output.lengths[0]].tolist()
    assert len(rounds) == output.stats.target_calls[0]
    assert sum(r.rejected is not None for r in rounds) == int(
      output.stats.corrected[0]
    )
    total += rounds
  assert {len(each.accepted) for each in total} > {0, 1, 3}
