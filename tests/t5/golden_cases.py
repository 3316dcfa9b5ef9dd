"""The cases that T5X and Hugging Face computed; see tests/golden."""

import dataclasses
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax import t5

ARCHIVES = pathlib.Path(__file__).parent.parent / "golden"

T5X_1_0 = t5.T5Config(
  vocab_size=384,
  emb_dim=16,
  num_heads=4,
  num_encoder_layers=2,
  num_decoder_layers=3,
  head_dim=8,
  mlp_dim=32,
  dropout_rate=0.0,
)
T5X_1_1 = dataclasses.replace(
  T5X_1_0, mlp_activations=("gelu", "linear"), logits_via_embedding=False
)
T5X_SCALABLE = dataclasses.replace(T5X_1_1, relative_bias_per_layer=True)


@dataclasses.dataclass(frozen=True)
class Case:
  """A checkpoint, and what the library that wrote it computed.

  Attributes:
    name: What to load it by.
    path: The checkpoint, below the golden folder.
    outputs: The .npz file, likewise.
  """

  name: t5.T5Config | None
  path: str
  outputs: str

  def __str__(self):
    return self.path.replace("/", "-")


_T5X = {
  "t5_1_0_tiny": T5X_1_0,
  "t5_1_1_tiny": T5X_1_1,
  "scalable_t5_1_1_tiny_scan": T5X_SCALABLE,
}

CASES = [
  *(
    Case(None, f"huggingface/{name}{shards}", f"huggingface/{name}.npz")
    for name in ("t5_1_0", "t5_1_1")
    for shards in ("", "_sharded")
  ),
  *(
    Case(config, f"t5x/legacy/{name}/checkpoint_1000", f"t5x/{name}.npz")
    for name, config in _T5X.items()
  ),
  *(
    Case(_T5X[name], f"t5x/orbax/{name}/checkpoint_1000", f"t5x/{name}.npz")
    for name in ("t5_1_0_tiny", "t5_1_1_tiny")
  ),
]
"""Every checkpoint whose outputs are known in float32."""

# One checkpoint for each set of weights.
MODELS = [CASES[0], CASES[2], *CASES[4:7]]


@dataclasses.dataclass(frozen=True)
class Outputs:
  """What the original library computed.

  Attributes:
    inputs: int32[B, S].
    decoder_input_tokens: int32[B, T].
    encoded: float32[B, S, D].
    logits: float32[B, T, V].
    greedy: int32[B, 32], without the start token.
  """

  inputs: jax.Array
  decoder_input_tokens: jax.Array
  encoded: np.ndarray
  logits: np.ndarray
  greedy: np.ndarray

  @property
  def tolerance(self) -> float:
    """The agreement that is asked for in float32."""
    return 1e-5 * float(self.logits.std())


def read_outputs(golden: pathlib.Path, case: Case) -> Outputs:
  """Reads what the original library computed."""
  arrays = np.load(golden / case.outputs)
  if case.outputs.startswith("t5x"):
    inputs, decoder_inputs = "encoder_input_tokens", "decoder_input_tokens"
    greedy = arrays["greedy"]
  else:
    inputs, decoder_inputs = "input_ids", "decoder_input_ids"
    # Hugging Face returns the start token too.
    greedy = arrays["greedy"][:, 1:]
  return Outputs(
    jnp.asarray(arrays[inputs]),
    jnp.asarray(arrays[decoder_inputs]),
    arrays["encoded"],
    arrays["logits"],
    greedy,
  )


def random_params(model: t5.T5Model):
  """Parameters of no library, faster than `init`."""
  random = np.random.default_rng(0)
  return jax.tree.map(
    lambda leaf: jnp.asarray(random.standard_normal(leaf.shape, np.float32)),
    model.param_shapes(),
  )
