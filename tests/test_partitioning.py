import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

from specdec_jax import lm, partitioning, t5
from tests import virtual_devices

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
  "llama": lm.llama.LlamaModel(
    lm.llama.LlamaConfig(
      vocab_size=16,
      emb_dim=8,
      num_heads=4,
      num_key_value_heads=2,
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
  if name == "llama":
    assert attention["key"]["kernel"].spec == PartitionSpec(None, "model")
  else:
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


@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_is_cut_or_lies_whole_on_each_device(name):
  model, mesh = CONFIGS[name], mesh_of(1, 2)
  assert partitioning.param_shardings(mesh, model) == placed(model, mesh)
  whole = partitioning.param_shardings(mesh, model, replicate=True)
  assert jax.tree.structure(whole) == jax.tree.structure(model.param_shapes())
  assert {each.spec for each in jax.tree.leaves(whole)} == {PartitionSpec()}
  # What cannot be cut can still lie whole.
  partitioning.param_shardings(mesh_of(1, 4), model, replicate=True)


PROGRAM = """
import jax, numpy as np
import specdec_jax as sd
from specdec_jax import partitioning, t5
from specdec_jax.drafters import ReplicatedDrafter

assert jax.device_count() == 8
config = t5.T5Config(
  vocab_size=64, emb_dim=16, num_heads=8, head_dim=4, mlp_dim=32,
  num_encoder_layers=1, num_decoder_layers=1,
  mlp_activations=("gelu", "linear"), logits_via_embedding=False,
)
model = t5.T5Model(config)
target = model.init(jax.random.key(0))
# A draft that is often right: the target with some noise.
draft = jax.tree.map(
  lambda x: x + 0.03 * jax.random.normal(jax.random.key(x.size), x.shape),
  target,
)
inputs = np.random.default_rng(0).integers(2, 64, (4, 7)).astype(np.int32)

def generate(target, draft, inputs, gamma, mesh=None):
  drafter = sd.model_drafter(model)
  if mesh is not None:
    drafter = ReplicatedDrafter(drafter, mesh)
  return sd.speculative_generate(
    jax.random.key(0), inputs, target=model, target_params=target,
    drafter=drafter, draft_params=draft,
    config=sd.SpeculativeConfig(gamma=gamma, max_new_tokens=12, eos_id=-1,
                                sampling=sd.SamplingConfig(0.0)),
  )

for gamma, layouts in ((0, [(1, 8, True)]), (3, [(1, 8, True), (2, 4, False)])):
  one = generate(target, draft, inputs, gamma)
  if gamma:
    assert 0 < one.stats.accepted.sum() < one.stats.examined.sum()
  for data, parts, replicate in layouts:
    mesh = partitioning.make_mesh(data=data, model=parts)
    many = generate(
      jax.device_put(target, partitioning.param_shardings(mesh, model)),
      jax.device_put(
        draft, partitioning.param_shardings(mesh, model, replicate=replicate)
      ),
      jax.device_put(inputs, partitioning.batch_sharding(mesh)),
      gamma,
      mesh if replicate else None,
    )
    np.testing.assert_array_equal(many.tokens, one.tokens)
    np.testing.assert_array_equal(many.lengths, one.lengths)
    jax.tree.map(np.testing.assert_array_equal, many.stats, one.stats)
    np.testing.assert_allclose(many.log_probs, one.log_probs, rtol=1e-4)
"""


def test_decoding_over_eight_devices_is_decoding_on_one():
  run = virtual_devices.run(
    PROGRAM, devices=8, JAX_DEFAULT_MATMUL_PRECISION="highest"
  )
  assert run.returncode == 0, run.stdout + run.stderr
