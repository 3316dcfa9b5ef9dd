"""What is lowered is what decodes, and the draft waits for nothing."""

from tests import virtual_devices

PROGRAM = """
import dataclasses
import jax, numpy as np
import specdec_jax as sd
from experiments.ahead_of_time import hlo, programs
from experiments.decoding.random_pair import RandomModel
from specdec_jax import partitioning, t5

assert jax.device_count() == 8
target = t5.T5Config(
  vocab_size=64, emb_dim=16, num_heads=8, head_dim=4, mlp_dim=32,
  num_encoder_layers=1, num_decoder_layers=1,
  mlp_activations=("gelu", "linear"), logits_via_embedding=False,
)
t5.CONFIGS["tiny"] = target
t5.CONFIGS["draft"] = dataclasses.replace(target, mlp_dim=16)
models = RandomModel("tiny", "float32"), RandomModel("draft", "float32")
mesh = partitioning.make_mesh(data=1, model=8)
# Laws are sampled: what is compared with the target's, which are cut.
config = sd.SpeculativeConfig(
  gamma=3, max_new_tokens=8, sampling=sd.SamplingConfig(1.0)
)
for replicate in (True, False):
  compiled = programs.lower(
    *models, config=config, mesh=mesh, batch_size=1, input_length=5,
    replicate_draft=replicate,
  ).compile()
  program = hlo.parse(compiled.as_text())
  loop = hlo.loop_collectives(program, hlo.decoding_loop(program), "draft")
  print(replicate, loop)
  # Three blocks of the target's layer, and the embedding.
  assert sum(loop.collectives.values()) >= 4
  assert bool(loop.in_draft) == (not replicate)
  assert bool(loop.in_inner_loops) == (not replicate)
  held = programs.argument_bytes(
    *models, mesh=mesh, replicate_draft=replicate
  )
  arguments = compiled.memory_analysis().argument_size_in_bytes
  # Beside the parameters there are the inputs, a key, and two numbers a row.
  assert held < arguments < held + 300, (held, arguments)
"""


def test_a_replicated_draft_needs_no_other_device():
  run = virtual_devices.run(PROGRAM, devices=8)
  assert run.returncode == 0, run.stdout + run.stderr
