"""Prompts of different lengths as one array."""

from collections.abc import Sequence

import numpy as np

from specdec_jax.array_typing import Int
from specdec_jax.lm.llama.config import LlamaConfig


def pad_prompts(
  prompts: Sequence[Sequence[int] | Int[np.ndarray, "_"]], config: LlamaConfig
) -> Int[np.ndarray, "B S"]:
  """Fills prompts up on their right, as `LlamaModel` reads them.

  Args:
    prompts: Token ids as the tokenizer wrote them, BOS included, without
      padding of its own.
    config: The model's, which has the pad id.

  Returns:
    int32[B, S].

  Raises:
    ValueError: If there is no prompt, one is empty or has ids that are not in
      the vocabulary, or its end cannot be told from padding.
  """
  pad_id = config.pad_id
  if not prompts:
    raise ValueError("prompts are empty; give at least one.")
  for row, prompt in enumerate(prompts):
    tokens = np.asarray(prompt)
    if tokens.ndim != 1 or not tokens.size or tokens.dtype.kind not in "iu":
      raise ValueError(
        f"prompts[{row}] has shape {tokens.shape} and dtype {tokens.dtype};"
        f" give token ids. An empty text is its BOS alone, [{pad_id}]."
      )
    if tokens.min() < 0 or tokens.max() >= config.vocab_size:
      raise ValueError(
        f"prompts[{row}] holds token ids {tokens.min()} to {tokens.max()}, and"
        f" the vocabulary has 0 to {config.vocab_size - 1}; encode it with the"
        " model's tokenizer."
      )
    if tokens.size > 1 and tokens[-1] == pad_id:
      raise ValueError(
        f"prompts[{row}] ends with {pad_id}, the pad id, from which its end"
        " cannot be told. Remove the padding; or, if the prompt ends so, give"
        " the model's config (dataclasses.replace) another pad_id, an id with"
        " which none does."
      )
  width = max(map(len, prompts))
  padded = np.full((len(prompts), width), pad_id, np.int32)
  for row, prompt in zip(padded, prompts, strict=True):
    row[: len(prompt)] = prompt
  return padded
