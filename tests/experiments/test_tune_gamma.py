"""The best gamma: of known costs it is known, and it may be none."""

import dataclasses
import json
import types

import numpy as np
import pytest

from experiments import tune_gamma
from experiments.decoding.timing import Costs


@pytest.fixture
def arguments(pair_config, task, tmp_path, monkeypatch):
  """Timing has tests of its own: here a verification costs what it is told."""

  def with_verification(verify):
    def parts_sampler(pair, inputs, config):
      cost = verify(config.gamma)
      return lambda: Costs(0.1, 0.01, 0.01 * cost, 0.1, 0.0001, 0.0002)

    monkeypatch.setattr(tune_gamma, "parts_sampler", parts_sampler)

  def time_pair(pair, batches, *, config, seed, repeats, on_progress):
    assert (seed, repeats) == (0, 2)
    for _ in range(repeats + 1):
      on_progress()
    return types.SimpleNamespace(
      speedup=[1.5, 1.6], predicted_speedups=[1.4, 1.5]
    )

  monkeypatch.setattr(tune_gamma, "time_pair", time_pair)
  with_verification(lambda gamma: 1.0 if gamma <= 3 else 9.0)
  return types.SimpleNamespace(
    with_verification=with_verification,
    run={
      "pair": pair_config,
      "task": task,
      "output_dir": str(tmp_path / "out"),
      "max_input_length": 32,
      "max_new_tokens": 12,
      "most": 5,
      "examples": 4,
      "repeats": 2,
      "temperature": 1.0,
    },
  )


@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_best_gamma_is_where_verification_is_still_cheap(
  arguments, batch_size, tmp_path
):
  report = tune_gamma.run(**arguments.run, batch_size=batch_size)
  file = tmp_path / "out" / tune_gamma.REPORT
  assert json.loads(file.read_text()) == json.loads(json.dumps(report))
  assert (tmp_path / "out" / tune_gamma.FIGURE).read_text().startswith("<?xml")
  assert report["gamma"] == 3
  assert report["speedup"]["median"] == pytest.approx(1.55)
  assert report["predicted"]["median"] == pytest.approx(1.45)
  assert report["verification_ratios"] == pytest.approx([1, 1, 1, 1, 9, 9])
  assert report["examples"] == 4
  # What the curve is made of, by hand.
  tokens = report["tokens_per_round"]
  assert tokens[0] == 1
  for gamma in range(1, 6):
    drafting = 0.02 + (gamma - 1) * 0.01
    cost = (1 if gamma <= 3 else 9) + drafting
    assert report["improvement"][gamma] == pytest.approx(tokens[gamma] / cost)


def test_none_is_best_where_speculation_does_not_pay(arguments, capsys):
  arguments.with_verification(lambda gamma: 9.0)
  report = tune_gamma.run(**arguments.run)
  assert report["gamma"] == 0
  assert report["improvement"][0] == 1
  assert report["speedup"] is None
  assert "does not pay" in capsys.readouterr().out


def test_acceptance_by_position():
  histogram = np.array([[4, 2, 0, 1], [1, 0, 0, 2]])
  assert tune_gamma.acceptance_by_position(histogram) == [5 / 10, 3 / 5, 1.0]
  never = np.array([[3, 0, 0]])
  assert tune_gamma.acceptance_by_position(never) == [0.0, None]


def test_the_gin_file_names_all(arguments, tmp_path, task):
  report = tune_gamma.main(
    [
      "--gin_file=tune_gamma.gin",
      f"--gin.PairConfig.target='{arguments.run['pair'].target}'",
      f"--gin.base_shared/PairConfig.draft='{arguments.run['pair'].draft}'",
      f"--gin.PairConfig.vocabulary='{arguments.run['pair'].vocabulary}'",
      f"--gin.Task.path='{task.path}'",
      "--gin.Task.origin=None",
      "--gin.Task.kinds=()",
      "--gin.Task.column=None",
      "--gin.tune_gamma.input_length_multiple=32",
      "--gin.tune_gamma.max_new_tokens=12",
      "--gin.tune_gamma.repeats=2",
      "--gin.tune_gamma.most=3",
      f"--output_dir={tmp_path / 'gin'}",
    ]
  )
  assert report["pair"] == "ende"
  assert len(report["improvement"]) == 4


def test_what_cannot_be_is_refused(arguments, pair_config):
  def check(message, **changes):
    with pytest.raises(ValueError, match=message):
      tune_gamma.run(**{**arguments.run, **changes})

  check("most is 0", most=0)
  check("repeats is 0", repeats=0)
  check("temperature is -1", temperature=-1.0)
  check(
    "PairConfig.draft is None; there is no gamma to choose",
    pair=dataclasses.replace(pair_config, draft=None),
  )
