"""Pages of what was measured: our numbers, beside the paper's."""

import importlib
import itertools

import pytest

from experiments.paper import (
  figure_1,
  figure_2,
  figure_3,
  figure_4,
  figure_5,
  measured,
  page,
  table_2,
  table_3,
  table_4,
  table_5,
)
from tests.experiments.paper.lines import (
  ROUNDS,
  alpha_line,
  interval,
  speed_line,
  spread,
  trace_line,
  write,
)
from tests.experiments.paper.test_pages import cells

OF_SPEED = (table_2, table_4, figure_2, figure_3, figure_4)


def tables(text):
  """The rows of each table of a page, by its columns' names."""
  found = []
  for paragraph in text.split("\n\n"):
    if paragraph.startswith("| "):
      names, *rows = cells(paragraph)
      found.append([list(zip(names, row, strict=True)) for row in rows])
  return found


def last_columns(text):
  """The rows of a page's last table, without their names."""
  return [[cell for _, cell in row] for row in tables(text)[-1]]


@pytest.mark.parametrize(
  ("name", "command"),
  [
    ("table_2", "measure_speed"),
    ("table_3", "measure_alpha"),
    ("table_5", "measure_alpha"),
    ("figure_1", "measure_trace"),
    ("figure_5", "measure_trace"),
  ],
)
def test_what_is_missing_is_told_with_its_command(name, command, tmp_path):
  make = importlib.import_module(f"experiments.paper.{name}").make
  path = str(tmp_path / "folder" / "file.jsonl")
  made_by = f"python -m experiments.{command} --gin_file={command}.gin"
  with pytest.raises(FileNotFoundError, match=made_by) as error:
    make([path])
  assert f"--output_dir={tmp_path / 'folder'}" in str(error.value)
  with pytest.raises(measured.NotMeasuredError, match=made_by):
    make([])
  write(tmp_path / "folder" / "file.jsonl")
  with pytest.raises(measured.NotMeasuredError, match="no line"):
    make([path])
  write(tmp_path / "folder" / "file.jsonl", {"pair": "tiny"})
  with pytest.raises(measured.NotMeasuredError, match="file.jsonl:1 has no"):
    make([path])


@pytest.mark.parametrize("make", [each.make for each in OF_SPEED])
def test_synthetic_and_lossy_lines_are_named(make, tmp_path):
  # Figure 3 is of the best of several gammas.
  both = [
    speed_line(gamma=gamma, **changes)
    for changes in (
      {"synthetic": True},
      {"lenience": 0.5},
      {"verification": "block"},
    )
    for gamma in (3, 5)
  ]
  text = make([write(tmp_path / "x.jsonl", *both)]).text
  assert "tiny (SYNTHETIC)" in text
  assert "tiny (LOSSY: lenience 0.5)" in text
  assert "tiny (block verification)" in text
  assert "SYNTHETIC rows have random weights" in text
  assert "LOSSY rows are decoded with lenience" in text
  plain = [speed_line(gamma=3), speed_line(gamma=5)]
  text = make([write(tmp_path / "x.jsonl", *plain)]).text
  assert "rows have random weights" not in text
  assert "rows are decoded with lenience" not in text


def test_a_page_says_what_each_number_was_measured_on(tmp_path):
  first, second = speed_line(), speed_line(gamma=3, command="another one")
  paths = [
    write(tmp_path / "1.jsonl", first),
    write(tmp_path / "2.jsonl", second, first),
  ]
  text = table_2.make(paths).text
  assert [row[-1] for row in last_columns(text)] == ["1", "2", "1"]
  where = "Abacus, 2 cores, float32, Python 3.11.7, jax 0.10.2, 2026-12-01"
  assert f"1. `python -m experiments.x` on {where}, commit abcdefg." in text
  assert f"2. `another one` on {where}, commit abcdefg." in text


def test_table_2_sets_our_speed_beside_the_papers(tmp_path):
  given = {"synthetic": True, "alpha": 0.73, "speedup_at_alpha": spread(2.2)}
  lines = [
    speed_line(),
    speed_line(task="CNNDM", draft="t5_1_1_base", gamma=5, **given),
    speed_line(gamma=6),
    speed_line(draft="other"),
  ]
  text = table_2.make([write(tmp_path / "x.jsonl", *lines)]).text
  paper, ours = map(list, tables(text))
  assert len(paper) == 12
  assert dict(paper[0])["Theorem 3.8"] == "3.16x"
  found = [dict(row)["speed, paper"] for row in ours]
  assert found == ["3.4x", "3.0x", "–", "–"]
  assert dict(ours[0])["speed, ours"] == "2.10x (2.00–2.20)"
  assert dict(ours[0])["α̂"] == "0.750 (0.740–0.760)"
  assert dict(ours[0])["at given α"] == "–"
  assert dict(ours[1])["at given α"] == "2.20x (2.10–2.30), α = 0.73"


def test_table_3_sets_our_alpha_beside_the_papers(tmp_path):
  lines = [
    alpha_line(),
    alpha_line(temperature=1.0),
    alpha_line(draft="bigram", temperature=1.0, alpha_hat=None),
    alpha_line(task="summary", draft="large"),
    alpha_line(temperature=0.7),
    alpha_line(task="another"),
    alpha_line(lenience=0.5, alpha=interval(0.99)),
  ]
  text = table_3.make([write(tmp_path / "x.jsonl", *lines)]).text
  ours = list(map(dict, tables(text)[-1]))
  found = [row["α, paper"] for row in ours]
  assert found == ["0.75", "0.62", "0.19", "0.74", "–", "–"]
  assert ours[2]["α̂, ours"] == "–"
  assert "0.990" not in text
  assert "fewer" not in text
  few = write(tmp_path / "x.jsonl", alpha_line(tokens=9_000))
  assert "fewer tokens than the paper's 10,000: 9,000" in (
    table_3.make([few]).text
  )
  lossy = write(tmp_path / "x.jsonl", alpha_line(lenience=0.5))
  with pytest.raises(measured.NotMeasuredError, match="lenience 1"):
    table_3.make([lossy])


def test_table_4_says_which_rows_are_far_from_what_is_predicted(tmp_path):
  near, far = speed_line(), speed_line(gamma=3, speedup=spread(1.5))
  text = table_4.make([write(tmp_path / "x.jsonl", near)]).text
  assert "All 1 are within 10%" in text
  text = table_4.make([write(tmp_path / "x.jsonl", near, far)]).text
  assert "Of 2, 1 differ" in text
  assert "γ = 3 (-25%)" in text
  # The paper's rows stay, and the factors have a table of their own.
  assert [len(rows) for rows in tables(text)] == [12, 2, 2]
  assert last_columns(text)[0][-2:] == ["0.70", "0.95"]


def test_table_5_has_a_column_per_lenience(tmp_path):
  lines = [
    alpha_line(lenience=lenience, temperature=1.0, alpha=interval(alpha))
    for lenience, alpha in ((0.1, 0.9), (1.0, 0.6), (0.5, 0.7))
  ]
  lines.append(alpha_line(draft="base"))
  text = table_5.make([write(tmp_path / "x.jsonl", *lines)]).text
  paper, speeds, ours = map(list, tables(text))
  assert [name for name, _ in paper[0]][1:3] == ["l = 1", "l = 0.5 (LOSSY)"]
  # What section A.5 prints and its numbers do not give, and what they do.
  given = [row[3][1] for row in speeds]
  assert given == [
    "2.33x with γ = 7",
    "2.94x with γ = 9",
    "3.45x with γ = 10",
    "4.79x with γ = 15",
  ]
  assert [row[5][1] for row in speeds] == ["3.3x", "3.3x", "3.9x", "4.9x"]
  assert [f"{float(row[6][1][:-1]):.1f}x" for row in speeds] == [
    row[5][1] for row in speeds
  ]
  small, base = map(dict, ours)
  assert small["l = 1"].startswith("0.600")
  assert small["l = 0.5 (LOSSY)"].startswith("0.700")
  assert small["l = 0.1 (LOSSY)"].startswith("0.900")
  assert base["l = 0.1 (LOSSY)"] == "–"
  exact = write(tmp_path / "x.jsonl", alpha_line())
  with pytest.raises(measured.NotMeasuredError, match="leniences="):
    table_5.make([exact])


def marks(diagram):
  return [line for line in diagram.lines if line.get_marker() == "o"]


def test_figures_mark_what_was_measured(tmp_path):
  lines = [
    speed_line(),
    speed_line(gamma=3, speedup=spread(2.5), alpha_hat=interval(0.76)),
    speed_line(gamma=4, synthetic=True),
  ]
  path = write(tmp_path / "x.jsonl", *lines)
  for each, heights in ((figure_2, [3.5] * 3), (figure_4, [2.1, 2.5, 2.1])):
    points = marks(each.make([path]).figure.axes[0])
    assert [float(p.get_xdata()[0]) for p in points] == [0.75, 0.76, 0.75]
    assert [float(p.get_ydata()[0]) for p in points] == heights
    assert [p.get_markerfacecolor() for p in points][2] == "none"
    assert points[2].get_color() == "black"
    curve = each.make([path]).figure.axes[0].lines
    seven = next(c for c in curve if c.get_label() == "γ = 7")
    assert points[0].get_color() == seven.get_color()
  # Only the fastest gamma of a grid, and none of a grid of one.
  (point,) = marks(figure_3.make([path]).figure.axes[0])
  assert (point.get_xdata()[0], point.get_ydata()[0]) == (0.76, 3)
  text = figure_3.make([path]).text
  assert dict(tables(text)[-1][0])["γ tried"] == "3, 7"
  for each in (figure_2, figure_3, figure_4):
    assert not marks(each.make().figure.axes[0])


def test_figure_1_has_each_token_in_its_colour(tmp_path):
  path = write(tmp_path / "x.jsonl", trace_line())
  made = figure_1.make([path])
  drawn = [
    (text.get_text(), text.get_color())
    for text in made.figure.axes[0].texts
    if text.get_text().strip() and text.get_color() != "black"
  ]
  assert drawn == [
    ("Das $", "green"),
    ("nicht", "red"),
    ("ist", "blue"),
    ("Das $ ist", "grey"),
    ("gut.", "green"),
    ("</s>", "blue"),
  ]
  # Two kept and one added, twice: what was rejected does not count.
  assert "6 tokens in 2 target calls, 3.00 a call" in made.text
  assert "38 tokens in 9 target calls" in made.text


def test_figure_1_cuts_the_beginning_of_long_lines(tmp_path):
  path = write(tmp_path / "x.jsonl", trace_line(rounds=ROUNDS * 20))
  diagram = figure_1.make([path]).figure.axes[0]
  rows = {}
  for text in diagram.texts:
    column, row = text.get_position()
    rows.setdefault(row, []).append((column, text.get_text()))
  assert len(rows) == 40
  ends = [max(c + len(t) for c, t in row) for row in rows.values()]
  assert max(ends) == 92  # Full, and no further.
  assert rows[39][1][1].startswith("…")


def test_figure_5_draws_each_call(tmp_path):
  three = trace_line()
  one = trace_line(gamma=1, rounds=ROUNDS * 2)
  made = figure_5.make([write(tmp_path / "x.jsonl", three, one)])
  calls = figure_5.speculative_calls(three)
  assert [each.what for each in calls[:6]] == [
    "target, encoder",
    "draft, encoder",
    *["draft, decoder"] * 3,
    "target, decoder",
  ]
  assert len(calls) == 2 + 2 * 4
  for before, after in itertools.pairwise(calls):
    assert after.begin == pytest.approx(before.begin + before.length)
  # Prefills, then rounds of 2 + 0.5 + 0.5 + 12.
  assert figure_5.end(calls) == pytest.approx((5 + 2 * 15) / 10)
  assert figure_5.end(figure_5.baseline_calls(three)) == pytest.approx(6.4)
  assert figure_5.end(figure_5.speculative_calls(one)) == pytest.approx(6.1)
  rows = list(map(dict, tables(made.text)[-1]))
  assert [row["target calls, paper"] for row in rows] == ["7", "–", "17"]
  assert [row["target calls, ours"] for row in rows] == ["2", "4", "6"]
  found = [row["baseline over it"] for row in rows]
  assert found == ["1.83x", "1.05x", "1.00x"]
  bars = made.figure.axes[0].collections
  drawn = sum(len(each.get_paths()) for each in bars)
  assert drawn == (2 + 2 * 4) + (2 + 4 * 2) + (1 + 6)
  # A slower run of the same is the same picture.
  parts = {name: 3 * each for name, each in three["parts_ms"].items()}
  slower = figure_5.speculative_calls(trace_line(parts_ms=parts))
  assert figure_5.end(slower) == pytest.approx(figure_5.end(calls))
  other = trace_line(text="another")
  with pytest.raises(ValueError, match="2 texts"):
    figure_5.make([write(tmp_path / "x.jsonl", three, other)])


def test_a_page_names_the_command_that_makes_it_again(tmp_path):
  path = write(tmp_path / "x.jsonl", speed_line())
  made = page.main_with_results(
    table_4.make,
    "table_4",
    [
      "--gin_file=paper/table_4.gin",
      f"--output_dir={tmp_path}",
      f'--gin.table_4.results=["{path}"]',
    ],
  )
  text = made.read_text("utf-8")
  assert f"--gin.table_4.results=\"['{path}']\"" in text
