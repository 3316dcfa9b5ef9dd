"""The baseline: one token per target call.

It is the speculative loop with nothing drafted, so it shares model, cache,
sampler, stop rule and compilation with what it is compared to, and a
speculative run with gamma = 0 is this very program.
"""

import dataclasses

import numpy as np

from specdec_jax.array_typing import Array, Int, Key, Params
from specdec_jax.base import DecoderModel, GenerateOutput
from specdec_jax.config import SpeculativeConfig
from specdec_jax.speculative import speculative_generate


def autoregressive_generate(
  key: Key[Array, ""] | Key[Array, "B"],
  inputs: Int[Array | np.ndarray, "B S"],
  *,
  model: DecoderModel,
  params: Params,
  config: SpeculativeConfig,
) -> GenerateOutput:
  """Decodes token by token.

  Args:
    key: As in `speculative_generate`.
    inputs: int32[B, S], padded with 0.
    model: The model to decode with.
    params: Its parameters.
    config: What to do; `gamma` is not read.

  Returns:
    Tokens, lengths, log probabilities and counters.

  Raises:
    ValueError: If sizes or the key do not fit together.
    TypeError: If an argument is of the wrong kind.
  """
  return speculative_generate(
    key,
    inputs,
    target=model,
    target_params=params,
    drafter=None,
    draft_params=None,
    config=dataclasses.replace(config, gamma=0),
  )
