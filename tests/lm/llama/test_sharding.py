"""A pair over a mesh, by way of the host, is the pair on one device."""

from tests import virtual_devices
from tests.lm.llama import tiny

PROGRAM = """
import sys
import jax, numpy as np
import specdec_jax as sd
from specdec_jax import partitioning
from specdec_jax.drafters import ReplicatedDrafter
from specdec_jax.lm import llama
from tests.lm.llama import tiny

assert jax.device_count() == 4
pair = tiny.pair(prefill_chunk=4)
llama.save(sys.argv[1], pair.target, pair.target_params)
inputs = llama.pad_prompts(
  tiny.prompts((3, 1, 11, 6)), tiny.TARGET.config
)
config = sd.SpeculativeConfig(
  gamma=3, max_new_tokens=12, eos_id=-1, sampling=sd.SamplingConfig(0.0)
)

def generate(target, draft, inputs, drafter):
  return sd.speculative_generate(
    jax.random.key(0), inputs, target=pair.target, target_params=target,
    drafter=drafter, draft_params=draft, config=config,
  )

drafter = sd.model_drafter(pair.draft)
one = generate(pair.target_params, pair.draft_params, inputs, drafter)
assert 0 < one.stats.accepted.sum() < one.stats.examined.sum()
host = jax.devices()[3]
with jax.default_device(host):
  model, target = llama.load(None, sys.argv[1])
assert {each.device for each in jax.tree.leaves(target)} == {host}
# Keys have two heads: each is cut in two by four devices.
for data, parts in ((1, 4), (2, 2)):
  mesh = partitioning.make_mesh(data=data, model=parts)
  many = generate(
    jax.device_put(target, partitioning.param_shardings(mesh, model)),
    jax.device_put(
      pair.draft_params,
      partitioning.param_shardings(mesh, pair.draft, replicate=True),
    ),
    jax.device_put(inputs, partitioning.batch_sharding(mesh)),
    ReplicatedDrafter(drafter, mesh),
  )
  np.testing.assert_array_equal(many.tokens, one.tokens)
  jax.tree.map(np.testing.assert_array_equal, many.stats, one.stats)
"""


def test_decoding_over_four_devices_is_decoding_on_one(tmp_path):
  assert tiny.TARGET.config.num_key_value_heads == 2
  run = virtual_devices.run(
    PROGRAM,
    tmp_path / "saved",
    devices=4,
    JAX_DEFAULT_MATMUL_PRECISION="highest",
  )
  assert run.returncode == 0, run.stdout + run.stderr
