"""The generated pages: what the paper printed, beside what theory gives."""

import importlib
import re

import numpy as np
import pytest

from experiments.paper import curves, figure_2, figure_3, figure_4, page
from experiments.paper.published import TABLE_1, TABLES_2_AND_4

# Those that need nothing measured.
PAGES = ("table_1", "table_4", "figure_2", "figure_3", "figure_4")


def make(name):
  return importlib.import_module(f"experiments.paper.{name}").make()


def cells(text):
  """The cells of each row of a page's tables, without the columns' names."""
  lines = [line for line in text.split("\n") if re.match(r"\| [^-]", line)]
  return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


@pytest.mark.parametrize("name", PAGES)
def test_a_command_writes_a_page(name, tmp_path, capsys):
  command = page.main if name == "table_1" else page.main_with_results
  path = command(
    importlib.import_module(f"experiments.paper.{name}").make,
    name,
    [f"--gin_file=paper/{name}.gin", f"--output_dir={tmp_path}"],
  )
  text = path.read_text("utf-8")
  assert path == tmp_path / f"{name}.md"
  assert str(path) in capsys.readouterr().out
  assert "Made by" in text
  assert ", jax " in text
  picture = tmp_path / f"{name}.svg"
  assert picture.exists() == (f"({name}.svg)" in text) == ("figure" in name)
  if picture.exists():
    before = picture.read_bytes()
    assert before.startswith(b"<?xml")
    page.write(make(name), tmp_path, name)
    assert picture.read_bytes() == before


def test_a_wrong_binding_is_refused(tmp_path):
  with pytest.raises(SystemExit, match="colour"):
    page.main(
      lambda: make("table_1"),
      "table_1",
      [f"--output_dir={tmp_path}", "--gin.table_1.colour=1"],
    )
  assert not list(tmp_path.iterdir())


def test_table_1_is_the_papers():
  rows = cells(make("table_1").text)[1:]
  assert len(rows) == len(TABLE_1)
  for *_, printed_operations, operations, printed_speed, speed in rows:
    assert operations == printed_operations
    assert speed == printed_speed


def test_table_4_says_what_the_papers_numbers_do_not_give():
  text = make("table_4").text
  rows = cells(text)[1:]
  assert len(rows) == len(TABLES_2_AND_4)
  for row in rows:
    printed, ours = (float(row[i].rstrip("x")) for i in (7, 8))
    # Within what rounding alpha and c to two digits leaves open.
    assert abs(printed - ours) < 0.1
  for off in ("(2.347)", "(1.934)", "(1.541)", "(3.1x)", "(2.3x)"):
    assert off in text
  assert "(3.4x)" not in text


def test_figures_have_the_papers_curves():
  diagram = figure_2.make().figure.axes[0]
  names = [line.get_label() for line in diagram.lines]
  assert names == ["γ = 1", "γ = 3", "γ = 5", "γ = 7", "γ = ∞", "baseline"]
  x, y = diagram.lines[3].get_data()
  np.testing.assert_allclose(y, sum(x**i for i in range(8)))
  assert diagram.get_xlim() == (0.5, 0.9)
  assert diagram.get_ylim() == (0, 10)
  np.testing.assert_allclose(diagram.lines[4].get_ydata()[[0, -1]], [2, 10])

  diagram = figure_3.make().figure.axes[0]
  at = [int(np.abs(curves.ALPHAS - each).argmin()) for each in curves.MARKED]
  assert [line.get_ydata()[at].tolist() for line in diagram.lines] == [
    [5, 7, 9, 14, 24],
    [4, 6, 8, 11, 19],
    [3, 4, 6, 8, 13],
    [2, 3, 4, 6, 10],
  ]

  diagram = figure_4.make().figure.axes[0]
  solid, dotted = diagram.lines[:5], diagram.lines[5:10]
  for gamma, speed, operations in zip(
    figure_4.GAMMAS, solid, dotted, strict=True
  ):
    assert speed.get_linestyle() == "-"
    assert operations.get_linestyle() == ":"
    assert speed.get_color() == operations.get_color()
    # With free drafts, speed times operations is gamma + 1.
    np.testing.assert_allclose(
      speed.get_ydata() * operations.get_ydata(), gamma + 1
    )
