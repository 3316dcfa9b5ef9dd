import dataclasses
import json

import pytest

from experiments import environment, exactness


@pytest.fixture
def arguments(settings):
  return {
    "pair": settings["pair"],
    "task": dataclasses.replace(settings["task"], limit=5),
    "output_dir": settings["output_dir"],
    "max_input_length": 32,
    "max_new_tokens": 12,
    "gammas": (0, 3),
    "batch_sizes": (1, 3),
  }


def test_all_is_identical(arguments, capsys):
  result = exactness.run(**arguments)
  assert result["identical"] is True
  assert result["texts"] == 5
  assert [(cell["gamma"], cell["batch_size"]) for cell in result["cells"]] == [
      (0, 1), (3, 1), (0, 3), (3, 3),
  ]  # fmt: skip
  for cell in result["cells"]:
    assert cell["texts"] == 5
    assert cell["tokens"] == result["tokens"] > 5
    assert cell["differences"] == []
  with open(f"{arguments['output_dir']}/{exactness.RESULT}") as f:
    assert json.load(f) == result
  assert "batch of 3" in capsys.readouterr().out


def test_a_difference_is_found_and_placed(arguments, pair, monkeypatch):
  speculative = type(pair).speculative

  def broken(self, keys, inputs, config):
    output = speculative(self, keys, inputs, config)
    if config.gamma == 0:
      return output
    return dataclasses.replace(output, tokens=output.tokens.at[0, 1].add(1))

  monkeypatch.setattr(type(pair), "speculative", broken)
  result = exactness.run(**arguments)
  assert result["identical"] is False
  assert result["baseline_not_argmax"] == []
  cells = {
    (cell["gamma"], cell["batch_size"]): cell["differences"]
    for cell in result["cells"]
  }
  assert cells[0, 1] == cells[0, 3] == []
  assert cells[3, 1] == [{"index": i, "position": 1} for i in range(5)]
  assert cells[3, 3] == [{"index": i, "position": 1} for i in (0, 3)]


def test_a_baseline_that_is_not_the_argmax_is_found(
  arguments, pair, monkeypatch
):
  speculative = type(pair).speculative

  def broken(self, keys, inputs, config):
    output = speculative(self, keys, inputs, config)
    return dataclasses.replace(output, tokens=output.tokens.at[0, 0].add(1))

  monkeypatch.setattr(type(pair), "speculative", broken)
  result = exactness.run(**{**arguments, "batch_sizes": (1,)})
  assert all(not cell["differences"] for cell in result["cells"])
  assert [each["index"] for each in result["baseline_not_argmax"]] == [
      0, 1, 2, 3, 4,
  ]  # fmt: skip
  assert all(each["position"] == 0 for each in result["baseline_not_argmax"])
  assert all(each["logit_gap"] > 0 for each in result["baseline_not_argmax"])
  assert result["identical"] is False


def test_cells_that_are_done_are_kept(arguments, monkeypatch):
  first = exactness.run(**{**arguments, "gammas": (3,)})
  decoded = []
  decode = exactness._decode

  def counted(pair, batches, config):
    decoded.append((config.gamma, len(batches)))
    return decode(pair, batches, config)

  monkeypatch.setattr(exactness, "_decode", counted)
  result = exactness.run(**arguments)
  # The baseline, of which everything is a comparison, and two new cells.
  assert decoded == [(0, 5), (0, 5), (0, 2)]
  assert [cell for cell in result["cells"] if cell["gamma"] == 3] == (
    first["cells"]
  )
  with pytest.raises(ValueError, match="max_new_tokens was 12 and is 11"):
    exactness.run(**{**arguments, "max_new_tokens": 11})
  monkeypatch.setattr(environment, "code_checksum", lambda: "other")
  with pytest.raises(ValueError, match="code was .* and is 'other'"):
    exactness.run(**arguments)


@pytest.mark.parametrize("is_broken", [False, True])
def test_the_command_line_fails_on_a_difference(
  arguments, pair, monkeypatch, is_broken
):
  speculative = type(pair).speculative

  def broken(self, keys, inputs, config):
    output = speculative(self, keys, inputs, config)
    if config.gamma == 0:
      return output
    return dataclasses.replace(output, tokens=output.tokens.at[0, 1].add(1))

  if is_broken:
    monkeypatch.setattr(type(pair), "speculative", broken)
  code = exactness.main(
    [
      "--gin_file=exactness.gin",
      f"--gin.PairConfig.target='{arguments['pair'].target}'",
      f"--gin.PairConfig.draft='{arguments['pair'].draft}'",
      f"--gin.PairConfig.vocabulary='{arguments['pair'].vocabulary}'",
      f"--gin.Task.path='{arguments['task'].path}'",
      "--gin.Task.column=None",
      "--gin.exactness.max_new_tokens=12",
      "--gin.exactness.input_length_multiple=32",
      "--gin.exactness.gammas=[0, 3]",
      "--gin.exactness.batch_sizes=[3]",
      f"--output_dir={arguments['output_dir']}",
    ]
  )
  assert code == (1 if is_broken else 0)


def test_bfloat16_is_refused(arguments):
  pair = dataclasses.replace(arguments["pair"], dtype="bfloat16")
  with pytest.raises(ValueError, match=r"bfloat16.*'float32'"):
    exactness.run(**{**arguments, "pair": pair})
