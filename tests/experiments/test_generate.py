import dataclasses
import functools
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

import specdec_jax as sd
from experiments import generate
from experiments.decoding import decode
from experiments.decoding.pair import PairConfig
from experiments.decoding.task import Task
from experiments.paths import REPOSITORY
from tests.experiments.tiny_pair import TEXTS

COUNTERS = ("target_calls", "drafted", "examined", "accepted", "corrected",
            "bonus", "emitted")  # fmt: skip


def read(settings):
  path = f"{settings['output_dir']}/{generate.OUTPUTS}"
  with open(path, "rb") as f:
    return [json.loads(line) for line in f]


def read_bytes(settings):
  with open(f"{settings['output_dir']}/{generate.OUTPUTS}", "rb") as f:
    return f.read()


def sampling(settings, temperature=1.0):
  config = dataclasses.replace(
    settings["config"], sampling=sd.SamplingConfig(temperature)
  )
  return {**settings, "config": config}


def test_records_hold_each_text(settings, pair):
  generate.run(**settings)
  records = read(settings)
  assert [each["input"] for each in records] == TEXTS
  for i, each in enumerate(records):
    assert each["index"] == i
    assert each["line"] == i + 1
    assert each["equal_to_baseline"] is True
    assert each["log_prob"] < 0
    assert each["output"] == pair.vocabulary.decode(each["ids"])
    assert each["finished"] == (each["ids"][-1] == 1)
    stats = each["statistics"]
    assert stats["emitted"] == len(each["ids"])
    assert stats["emitted"] == sum(
      stats[name] for name in ("accepted", "corrected", "bonus")
    )
    assert sum(stats["accepted_histogram"]) == stats["target_calls"]
    assert stats["drafted"] == 3 * stats["target_calls"]
    assert stats["block_efficiency"] == (
      stats["emitted"] / stats["target_calls"]
    )


def test_a_text_decodes_as_it_does_alone(settings, pair):
  generate.run(**settings)
  for each in read(settings):
    ids = pair.vocabulary.encode(each["input"])
    output = sd.autoregressive_generate(
      jax.random.key(0),
      jnp.array([ids + [0] * (32 - len(ids))]),
      model=pair.target,
      params=pair.target_params,
      config=settings["config"],
    )
    assert output.tokens[0, : output.lengths[0]].tolist() == each["ids"]


def test_report_sums_up_the_records(settings):
  report = generate.run(**settings, timing_repeats=3, timing_examples=4)
  with open(f"{settings['output_dir']}/{generate.REPORT}") as f:
    assert json.load(f) == report
  stats = [each["statistics"] for each in read(settings)]
  total = {name: sum(each[name] for each in stats) for name in COUNTERS}
  counts = report["counts"]
  assert counts.pop("examples") == len(TEXTS)
  assert counts.pop("unfinished") == sum(
    not each["finished"] for each in read(settings)
  )
  assert counts.pop("tokens") == total.pop("emitted")
  assert counts == total
  assert report["acceptance_rate"] == total["accepted"] / total["examined"]
  assert 0 < report["acceptance_rate"] < 1
  assert report["equal_to_baseline"] is True
  assert (report["gamma"], report["batch_size"]) == (3, 3)
  assert report["temperature"] == 0
  for name in ("baseline_ms_per_token", "speculative_ms_per_token",
               "speedup_range"):  # fmt: skip
    spread = report[name]
    assert 0 < spread["min"] <= spread["median"] <= spread["max"]
  assert report["speedup"] == report["speedup_range"]["median"]
  assert report["predicted_speedup"] > 0
  assert report["cost_ratio"] > 0
  assert report["verify_ratio"] > 0
  timing = report["timing"]
  assert (timing["repeats"], timing["examples"]) == (3, 4)
  # The four texts are in two batches, each as long as its longest row.
  records = [read(settings)[i] for i in (0, 2, 5, 7)]
  batches = (records[:3], records[3:])
  assert timing["tokens"] == sum(len(each["ids"]) for each in records)
  assert timing["baseline_calls"] == sum(
    max(len(each["ids"]) for each in batch) for batch in batches
  )
  assert timing["rounds"] == sum(
    max(each["statistics"]["target_calls"] for each in batch)
    for batch in batches
  )


def test_what_is_undefined_is_null(settings):
  config = dataclasses.replace(settings["config"], gamma=0)
  pair = dataclasses.replace(settings["pair"], draft=None)
  report = generate.run(**{**settings, "config": config, "pair": pair})
  assert report["acceptance_rate"] is None
  assert report["block_efficiency"] == 1
  assert report["speedup"] is None
  assert report["draft_parameters"] == 0
  assert read(settings)[0]["statistics"]["acceptance_rate"] is None


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_interrupted_run_ends_with_the_same_bytes(
  settings, tmp_path, monkeypatch, temperature
):
  settings = sampling(settings, temperature)
  generate.run(**settings)
  whole = read_bytes(settings)
  resumed = {**settings, "output_dir": str(tmp_path / "resumed")}
  decode_batch = generate.decode_batch
  calls = []

  def interrupted(*args, **kwargs):
    if len(calls) == 2:
      raise KeyboardInterrupt
    calls.append(args)
    return decode_batch(*args, **kwargs)

  monkeypatch.setattr(generate, "decode_batch", interrupted)
  with pytest.raises(KeyboardInterrupt):
    generate.run(**resumed)
  assert whole.startswith(read_bytes(resumed))
  assert len(read(resumed)) == 6
  # The third batch has four records to go, of which none is decoded twice.
  calls.clear()

  def counted(*args, **kwargs):
    calls.append(args)
    return decode_batch(*args, **kwargs)

  monkeypatch.setattr(generate, "decode_batch", counted)
  generate.run(**resumed)
  assert read_bytes(resumed) == whole
  assert len(calls) == 2
  ends = [i for i, byte in enumerate(whole) if byte == ord("\n")]
  for cut in (1, ends[0], ends[0] + 1, ends[3] + 20, len(whole) - 1):
    with open(f"{resumed['output_dir']}/{generate.OUTPUTS}", "wb") as f:
      f.write(whole[:cut])
    generate.run(**resumed)
    assert read_bytes(resumed) == whole
  calls.clear()
  generate.run(**resumed)
  assert not calls


def test_changed_runs_are_refused(settings, pair_folder, tmp_path):
  generate.run(**settings)
  before = read_bytes(settings)

  def check(message, **changes):
    with pytest.raises(ValueError, match=message):
      generate.run(**{**settings, **changes})
    assert read_bytes(settings) == before

  check("seed was 0 and is 1", seed=1)
  check("batch_size was 3 and is 2", batch_size=2)
  check(
    "config.gamma was 3 and is 2",
    config=dataclasses.replace(settings["config"], gamma=2),
  )
  pair = settings["pair"]
  check(
    r"pair\.draft was .*draft' and is .*target'; pair\.weights",
    pair=dataclasses.replace(pair, draft=pair.target),
  )
  with open(settings["task"].path, "a") as f:
    f.write("one more\n")
  check(r"task\.texts was")
  report = generate.run(**settings, resume=False)
  assert report["counts"]["examples"] == len(TEXTS) + 1


def test_samples_do_not_depend_on_batching(settings, tmp_path):
  settings = sampling(settings)
  generate.run(**settings)
  alone = {**settings, "batch_size": 1, "output_dir": str(tmp_path / "alone")}
  report = generate.run(**alone)
  assert report["equal_to_baseline"] is None
  ids = [each["ids"] for each in read(settings)]
  assert [each["ids"] for each in read(alone)] == ids
  other = {**settings, "seed": 1, "output_dir": str(tmp_path / "other")}
  generate.run(**other)
  assert [each["ids"] for each in read(other)] != ids


def test_a_lossy_run_is_called_lossy(settings, capsys):
  generate.run(**settings)
  assert "LOSSY" not in capsys.readouterr().out
  lenient = {
    **settings,
    "config": dataclasses.replace(settings["config"], lenience=0.2),
    "resume": False,
  }
  report = generate.run(**lenient)
  assert "LOSSY: lenience 0.2." in capsys.readouterr().out
  assert report["lenience"] == 0.2
  assert report["equal_to_baseline"] is None
  # Where nothing is guessed there is nothing to be lenient about.
  config = dataclasses.replace(lenient["config"], gamma=0)
  report = generate.run(**{**lenient, "config": config})
  assert report["lenience"] == 1
  assert report["equal_to_baseline"] is True


def test_wrong_inputs_are_refused_before_any_decoding(
  settings, tmp_path, monkeypatch
):
  def never(*args, **kwargs):
    raise AssertionError("decoded")

  monkeypatch.setattr(generate, "decode_batch", never)
  monkeypatch.setattr(PairConfig, "load", never)

  def check(message, error=ValueError, **changes):
    with pytest.raises(error, match=message):
      generate.run(**{**settings, **changes})

  check(r"texts\.txt:\d+: .*max_input_length=\d+", max_input_length=8)
  check("batch_size is 0", batch_size=0)
  check("timing_repeats is -1", timing_repeats=-1)
  check("batch_size is 1.5", batch_size=1.5)
  check("no file", FileNotFoundError, task=Task("a", str(tmp_path / "none")))
  config = settings["config"]
  check("num_decodes", config=dataclasses.replace(config, num_decodes=2))
  check(
    "max_new_tokens is",
    config=dataclasses.replace(config, max_new_tokens=(3, 4, 5)),
  )
  check("eos_id is 2", config=dataclasses.replace(config, eos_id=2))
  check(
    "gamma is 0",
    config=dataclasses.replace(config, gamma=0),
    timing_repeats=1,
  )
  per_row = sampling(settings, (0.0, 1.0, 1.0))["config"]
  check("temperature is", config=per_row)
  pair = settings["pair"]
  check(
    "no vocabulary at .*none",
    FileNotFoundError,
    pair=dataclasses.replace(pair, vocabulary=str(tmp_path / "none")),
  )


def test_logits_that_are_not_finite_are_refused(settings, pair, monkeypatch):
  speculative = type(pair).speculative

  def broken(self, *args):
    output = speculative(self, *args)
    return dataclasses.replace(
      output, log_probs=output.log_probs.at[1].set(float("nan"))
    )

  monkeypatch.setattr(type(pair), "speculative", broken)
  with pytest.raises(ValueError, match=r"Text 1 \(line 2\) has log_prob nan"):
    generate.run(**settings)
  assert read(settings) == []


def test_differences_from_the_baseline_are_reported(
  settings, pair, monkeypatch
):
  baseline = type(pair).baseline

  def broken(self, *args):
    output = baseline(self, *args)
    return dataclasses.replace(output, tokens=output.tokens.at[1, 0].add(1))

  monkeypatch.setattr(type(pair), "baseline", broken)
  report = generate.run(**settings)
  assert report["equal_to_baseline"] is False
  # The second row of each batch of three; the last batch has one.
  assert [each["index"] for each in read(settings)
          if not each["equal_to_baseline"]] == [1, 4, 7]  # fmt: skip


def test_examples_are_shown(settings, capsys):
  generate.run(**settings, show_examples=2)
  printed = capsys.readouterr().out
  assert TEXTS[0] in printed
  assert TEXTS[5] in printed
  assert "acceptance rate" in printed
  assert f"{settings['output_dir']}/{generate.REPORT}" in printed
  assert "\x1b" not in printed


def test_the_command_line_binds_the_demo(settings):
  pair = settings["pair"]
  report = generate.main(
    [
      "--gin_file=gin_configs/demo.gin",
      "--gin_file=decoding/sampling.gin",
      f"--gin.PairConfig.target='{pair.target}'",
      f"--gin.PairConfig.draft='{pair.draft}'",
      f"--gin.PairConfig.vocabulary='{pair.vocabulary}'",
      f"--gin.Task.path='{settings['task'].path}'",
      "--gin.Task.column=None",
      "--gin.GAMMA=3",
      "--gin.MAX_NEW_TOKENS=12",
      "--gin.generate.batch_size=3",
      "--gin.generate.input_length_multiple=32",
      "--gin.generate.show_examples=0",
      "--gin.generate.timing_repeats=0",
      f"--output_dir={settings['output_dir']}",
    ]
  )
  assert report["pair"] == "ende_demo"
  assert report["task"] == "ende_sentences"
  assert report["temperature"] == 1
  ids = [each["ids"] for each in read(settings)]
  settings = sampling({**settings, "output_dir": f"{settings['output_dir']}2"})
  generate.run(**settings)
  assert [each["ids"] for each in read(settings)] == ids


def test_the_command_line_binds_own_models(settings):
  pair = settings["pair"]
  report = generate.main(
    [
      "--gin_file=generate.gin",
      "--gin_file=decoding/greedy.gin",
      f"--gin.TARGET='{pair.target}'",
      f"--gin.DRAFT='{pair.draft}'",
      f"--gin.VOCABULARY='{pair.vocabulary}'",
      f"--gin.TASK_PATH='{settings['task'].path}'",
      "--gin.MAX_INPUT_LENGTH=32",
      "--gin.GAMMA=3",
      "--gin.MAX_NEW_TOKENS=12",
      "--gin.generate.batch_size=3",
      f"--output_dir={settings['output_dir']}",
    ]
  )
  assert report["equal_to_baseline"] is True
  assert report["temperature"] == 0


def test_it_is_a_program():
  command = [sys.executable, "-m", "experiments.generate"]
  run = functools.partial(
    subprocess.run, cwd=REPOSITORY, capture_output=True, text=True
  )
  help_text = run([*command, "--help"], check=True).stdout
  assert "--gin_file" in help_text
  assert "compare_with_baseline" in help_text
  refused = run([*command, "--gin_file=generate.gin"], check=False)
  assert refused.returncode == 1
  assert refused.stderr == (
    "generate: No value for output_dir. Give a --gin_file that sets it,"
    " or --output_dir=FOLDER.\n"
  )


def test_counters_of_the_record_are_all_the_core_has():
  fields = {each.name for each in dataclasses.fields(sd.SpeculationStats)}
  histograms = {"accepted_histogram", "scored_histogram"}
  assert fields == {*decode.COUNTERS, *histograms}
