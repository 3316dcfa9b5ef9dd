"""The unpacked golden files."""

import pathlib
import tarfile

import pytest

from specdec_jax import t5
from tests.t5.golden_cases import ARCHIVES, T5X_1_1, random_params


@pytest.fixture(scope="session")
def golden(tmp_path_factory) -> pathlib.Path:
  """The folder of the golden files; not to be written to."""
  folder = tmp_path_factory.mktemp("golden")
  for name in ("t5x", "huggingface"):
    with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
      archive.extractall(folder, filter="data")
  return folder


@pytest.fixture(scope="session")
def tiny():
  """A model and random parameters."""
  model = t5.T5Model(T5X_1_1)
  return model, random_params(model)
