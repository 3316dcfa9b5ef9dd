"""A text of a tiny pair, traced: what it decodes, not how fast."""

import dataclasses
import json

import jax
import pytest

from experiments import measure_trace
from experiments.decoding import timing
from experiments.paper import figure_1, figure_5
from specdec_jax import SamplingConfig, SpeculativeConfig


@pytest.fixture
def arguments(pair_config, task, tmp_path, monkeypatch):
  # A part is timed by two calls.
  monkeypatch.setattr(timing, "_SAMPLE_SECONDS", 0.0)
  return {
    "pair": pair_config,
    "task": task,
    "output_dir": str(tmp_path / "out"),
    "max_input_length": 32,
    "max_new_tokens": 12,
    "text": 4,
    "gammas": (3,),
    "repeats": 1,
  }


def test_a_trace_is_what_the_target_writes_and_figures_are_made_of_it(
  arguments, pair, tmp_path, monkeypatch
):
  (line,) = measure_trace.run(**arguments)
  path = tmp_path / "out" / measure_trace.TRACES
  assert list(map(json.loads, path.read_text().splitlines())) == [line]
  text = arguments["task"].read()[4].text
  assert line["text"] == text
  ids = pair.vocabulary.encode(text)
  output = pair.baseline(
    jax.random.split(jax.random.key(0), 1),
    jax.numpy.array([ids + [0] * (32 - len(ids))]),
    SpeculativeConfig(
      gamma=3, max_new_tokens=12, sampling=SamplingConfig(temperature=0.0)
    ),
  )
  length = int(output.lengths[0])
  assert figure_1.count_tokens(line) == length
  assert line["baseline_calls"] == length
  written = "".join(
    "".join(each["accepted"]) + (each["added"] or "")
    for each in line["rounds"]
  )
  assert written == "".join(
    map(pair.vocabulary.token_text, output.tokens[0, :length].tolist())
  )
  assert set(line["parts_ms"]) == set(timing.Costs._fields)
  assert figure_1.make([str(path)]).figure
  made = figure_5.make([str(path)])
  assert made.figure
  # What is there is not measured again; another text is refused.
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
