"""The unpacked golden files."""

import pathlib
import tarfile

import pytest

ARCHIVE = pathlib.Path(__file__).parents[2] / "golden/llama.tar.gz"


@pytest.fixture(scope="session")
def golden(tmp_path_factory) -> pathlib.Path:
  """The folder of the golden files; not to be written to."""
  folder = tmp_path_factory.mktemp("golden")
  with tarfile.open(ARCHIVE) as archive:
    archive.extractall(folder, filter="data")
  return folder / "llama"
