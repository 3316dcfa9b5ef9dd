"""The trainer over several devices."""

import pytest

from tests import virtual_devices
from tests.experiments import tiny_training

PROGRAM = """
import pathlib, sys
import jax, numpy as np
from specdec_jax import t5
from tests.experiments.tiny_training import curve, run, t5_config, vocab_size

text, folder = map(pathlib.Path, sys.argv[1:])
assert jax.device_count() == 4
model = t5_config(text, vocab_size=-(-vocab_size(text) // 4) * 4)

def train(name, steps, **mesh):
  return run(
    text, folder / name, model=model, steps=steps, tokens_per_batch=128,
    optimizer={"decay_steps": 0}, **mesh,
  )

train("one", 6, data_parallel=1)
mesh = {"data_parallel": 2, "model_parallel": 2}
train("four", 3, **mesh)
saved = train("four", 6, **mesh)  # From a checkpoint.
for field, steps in (("loss", (2, 6)), ("validation_loss", (6,))):
  wanted, found = curve(folder / "one", field), curve(folder / "four", field)
  for step in steps:
    np.testing.assert_allclose(found[step], wanted[step], rtol=1e-4)
jax.tree.map(
  lambda a, b: np.testing.assert_allclose(a, b, atol=0.02),
  t5.load(None, saved)[1],
  t5.load(None, folder / "one" / "model")[1],
)
"""


def run_on_four_devices(*arguments):
  return virtual_devices.run(
    PROGRAM, *arguments, devices=4, JAX_DEFAULT_MATMUL_PRECISION="highest"
  )


def test_a_mesh_has_the_same_curve(tmp_path):
  done = run_on_four_devices(tiny_training.make_text(tmp_path), tmp_path)
  assert done.returncode == 0, done.stdout + done.stderr


def test_a_mesh_that_does_not_fit_is_told(tmp_path):
  text = tiny_training.make_text(tmp_path)
  with pytest.raises(ValueError, match="data=64 x model=1 does not fit"):
    tiny_training.run(text, tmp_path / "out", data_parallel=64)
  with pytest.raises(ValueError, match="x model=64 does not fit"):
    tiny_training.run(text, tmp_path / "out", model_parallel=64)
  assert not (tmp_path / "out").exists()
