"""Drafters side by side: the best gamma of each is what is shown."""

import copy
import dataclasses

import pytest

from experiments import compare_drafters, measure_speed
from experiments.decoding import timing
from experiments.records import read_records


@pytest.fixture
def lines(pair_config, task_by_origin, tmp_path, monkeypatch):
  """What a run returns, and what it timed."""
  monkeypatch.setattr(timing, "_SAMPLE_SECONDS", 0.0)
  best = compare_drafters.run(
    drafts={
      "model": pair_config,
      "copies": dataclasses.replace(pair_config, draft=None, prompt_lookup=1),
      "itself": dataclasses.replace(
        pair_config, draft=None, self_draft_layers=(0,)
      ),
    },
    task=task_by_origin,
    output_dir=str(tmp_path / "out"),
    max_input_length=32,
    max_new_tokens=8,
    temperatures=(0.0,),
    gammas=(1, 2),
    length_bounds=(4,),
    examples=2,
    repeats=2,
  )
  path = tmp_path / "out" / measure_speed.CELLS
  return best, read_records(path)


def test_the_fastest_gamma_of_each_is_on_the_page(lines, tmp_path):
  best, timed = lines
  assert len(timed) == 6
  assert [each["draft"] for each in best] == ["model", "copies", "itself"]
  # All of the target's layers.
  assert best[2]["alpha_hat"]["mean"] == 1
  for line in best:
    others = [each for each in timed if each["draft"] == line["draft"]]
    assert line["speedup"]["median"] == max(
      each["speedup"]["median"] for each in others
    )
  text = (tmp_path / "out" / compare_drafters.PAGE).read_text()
  for line in best:
    speed = line["speedup"]
    assert (
      f"{speed['median']:.2f}x ({speed['min']:.2f}–{speed['max']:.2f})" in text
    )
  assert "| copies | 0 |" in text
  assert (tmp_path / "out" / compare_drafters.FIGURE).stat().st_size > 1000


def test_groups_and_what_they_lack(lines):
  best = copy.deepcopy(lines[0])
  kind = next(iter(best[0]["by_origin"]))
  speed = best[0]["by_origin"][kind]["speedup"]["median"]
  del best[1]["by_origin"][kind]
  rows = compare_drafters.page(best).splitlines()
  start = next(i for i, row in enumerate(rows) if "texts' origin" in row)
  table = [row.split(" | ") for row in rows[start + 2 : start + 6]]
  column = next(i for i, name in enumerate(table[0]) if name.startswith(kind))
  assert table[2][column].startswith(f"{speed:.2f}x (")
  assert table[3][column].startswith("–")


def test_a_tie_of_temperatures_keeps_the_order():
  def line(draft, temperature, speed):
    return {
      "draft": draft,
      "temperature": temperature,
      "speedup": {"median": speed},
    }

  found = compare_drafters.fastest(
    [
      line("a", 1.0, 2.0),
      line("a", 0.0, 1.0),
      line("b", 1.0, 3.0),
      line("b", 0.0, 1.5),
      line("a", 0.0, 1.25),
    ]
  )
  assert [
    (each["draft"], each["temperature"], each["speedup"]["median"])
    for each in found
  ] == [("a", 0.0, 1.25), ("b", 0.0, 1.5), ("a", 1.0, 2.0), ("b", 1.0, 3.0)]
