"""Every notebook runs from its first cell to its last."""

import json
import pathlib
import shutil
import tarfile

import nbclient
import nbformat
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.experiments.paper.lines import speed_line, trace_line, write

REPOSITORY = pathlib.Path(__file__).parents[1]
NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))
VOCABULARY = REPOSITORY / "experiments/assets/ende_demo/sentencepiece.model"


@pytest.fixture
def tiny_t5(tmp_path):
  """A folder as on Hugging Face's hub: weights, shape and vocabulary."""
  with tarfile.open(REPOSITORY / "tests/golden/huggingface.tar.gz") as archive:
    archive.extractall(tmp_path, filter="data")
  folder = tmp_path / "huggingface" / "t5_1_0"
  shape = json.loads((folder / "config.json").read_text())
  weights = load_file(folder / "model.safetensors")
  rows = 4096 - shape["vocab_size"]
  for name, each in weights.items():
    if each.shape[0] == shape["vocab_size"]:
      weights[name] = np.pad(each, ((0, rows), (0, 0)))
  save_file(weights, folder / "model.safetensors", {"format": "pt"})
  shape["vocab_size"] = 4096
  (folder / "config.json").write_text(json.dumps(shape))
  shutil.copy(VOCABULARY, folder / "spiece.model")
  return folder


@pytest.fixture
def results(tmp_path):
  """A folder as `make reproduce` leaves it, but for Tables 3 and 5."""
  folder = tmp_path / "results"
  write(folder / "speed" / "speed.jsonl", speed_line(), speed_line(gamma=3))
  write(folder / "trace" / "trace.jsonl", trace_line())
  return folder


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tiny_t5, results, monkeypatch):
  monkeypatch.setenv("TARGET", str(tiny_t5))
  monkeypatch.setenv("DRAFT", str(tiny_t5))
  monkeypatch.setenv("NEW_TOKENS", "8")
  monkeypatch.setenv("RESULTS", str(results))
  notebook = nbformat.read(path, as_version=4)
  nbclient.NotebookClient(
    notebook, timeout=600, resources={"metadata": {"path": str(path.parent)}}
  ).execute()
  assert all(
    cell.execution_count for cell in notebook.cells if cell.cell_type == "code"
  )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_stored_without_outputs(path):
  notebook = nbformat.read(path, as_version=4)
  nbformat.validate(notebook)
  for cell in notebook.cells:
    if cell.cell_type == "code":
      assert not cell.outputs
      assert cell.execution_count is None
