"""alpha of a tiny pair, measured apart from the script."""

import json

import jax
import numpy as np
import pytest

import specdec_jax as sd
from experiments import gin_cli, measure_alpha
from experiments.decoding.pair import PairConfig
from experiments.decoding.task import Task
from experiments.records import Records
from specdec_jax.training.step import token_logits
from tests.enumeration import standardise

LOGITS = jax.jit(token_logits, static_argnums=0)


def measure(pair_config, task, output_dir, **changes):
  arguments = {
    "pair": pair_config,
    "task": task,
    "output_dir": str(output_dir),
    "max_input_length": 32,
    "max_new_tokens": 12,
    "gamma": 3,
    "min_tokens": 200,
    "batch_size": 4,
  }
  return measure_alpha.run(**{**arguments, **changes})


def lines(output_dir):
  with open(output_dir / measure_alpha.TEXTS) as file:
    return list(map(json.loads, file))


def by_temperature(result):
  return {each["temperature"]: each for each in result["temperatures"]}


def test_greedy_alpha_is_the_agreement_under_the_targets_text(
  pair_config, pair, task, tmp_path
):
  result = measure(pair_config, task, tmp_path, temperatures=(0.0,))
  inputs = np.zeros((10, 32), np.int32)
  for row, each in zip(inputs, task.read(), strict=True):
    ids = pair.vocabulary.encode(each.text)
    row[: len(ids)] = ids
  output = pair.baseline(
    jax.random.key(0),
    inputs,
    sd.SpeculativeConfig(
      max_new_tokens=12, sampling=sd.SamplingConfig(temperature=0.0)
    ),
  )
  logits = LOGITS(pair.draft, pair.draft_params, inputs, output.tokens)
  counts = np.arange(12) < np.asarray(output.lengths)[:, None]
  tokens = int(counts.sum())
  agreed = int(np.sum(counts & (np.argmax(logits, -1) == output.tokens)))
  found = by_temperature(result)[0.0]
  assert found["tokens"] == tokens
  assert found["alpha"]["mean"] == pytest.approx(agreed / tokens)
  assert 0 < agreed < tokens
  # There is one round over the texts, and that is said.
  assert found["outputs"] == 10
  assert found["enough_tokens"] == (tokens >= 200)


def test_sampled_alpha_is_the_mean_of_the_shared_mass(
  pair_config, task, tmp_path, capsys
):
  result = measure(pair_config, task, tmp_path, temperatures=(0.0, 1.0))
  found = by_temperature(result)[1.0]
  assert found["tokens"] >= 200
  assert found["enough_tokens"]
  rows = [each for each in lines(tmp_path) if each["temperature"] == 1.0]
  assert found["outputs"] == len(rows)
  # Texts come round again, in order, until there is enough.
  assert [each["index"] for each in rows] == [i % 10 for i in range(len(rows))]
  assert [each["sample"] for each in rows] == [
    i // 10 for i in range(len(rows))
  ]
  shared = sum(each["shared"] for each in rows)
  assert found["alpha"]["mean"] == pytest.approx(shared / found["tokens"])
  assert found["alpha"]["low"] < found["alpha"]["mean"] < 1
  examined = sum(each["examined"] for each in rows)
  accepted = sum(each["accepted"] for each in rows)
  assert found["alpha_hat"]["mean"] == pytest.approx(accepted / examined)
  # Two estimates of one thing, from samples of their own.
  spread = found["alpha_hat"]["high"] - found["alpha_hat"]["low"]
  difference = found["alpha"]["mean"] - found["alpha_hat"]["mean"]
  assert abs(difference) < 1.5 * spread
  assert (tmp_path / measure_alpha.RESULT).exists()
  shown = capsys.readouterr().out
  assert f"{found['alpha']['mean']:.3f}" in shown
  assert f"{found['alpha_hat']['mean']:.3f}" in shown


def test_a_texts_shared_mass_is_that_of_both_laws(
  pair_config, pair, task, tmp_path, monkeypatch
):
  outputs = []
  real = type(pair).baseline

  def watched(self, keys, inputs, config):
    output = real(self, keys, inputs, config)
    outputs.append((np.asarray(inputs), output))
    return output

  monkeypatch.setattr(type(pair), "baseline", watched)
  sampling = {"top_k": 20, "top_p": 0.9}
  measure(
    pair_config, task, tmp_path, temperatures=(0.7,), min_tokens=30, **sampling
  )
  config = sd.SamplingConfig(0.7, **sampling)
  row = lines(tmp_path)[1]
  inputs, output = outputs[0]
  length = int(output.lengths[1])
  assert row["tokens"] == length
  p, q = (
    standardise(
      np.asarray(
        LOGITS(model, params, inputs[1:2], output.tokens[1:2, :length])
      ),
      config,
    )
    for model, params in (
      (pair.target, pair.target_params),
      (pair.draft, pair.draft_params),
    )
  )
  assert row["shared"] == pytest.approx(np.minimum(p, q).sum(), abs=1e-3)


def test_an_interrupted_measurement_goes_on(
  pair_config, task, tmp_path, monkeypatch
):
  options = {"temperatures": (0.0, 1.0), "min_tokens": 180}
  whole = measure(pair_config, task, tmp_path / "whole", **options)
  append = Records.append

  def failing(self, batch):
    if len(self.done) == 14:
      append(self, batch[:1])
      raise KeyboardInterrupt
    append(self, batch)

  monkeypatch.setattr(Records, "append", failing)
  with pytest.raises(KeyboardInterrupt):
    measure(pair_config, task, tmp_path / "halves", **options)
  monkeypatch.undo()
  assert len(lines(tmp_path / "halves")) == 15
  halves = measure(pair_config, task, tmp_path / "halves", **options)
  assert halves["temperatures"] == whole["temperatures"]
  assert lines(tmp_path / "halves") == lines(tmp_path / "whole")
  # More tokens are added to those that are there.
  more = measure(
    pair_config, task, tmp_path / "halves", **{**options, "min_tokens": 300}
  )
  count = len(lines(tmp_path / "whole"))
  assert lines(tmp_path / "halves")[:count] == lines(tmp_path / "whole")
  assert by_temperature(more)[1.0]["tokens"] >= 300


def test_the_gin_file_measures(pair_folder, task, tmp_path):
  result = gin_cli.main(
    measure_alpha.run,
    name="measure_alpha",
    configurables=(PairConfig, Task),
    argv=[
      "--gin_file=measure_alpha.gin",
      f"--gin.PairConfig.target='{pair_folder}/target'",
      f"--gin.PairConfig.draft='{pair_folder}/draft'",
      f"--gin.PairConfig.vocabulary='{pair_folder}/sentencepiece.model'",
      f"--gin.Task.path='{task.path}'",
      "--gin.Task.column=None",
      "--gin.measure_alpha.max_new_tokens=4",
      "--gin.measure_alpha.min_tokens=20",
      f"--output_dir={tmp_path}",
    ],
  )
  assert set(by_temperature(result)) == {0.0, 1.0}


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"gamma": 0}, "gamma is 0; drafting needs"),
    ({"temperatures": ()}, r"temperatures is \(\); give one or more"),
    ({"temperatures": (1.0, 1.0)}, r"temperatures is \(1\.0, 1\.0\)"),
    ({"min_tokens": 0}, "min_tokens is 0; it must be an integer"),
    ({"prompt_tokens": 4}, "prompt_tokens is 4, but .* is no language model"),
  ],
)
def test_what_cannot_be_is_refused(
  pair_config, task, tmp_path, changes, message
):
  with pytest.raises(ValueError, match=message):
    measure(pair_config, task, tmp_path, **changes)
  assert not (tmp_path / measure_alpha.TEXTS).exists()
