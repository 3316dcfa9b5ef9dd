"""What README shows is what the code does."""

import pathlib
import re

import jax
import numpy as np
import pytest

from specdec_jax import t5

ROOT = pathlib.Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def code_blocks(language: str) -> list[str]:
  return re.findall(rf"^```{language}\n(.*?)^```$", README, re.S | re.M)


def tiny_pair_member(num_layers: int):
  """A model that knows the ids in README, with random parameters."""
  model = t5.T5Model(
    t5.T5Config(
      vocab_size=32128,
      emb_dim=8,
      num_heads=2,
      num_encoder_layers=num_layers,
      num_decoder_layers=num_layers,
      head_dim=4,
      mlp_dim=16,
    )
  )
  random = np.random.default_rng(num_layers)
  params = jax.tree.map(
    lambda leaf: random.normal(size=leaf.shape).astype(leaf.dtype),
    model.param_shapes(),
  )
  return model, params


def test_the_python_block_runs(monkeypatch, capsys):
  loads = []

  def load(name, path):
    t5.get_config(name)  # A published size.
    loads.append(path)
    return tiny_pair_member(num_layers=3 - len(loads))

  monkeypatch.setattr(t5, "load", load)
  (block,) = code_blocks("python")
  names = {}
  exec(compile(block, "README.md", "exec"), names)
  assert loads == ["path/to/target", "path/to/draft"]
  output = names["output"]
  assert output.tokens.shape == (1, 128)
  assert 1 <= output.lengths[0] <= 128
  assert output.stats.drafted[0] == 7 * output.stats.target_calls[0]
  shown = capsys.readouterr().out.splitlines()[-1].split()
  assert len(shown) == 2


def test_the_commands_are_targets():
  (block,) = code_blocks("sh")
  targets = re.findall(r"^make (\w+)", block, re.M)
  makefile = (ROOT / "Makefile").read_text()
  assert targets == ["demo", "test"]
  for target in targets:
    assert re.search(rf"^{target}:", makefile, re.M)


def named_paths() -> list[str]:
  """Paths in backticks: what ends in a slash or in a known ending."""
  quoted = re.findall(r"`([\w./]+)`", README)
  files = (".py", ".gin", ".md")
  return sorted({q for q in quoted if q.endswith(("/", *files))})


def test_paths_are_found():
  assert {"specdec_jax/t5/", "specdec_jax/base.py"} <= set(named_paths())


@pytest.mark.parametrize("path", named_paths())
def test_a_named_path_exists(path):
  assert (ROOT / path).exists()


def test_every_package_part_is_in_the_map():
  parts = {
    f"specdec_jax/{path.name}{'/' if path.is_dir() else ''}"
    for path in (ROOT / "specdec_jax").iterdir()
    if not path.name.startswith(("_", "."))
  } - {"specdec_jax/py.typed"}
  assert parts <= set(named_paths())
