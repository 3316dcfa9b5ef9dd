import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

from specdec_jax import lm, partitioning, t5

CONFIGS = {
  "t5": t5.T5Model(
    t5.T5Config(
      vocab_size=16,
      emb_dim=8,
      num_heads=2,
      head_dim=4,
      mlp_dim=16,
      num_encoder_layers=1,
      num_decoder_layers=1,
    )
  ),
  "lm": lm.LMModel(
    lm.LMConfig(
      vocab_size=16,
      emb_dim=8,
      num_heads=2,
      num_layers=1,
      head_dim=4,
      mlp_dim=16,
    )
  ),
}


def mesh_of(data, model):
  return AbstractMesh((data, model), ("data", "model"))


def placed(model, mesh):
  return partitioning.named_shardings(
    mesh, model.logical_axes(), model.param_shapes()
  )


@pytest.mark.parametrize("name", CONFIGS)
def test_each_parameter_has_a_place(name):
  model = CONFIGS[name]
  found = placed(model, mesh_of(2, 2))
  assert jax.tree.structure(found) == jax.tree.structure(model.param_shapes())
  attention = found["decoder"]["layers_0"]["self_attention"]
  assert attention["query"]["kernel"].spec == PartitionSpec(None, "model")
  assert attention["out"]["kernel"].spec == PartitionSpec("model", None)
  norm = found["decoder"]["decoder_norm"]["scale"]
  assert norm.spec == PartitionSpec(None)
  bias = found["decoder"]["relpos_bias"]["rel_embedding"]
  assert bias.spec == PartitionSpec("model", None)


def test_a_dimension_that_cannot_be_cut_is_named():
  with pytest.raises(
    ValueError, match=r"relpos_bias/rel_embedding has 2 of 'heads'.* 4 devices"
  ):
    placed(CONFIGS["lm"], mesh_of(1, 4))


def test_an_axis_without_a_rule_is_named():
  with pytest.raises(ValueError, match="logical axis 'depth'; there are batch"):
    partitioning.named_shardings(
      mesh_of(1, 1), {"w": PartitionSpec("depth")}, {"w": jnp.zeros(2)}
    )


def test_no_mesh_axis_is_used_twice():
  (found,) = partitioning.named_shardings(
    mesh_of(1, 2), [PartitionSpec("vocab", "mlp")], [jnp.zeros((4, 4))]
  )
  assert found.spec == PartitionSpec("model", None)


def test_a_mesh_of_all_devices():
  mesh = partitioning.make_mesh()
  assert mesh.shape == {"data": jax.device_count(), "model": 1}
  batch = jax.device_put(
    jnp.zeros((4 * jax.device_count(), 2)), partitioning.batch_sharding(mesh)
  )
  assert batch.addressable_shards[0].data.shape == (4, 2)


@pytest.mark.parametrize(
  "sizes", [{"model": 0}, {"model": 1000}, {"data": 0}, {"data": 999}]
)
def test_a_mesh_that_cannot_be(sizes):
  with pytest.raises(ValueError, match=r"A mesh of data=\d+ x model=\d+"):
    partitioning.make_mesh(**sizes)
