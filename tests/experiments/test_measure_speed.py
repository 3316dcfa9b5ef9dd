"""A grid of timings of a tiny pair: what it counts, not how fast it is."""

import dataclasses
import json
import math

import pytest

from experiments import environment, measure_speed
from experiments.decoding import timing
from experiments.decoding.task import Task
from experiments.records import Records
from tests.experiments import tiny_pair
from tests.experiments.tiny_pair import TEXTS


def read(folder):
  with open(folder / measure_speed.CELLS) as f:
    return [json.loads(line) for line in f]


@pytest.fixture
def arguments(pair_config, task_by_origin, tmp_path, monkeypatch):
  """Two drafts: the pair's own, and the target itself."""
  # A part is timed by two calls.
  monkeypatch.setattr(timing, "_SAMPLE_SECONDS", 0.0)
  return {
    "drafts": {
      "near": pair_config,
      "same": dataclasses.replace(pair_config, draft=pair_config.target),
    },
    "task": task_by_origin,
    "output_dir": str(tmp_path / "out"),
    "max_input_length": 32,
    "max_new_tokens": 12,
    "temperatures": (0,),
    "gammas": (3,),
    "batch_sizes": (3,),
    "length_bounds": (4, 8),
    "examples": 4,
    "repeats": 2,
  }


def test_a_grid_is_measured_and_goes_on(
  arguments, tmp_path, monkeypatch, capsys
):
  append = Records.append

  def failing(self, cells):
    if self.done:
      raise KeyboardInterrupt
    append(self, cells)

  monkeypatch.setattr(Records, "append", failing)
  with pytest.raises(KeyboardInterrupt):
    measure_speed.run(**arguments)
  monkeypatch.setattr(Records, "append", append)
  first = read(tmp_path / "out")
  assert [each["draft"] for each in first] == ["near"]
  lines = measure_speed.run(**arguments)
  assert read(tmp_path / "out") == lines
  assert lines[:1] == first
  assert [each["draft"] for each in lines] == ["near", "same"]
  near, same = lines
  for line in lines:
    assert (line["pair"], line["task"]) == ("tiny", "texts")
    assert (line["temperature"], line["gamma"], line["batch_size"]) == (0, 3, 3)
    assert line["examples"] == 4
    assert line["repeats"] == 2
    assert line["equal_to_baseline"] is True
    assert line["tokens"] == line["baseline_tokens"] > 4
    assert line["lenience"] == 1
    assert line["verification"] == "token"
    assert line["synthetic"] is False
    assert all(each > 0 for each in line["error_terms"].values())
    assert line["theorem_3_8"] * math.prod(line["error_terms"].values()) == (
      pytest.approx(line["speedup"]["median"])
    )
    for groups in (line["by_origin"], line["by_length"]):
      assert sum(each["tokens"] for each in groups.values()) == line["tokens"]
    # Texts 0, 2, 5 and 7.
    assert {
      name: each["examples"] for name, each in line["by_origin"].items()
    } == {"a": 2, "b": 2}
  # The target as its own draft: every guess holds.
  assert same["alpha_hat"] == {"mean": 1, "low": 1, "high": 1}
  assert 0 < near["alpha_hat"]["mean"] < 1
  assert near["tokens"] == same["tokens"]
  shown = capsys.readouterr().out
  assert f"{near['alpha_hat']['mean']:.3f}" in shown
  assert "2 acceptance not iid" in shown
  assert "LOSSY" not in shown

  # All is there: nothing is timed.
  monkeypatch.setattr(measure_speed, "time_pair", None)
  assert measure_speed.run(**arguments) == lines

  def refused(message, **changes):
    with pytest.raises(ValueError, match=message):
      measure_speed.run(**{**arguments, **changes})

  refused("repeats was 2 and is 3", repeats=3)
  only = {"near": arguments["drafts"]["near"]}
  refused(r"pair\.same\.draft was .* and is None", drafts=only)
  with monkeypatch.context() as patch:
    patch.setattr(environment, "_cpu_model", lambda: "another")
    refused(r"machine\.cpu was .* and is 'another'")
  monkeypatch.setattr(environment, "code_checksum", lambda: "other")
  refused("code was .* and is 'other'")


def test_the_gin_file_measures(pair_folder, tmp_path, monkeypatch, capsys):
  monkeypatch.setattr(timing, "_SAMPLE_SECONDS", 0.0)
  path = tmp_path / "texts.tsv"
  path.write_text("source\torigin\n" + f"{TEXTS[0]}\ta:x\n{TEXTS[1]}\tb:x\n")
  (line,) = measure_speed.main(
    [
      "--gin_file=measure_speed.gin",
      f"--gin.PairConfig.target='{pair_folder}/target'",
      f"--gin.PairConfig.draft='{pair_folder}/draft'",
      f"--gin.PairConfig.vocabulary='{pair_folder}/sentencepiece.model'",
      f"--gin.Task.path='{path}'",
      "--gin.measure_speed.max_new_tokens=12",
      "--gin.measure_speed.input_length_multiple=32",
      "--gin.measure_speed.temperatures=[1]",
      "--gin.measure_speed.gammas=[3]",
      "--gin.measure_speed.batch_sizes=[1]",
      "--gin.measure_speed.repeats=1",
      "--gin.measure_speed.lenience=0.5",
      f"--output_dir={tmp_path}",
    ]
  )
  assert line["pair"] == "ende_demo"
  assert line["draft"] == "demo"
  assert line["lenience"] == 0.5
  assert line["equal_to_baseline"] is None
  assert set(line["by_origin"]) == {"a", "b"}
  for each in line["by_origin"].values():
    assert each["speedup"]["median"] > 0
  assert "LOSSY: lenience 0.5." in capsys.readouterr().out


def test_the_rule_of_verification_is_the_decoder_s(arguments, monkeypatch):
  class TimedError(Exception):
    pass

  def time_pair(pair, batches, *, config, **others):
    raise TimedError(config.verification)

  monkeypatch.setattr(measure_speed, "time_pair", time_pair)
  with pytest.raises(TimedError, match="block"):
    measure_speed.run(**arguments, verification="block")


def test_what_cannot_be_is_refused_before_anything_is_computed(
  arguments, tmp_path, monkeypatch
):
  def never(*args, **kwargs):
    raise AssertionError("timed")

  monkeypatch.setattr(measure_speed, "time_pair", never)

  def check(message, error=ValueError, **changes):
    with pytest.raises(error, match=message):
      measure_speed.run(**{**arguments, **changes})
    assert not (tmp_path / "out").exists()

  near = arguments["drafts"]["near"]
  check(r"gammas is \(\); give one or more", gammas=())
  check("a value of gammas is 0", gammas=(3, 0))
  check(r"temperatures is \(1\.0, 1\.0\)", temperatures=(1, 1.0))
  check("temperature is -1", temperatures=(-1,))
  check("a value of batch_sizes is 1.5", batch_sizes=(1.5,))
  check(r"length_bounds is \(8, 4\)", length_bounds=(8, 4))
  check("repeats is 0", repeats=0)
  check("lenience is 2", lenience=2)
  check("verification is 'best'", verification="best")
  check("drafts is empty", drafts={})

  def with_draft(**changes):
    return {"near": near, "other": dataclasses.replace(near, **changes)}

  check(r"drafts\['other'\] is None", drafts=with_draft(draft=None))
  check(r"PairConfig\.target is", drafts=with_draft(target=near.draft))
  check(r"PairConfig\.name is 'tiny'", drafts=with_draft(name="big"))
  missing = with_draft(draft=str(tmp_path / "none"))
  check("none", FileNotFoundError, drafts=missing)
  check(
    "no file", FileNotFoundError, task=Task("a", str(tmp_path / "none.txt"))
  )
  check(r"texts\.tsv:\d+: .*max_input_length", max_input_length=8)
  check("prompt_tokens is 4, but .* is no language model", prompt_tokens=4)


def test_a_draft_that_stops_early_is_predicted_with_fewer_guesses(
  arguments, pair_config
):
  same = dataclasses.replace(
    pair_config, draft=pair_config.target, stops=(1,), confidence=1.0
  )
  line = measure_speed.run(**{**arguments, "drafts": {"same": same}})[0]
  assert line["equal_to_baseline"] is True
  assert line["scored"] == [0, 1, 0, 0]
  assert line["theorem_3_8"] * math.prod(line["error_terms"].values()) == (
    pytest.approx(line["speedup"]["median"])
  )


def test_copies_are_timed_like_drafts(arguments, pair_config):
  lookup = dataclasses.replace(pair_config, draft=None, prompt_lookup=1)
  both = dataclasses.replace(pair_config, prompt_lookup=1)
  drafts = {"lookup": lookup, "both": both}
  lines = measure_speed.run(**{**arguments, "drafts": drafts})
  for line in lines:
    assert line["equal_to_baseline"] is True
    assert line["cost_ratio"] == 0
    assert line["parts_ms"]["draft_first"] > 0
    assert line["theorem_3_8"] * math.prod(line["error_terms"].values()) == (
      pytest.approx(line["speedup"]["median"])
    )
  assert lines[0]["draft_parameters"] == 0
  # Rounds with three guesses and without any.
  none, *others = lines[0]["scored"]
  assert 0 < none < 1
  assert others == pytest.approx([0, 0, 1 - none])
  assert lines[1]["scored"] == [0, 0, 0, 1]


def test_an_exit_is_timed_with_the_targets_call_that_goes_on_from_it(
  arguments, pair_config, tmp_path
):
  tiny_pair.save_two_layers(
    tmp_path / "deep", vocab_size=pair_config.load_vocabulary().vocab_size
  )
  exit_ = dataclasses.replace(
    pair_config, target=str(tmp_path / "deep"), draft=None, early_exit=1
  )
  layers = dataclasses.replace(exit_, early_exit=None, self_draft_layers=(0,))
  drafts = {"exit": exit_, "layers": layers}
  found, same = measure_speed.run(**{**arguments, "drafts": drafts})
  assert found["equal_to_baseline"] is True
  assert found["kept"] == same["kept"]
  assert found["alpha_hat"] == same["alpha_hat"]
  assert found["parts_ms"]["draft_step"] == 0
  assert found["parts_ms"]["draft_first"] >= 0
  assert found["draft_parameters"] == 0 < same["draft_parameters"]
  assert found["theorem_3_8"] * math.prod(found["error_terms"].values()) == (
    pytest.approx(found["speedup"]["median"])
  )
