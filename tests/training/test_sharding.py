"""Training over several devices is training over one."""

import jax
import pytest
from jax.sharding import PartitionSpec

from specdec_jax import partitioning, t5
from specdec_jax.training import optimizer, sharding
from tests import virtual_devices

# Widths of 128 and more, so that Adafactor keeps sums of rows and columns.
CONFIG = t5.T5Config(
  vocab_size=128,
  emb_dim=136,
  num_heads=4,
  head_dim=2,
  mlp_dim=144,
  num_encoder_layers=1,
  num_decoder_layers=1,
  mlp_activations=("gelu", "linear"),
  logits_via_embedding=False,
  dropout_rate=0.1,
)


def specs(name):
  state = sharding.abstract_state(
    t5.T5Model(CONFIG),
    optimizer.OptimizerConfig(0.1, name).make(2000),
    partitioning.make_mesh(),
  )
  flat, _ = jax.tree_util.tree_flatten_with_path(state)
  return {
    jax.tree_util.keystr(path, simple=True, separator="/"): each
    for path, each in flat
  }


@pytest.mark.parametrize(
  ("name", "kept"),
  [("scaled_adam", ("mu", "nu")), ("adamw", ("mu", "nu")), ("adafactor", ())],
)
def test_what_is_kept_of_a_parameter_lies_like_it(name, kept):
  found = specs(name)
  wanted = {
    "encoder/layers_0/mlp/wi_0/kernel": PartitionSpec(None, "model"),
    "encoder/layers_0/mlp/wo/kernel": PartitionSpec("model", None),
    "token_embedder/embedding": PartitionSpec("model", None),
  }
  for path, spec in wanted.items():
    assert found[f"params/{path}"].sharding.spec == spec
    for each in kept:
      (moment,) = [k for k in found if k.endswith(f"{each}/{path}")]
      assert found[moment].sharding.spec == spec
  assert found["step"].sharding.spec == PartitionSpec()


def test_adafactors_sums_lie_like_what_is_left():
  found = specs("adafactor")

  def state_of(field):
    (path,) = [
      key
      for key in found
      if key.endswith(f"{field}/encoder/layers_0/mlp/wi_0/kernel")
    ]
    return found[path]

  # [136, 144]: rows lose the larger side, which lies along "model".
  row, column, whole = map(state_of, ("v_row", "v_col", "v"))
  assert (row.shape, row.sharding.spec) == ((136,), PartitionSpec(None))
  assert (column.shape, column.sharding.spec) == (
    (144,),
    PartitionSpec("model"),
  )
  assert (whole.shape, whole.sharding.spec) == ((1,), PartitionSpec())


PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
from specdec_jax import lm, partitioning, t5
from specdec_jax.training import optimizer, sharding, step
from tests.training.test_sharding import CONFIG

jax.config.update("jax_default_matmul_precision", "highest")
assert jax.device_count() == 4
rows = np.random.default_rng(0).integers(3, 100, (8, 6))
rows[3:, 4:] = 0
LM = lm.LMConfig(
  vocab_size=128, emb_dim=16, num_heads=4, head_dim=4, mlp_dim=32,
  num_layers=1, dropout_rate=0.1,
)
for model, name, microbatches, meshes in (
  (t5.T5Model(CONFIG), "adafactor", 2, [(2, 2)]),
  (t5.T5Model(CONFIG), "scaled_adam", 1, [(4, 1), (1, 4)]),
  (lm.LMModel(LM), "adamw", 1, [(2, 2)]),
):
  inputs = rows if model.config is CONFIG else np.zeros_like(rows)
  chosen = optimizer.OptimizerConfig(
    0.01, name, warmup_steps=0, decay_steps=0
  ).make(9)
  curves = []
  for data, model_axis in [(1, 1), *meshes]:
    mesh = partitioning.make_mesh(
      data=data, model=model_axis, devices=jax.devices()[: data * model_axis]
    )
    places = sharding.shardings(sharding.abstract_state(model, chosen, mesh))
    state = jax.device_put(step.init(model.init(jax.random.key(0)), chosen),
                           places)
    batch = jax.device_put((inputs, rows), partitioning.batch_sharding(mesh))
    train_step = step.make_train_step(
      model, chosen, microbatches=microbatches, shardings=places
    )
    curve = []
    for _ in range(4):
      state, metrics = train_step(state, *batch, jax.random.key(1))
      curve.append(float(metrics.loss))
    assert sharding.shardings(state) == places
    embedding = jax.tree.leaves(state.params)[-1]
    assert len(embedding.sharding.device_set) == data * model_axis
    assert train_step._cache_size() == 1
    curves.append(curve)
  print(name, curves)
  assert curves[0][-1] < curves[0][0]
  np.testing.assert_allclose(curves[1:], curves[:1] * len(meshes), rtol=2e-4)
"""


def test_the_loss_is_the_same_on_any_mesh():
  run = virtual_devices.run(PROGRAM, devices=4)
  assert run.returncode == 0, run.stdout + run.stderr
