import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from experiments import measure_full_size, memory
from experiments.decoding.random_pair import RandomModel, bytes_needed
from specdec_jax import t5
from specdec_jax.analysis import expected_tokens
from tests.experiments.tiny_pair import SIZES

TINY = t5.T5Config(vocab_size=64, **SIZES)
ROW = ("EnDe", "narrow", 0.0, 3, 0.8)


@pytest.fixture(scope="module", autouse=True)
def sizes():
  """Sizes that a test can time."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setitem(t5.CONFIGS, "tiny", TINY)
    # Its shapes are the target's: fewer programs that draw weights.
    patch.setitem(t5.CONFIGS, "narrow", dataclasses.replace(TINY, mlp_dim=32))
    patch.setitem(t5.CONFIGS, "other", dataclasses.replace(TINY, vocab_size=32))
    yield


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
  """What `run` takes."""
  return {
    "target": "tiny",
    "rows": (ROW,),
    "output_dir": str(tmp_path_factory.mktemp("full_size")),
    "input_length": 8,
    "output_length": 40,
    "batch_size": 8,
    "repeats": 1,
  }


@pytest.fixture(scope="module")
def line(settings):
  """The line of a row."""
  (line,) = measure_full_size.run(**settings)
  return line


def test_a_line_says_that_it_is_synthetic(line):
  assert line["synthetic"] is True
  assert line["weights"] == "random"
  assert line["alpha"] == 0.8
  assert (line["pair"], line["draft"], line["task"]) == (
    "tiny",
    "narrow",
    "EnDe",
  )
  # Nothing of the decoder is changed.
  assert line["equal_to_baseline"] is True


def test_a_line_has_the_sizes(line):
  for model, size in (("target", "tiny"), ("draft", "narrow")):
    shapes = t5.T5Model(t5.get_config(size)).param_shapes()
    count = sum(each.size for each in jax.tree.leaves(shapes))
    assert line[f"{model}_parameters"] == count


def test_outputs_are_as_long_as_told_and_guesses_kept_as_often(line):
  assert line["tokens"] == line["baseline_tokens"] == 8 * 40
  # About 240 guesses are examined: four deviations.
  assert abs(line["alpha_hat"]["mean"] - 0.8) < 4 * np.sqrt(0.16 / 240)
  assert sum(line["kept"]) == pytest.approx(
    320 / line["block_efficiency"]["mean"]
  )


def test_the_speedup_at_alpha_has_the_rounds_of_alpha(line):
  factor = line["speedup_at_alpha"]["median"] / line["speedup"]["median"]
  # Texts have ends, which cost a part of a round.
  rounds = sum(line["kept"]) / factor / 8
  endless = 40 / expected_tokens(0.8, 3)
  assert endless < rounds < endless + 1


def test_a_second_run_times_nothing(settings, line, monkeypatch, capsys):
  def refuse(*_, **__):
    raise AssertionError("It times again.")

  monkeypatch.setattr(measure_full_size, "time_pair", refuse)
  monkeypatch.setattr(RandomModel, "make", refuse)
  assert measure_full_size.run(**settings) == [line]
  assert "SYNTHETIC: tiny, random weights" in capsys.readouterr().out
  with pytest.raises(ValueError, match="output_length was 40 and is 41"):
    measure_full_size.run(**settings | {"output_length": 41})


WRONG = {
  "a size that is none": ({"target": "huge"}, "no T5 named 'huge'"),
  "a row too short": ({"rows": (("EnDe", "narrow"),)}, "each row is"),
  "a row twice": ({"rows": (ROW, ROW)}, "a row twice"),
  "no rows": ({"rows": ()}, "no row to time"),
  "a row without alpha": (
    {"rows": ((*ROW[:4], None),)},
    "without alpha; give the probability",
  ),
  "an alpha above 1": (
    {"rows": ((*ROW[:4], 1.5),)},
    "alpha is 1.5; it is a probability",
  ),
  "nothing drafted": (
    {"rows": (("EnDe", "narrow", 0.0, 0, 0.8),)},
    "gamma of .* is 0",
  ),
  "a draft that no row has": ({"drafts": ("wide",)}, "names 'wide'.*narrow"),
  "another vocabulary": (
    {"rows": (("EnDe", "other", 0.0, 3, 0.8),)},
    "vocabulary of 64 entries.* other one of 32",
  ),
  "no output": ({"output_length": 0}, "output_length is 0"),
  "float16": ({"dtype": "float16"}, "dtype is float16"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused_before_anything_is_made(
  settings, tmp_path, monkeypatch, name
):
  change, message = WRONG[name]
  monkeypatch.setattr(RandomModel, "make", None)
  with pytest.raises(ValueError, match=message):
    measure_full_size.run(
      **settings | {"output_dir": str(tmp_path / "new")} | change
    )
  assert not (tmp_path / "new").exists()


def test_what_does_not_fit_is_refused(settings, tmp_path, monkeypatch):
  monkeypatch.setattr(memory, "available_bytes", lambda: 2**28)
  new = settings | {"output_dir": str(tmp_path / "new")}
  with pytest.raises(MemoryError, match=r"tiny in float32.* 0\.2 GiB left"):
    measure_full_size.run(**new)
  assert not (tmp_path / "new").exists()


def test_memory_is_what_the_machine_says():
  available = memory.available_bytes()
  if available is not None:  # Elsewhere than on Linux.
    memory.check(available // 2, "Half of it", "never mind")
    with pytest.raises(MemoryError, match="Twice as much needs about"):
      memory.check(2 * available + 2**30, "Twice as much", "never mind")


def test_the_estimate_is_of_the_weights_and_little_more():
  config = sd.SpeculativeConfig(gamma=7, max_new_tokens=64)
  tiny = RandomModel("tiny", "bfloat16")
  weights = 2 * sum(
    each.size * each.dtype.itemsize for each in tiny.leaves.values()
  )
  needed = bytes_needed(
    tiny, tiny, config=config, batch_size=1, input_length=64
  )
  assert weights < needed < weights + 0.8e9


def test_weights_are_random_of_the_dtype_and_finite():
  model = RandomModel("tiny", "bfloat16")
  params = model.make(0)
  kernel = params["decoder"]["logits_dense"]["kernel"]
  assert kernel.dtype == "bfloat16"
  norm = params["decoder"]["decoder_norm"]["scale"]
  assert norm.dtype == "float32"
  assert np.all(np.asarray(norm) == 1)
  deviation = np.std(np.asarray(kernel, np.float32))
  assert deviation == pytest.approx(TINY.emb_dim**-0.5, rel=0.1)
  shapes = jax.tree.map(lambda x: x.shape, params)
  assert shapes == jax.tree.map(lambda x: x.shape, model.model.param_shapes())
  logits = model.model.decode(
    params,
    model.model.encode(params, jnp.full((1, 3), 7)),
    jnp.full((1, 3), 7),
    jnp.full((1, 2), 5),
  )
  assert np.all(np.isfinite(logits))


def test_the_configuration_is_of_table_2(tmp_path, monkeypatch):
  monkeypatch.setattr(measure_full_size, "bytes_needed", lambda *_, **__: 2**60)
  with pytest.raises(MemoryError, match="t5_1_1_xxl in float32"):
    measure_full_size.main(
      ["--gin_file=measure_full_size.gin", f"--output_dir={tmp_path}"]
    )
