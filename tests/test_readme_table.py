import json

import pytest

from experiments import readme_table
from experiments.readme_table import BEGIN, END

REPORT = {
  "pair": "demo",
  "task": "ende",
  "batch_size": 1,
  "temperature": 0.0,
  "gamma": 5,
  "acceptance_rate": 0.7512,
  "block_efficiency": 3.1,
  "baseline_ms_per_token": {"min": 3.9, "median": 4.0, "max": 4.25},
  "speculative_ms_per_token": {"min": 1.9, "median": 2.0, "max": 2.125},
  "speedup": 2.0,
  "predicted_speedup": 2.104,
  "equal_to_baseline": True,
  "command": "python -m experiments.generate --gin_file=demo.gin",
  "environment": {
    "python": "3.11.7",
    "jax": "0.10.2",
    "backend": "cpu",
    "device": "cpu",
    "cpu": "A processor",
    "cores": 2,
    "dtype": "float32",
    "date": "2026-01-02",
    "commit": "abc1234",
  },
}


@pytest.fixture
def readme(tmp_path):
  path = tmp_path / "README.md"
  path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
  return path


def write(path, report):
  path.write_text(json.dumps(report))
  return path


def test_the_table_replaces_what_stood_between_the_marks(tmp_path, readme):
  report = write(tmp_path / "report.json", REPORT)
  for _ in range(2):  # Twice: the marks stay.
    readme_table.run(reports=[report], readme=readme)
  text = readme.read_text()
  assert text.startswith(f"before\n{BEGIN}\n| pair | ")
  assert text.endswith(f"{END}\nafter\n")
  assert "old" not in text
  assert (
    "| demo | ende | 1 | 0 | 5 | 0.75 | 3.10 | 4.00 (3.90–4.25) |"
    " 2.00 (1.90–2.12) | 2.00x | 2.10x | yes |" in text
  )
  assert f"\n```\n{REPORT['command']}\n```" in text
  assert "on A processor, 2 cores, float32, Python 3.11.7, jax 0.10.2," in text


def test_a_lossy_row_says_so():
  exact = readme_table.table([REPORT | {"lenience": 1.0}])
  assert exact == readme_table.table([REPORT])
  lossy = readme_table.table([REPORT | {"lenience": 0.3}])
  assert "| demo (lossy: lenience 0.3) | ende |" in lossy


def test_rows_follow_reports_and_shared_lines_stand_once():
  hot = REPORT | {"temperature": 1.0, "equal_to_baseline": None}
  text = readme_table.table([REPORT, hot])
  rows = [line for line in text.splitlines() if line.startswith("| demo")]
  assert [row.split(" | ")[3] for row in rows] == ["0", "1"]
  assert [row.split(" | ")[-1] for row in rows] == ["yes |", "– |"]
  assert text.count("experiments.generate") == 1
  assert text.count("A processor") == 1


def test_what_was_not_measured_is_a_dash():
  text = readme_table.table([REPORT | {"acceptance_rate": None}])
  assert "| 5 | – | 3.10 |" in text


def test_a_missing_field_is_named():
  report = {k: v for k, v in REPORT.items() if k != "speedup"}
  with pytest.raises(ValueError, match="no field 'speedup'"):
    readme_table.table([report])


@pytest.mark.parametrize("text", ["", BEGIN, f"{END} {BEGIN}", f"{BEGIN}" * 2])
def test_missing_marks_are_named(text):
  with pytest.raises(ValueError, match="results:begin"):
    readme_table.insert(text, "new")


def test_a_file_that_is_no_report_is_named(tmp_path, readme):
  path = tmp_path / "report.json"
  path.write_text("{")
  with pytest.raises(ValueError, match=r"report\.json is no report"):
    readme_table.run(reports=[path], readme=readme)
