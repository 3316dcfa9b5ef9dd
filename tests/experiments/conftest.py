import pytest

import specdec_jax as sd
from experiments.decoding.pair import PairConfig
from experiments.decoding.task import Task
from tests.experiments import tiny_pair


@pytest.fixture(scope="session")
def pair_folder(tmp_path_factory):
  return tiny_pair.make_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="session")
def pair_config(pair_folder):
  return PairConfig(
    name="tiny",
    target=str(pair_folder / "target"),
    draft=str(pair_folder / "draft"),
    vocabulary=str(pair_folder / "sentencepiece.model"),
  )


@pytest.fixture(scope="session")
def pair(pair_config):
  return pair_config.load()


@pytest.fixture
def task(tmp_path):
  path = tmp_path / "texts.txt"
  path.write_text("".join(f"{each}\n" for each in tiny_pair.TEXTS))
  return Task(name="texts", path=str(path))


@pytest.fixture
def task_by_origin(tmp_path):
  """The same texts, of two kinds in turns."""
  path = tmp_path / "texts.tsv"
  path.write_text(
    "".join(
      f"{text}\t{'ab'[i % 2]}:x\n" for i, text in enumerate(tiny_pair.TEXTS)
    )
  )
  return Task("texts", str(path), column=0, origin=1)


@pytest.fixture
def settings(pair_config, task, tmp_path):
  """Arguments of `generate.run`; compiled for once per session."""
  return {
    "pair": pair_config,
    "task": task,
    "config": sd.SpeculativeConfig(
      gamma=3,
      max_new_tokens=12,
      sampling=sd.SamplingConfig(temperature=0.0),
    ),
    "output_dir": str(tmp_path / "out"),
    "max_input_length": 32,
    "batch_size": 3,
  }
