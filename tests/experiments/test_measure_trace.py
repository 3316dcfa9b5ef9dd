"""A trace's file: which text, whose words, and what is done again."""

import dataclasses
import json
import types

import pytest

from experiments import measure_trace
from experiments.decoding.timing import Costs, Work
from experiments.decoding.trace import TracedRound
from experiments.paper import figure_1, figure_5

COSTS = Costs(0.004, 0.010, 0.012, 0.001, 0.0005, 0.002)


@pytest.fixture
def arguments(pair_config, pair, task, tmp_path, monkeypatch):
  """Tracing and timing have tests of their own: here are known ones."""
  ids = pair.vocabulary.encode(task.read()[4].text)
  decoded = []

  def traced(key, inputs, *, pair, config):
    assert inputs[0, : len(ids)].tolist() == ids
    decoded.append(config.gamma)
    return [
      TracedRound(accepted=tuple(ids[:2]), rejected=ids[3], added=ids[2]),
      TracedRound(accepted=(), rejected=None, added=1),
    ]

  def timed(pair, batches, *, config, seed, repeats, on_progress):
    (batch,) = batches
    assert batch.indices == (4,)
    assert (config.gamma, seed, repeats) == (decoded[-1], 0, 2)
    return types.SimpleNamespace(
      work=[Work(baseline_calls=4, rounds=2)],
      parts=COSTS,
      speedup=[2.0, 3.0],
      predicted_speedups=[1.0, 2.0],
    )

  monkeypatch.setattr(measure_trace, "trace", traced)
  monkeypatch.setattr(measure_trace, "time_pair", timed)
  return {
    "pair": pair_config,
    "task": task,
    "output_dir": str(tmp_path / "out"),
    "max_input_length": 32,
    "max_new_tokens": 12,
    "text": 4,
    "gammas": (3,),
    "repeats": 2,
  }


def test_a_trace_is_written_and_figures_are_made_of_it(
  arguments, pair, tmp_path, monkeypatch
):
  (line,) = measure_trace.run(**arguments)
  path = tmp_path / "out" / measure_trace.TRACES
  assert list(map(json.loads, path.read_text().splitlines())) == [line]
  text = arguments["task"].read()[4].text
  assert (line["text"], line["line"]) == (text, 5)
  words = list(map(pair.vocabulary.token_text, pair.vocabulary.encode(text)))
  assert line["rounds"] == [
    {"accepted": words[:2], "rejected": words[3], "added": words[2]},
    {"accepted": [], "rejected": None, "added": "</s>"},
  ]
  assert line["baseline_calls"] == figure_1.count_tokens(line) == 4
  assert line["parts_ms"] == pytest.approx(
    {name: 1e3 * each for name, each in COSTS._asdict().items()}
  )
  assert line["speedup"] == {"min": 2, "median": 2.5, "max": 3}
  assert figure_1.make([str(path)]).figure
  assert figure_5.make([str(path)]).figure

  # Another gamma is added; what is there is not traced again.
  more = measure_trace.run(**arguments | {"gammas": (5, 3)})
  assert [each["gamma"] for each in more] == [5, 3]
  assert more[1] == line
  monkeypatch.setattr(measure_trace, "trace", None)
  assert measure_trace.run(**arguments) == [line]
  with pytest.raises(ValueError, match="text was 4 and is 5"):
    measure_trace.run(**arguments | {"text": 5})


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"gammas": ()}, "gammas is"),
    ({"gammas": (3, 3)}, "gammas is"),
    ({"gammas": (0,)}, "a value of gammas is 0"),
    ({"repeats": 0}, "repeats is 0"),
    ({"text": -1}, "text is -1"),
    ({"text": 10}, "has 10 texts"),
  ],
)
def test_wrong_arguments_are_refused(arguments, changes, message):
  with pytest.raises(ValueError, match=message):
    measure_trace.run(**arguments | changes)


def test_a_trace_needs_a_draft(arguments, pair_config):
  alone = dataclasses.replace(pair_config, draft=None)
  with pytest.raises(ValueError, match="name a draft"):
    measure_trace.run(**arguments | {"pair": alone})
