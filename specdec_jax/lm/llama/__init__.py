"""Llama: network, published sizes, Hugging Face's weights.

A pair, as chats use it; the token ids are the models' tokenizer's:

    (target, target_params), (draft, draft_params) = llama.load_pair(
      "path/to/Llama-3.1-70B-Instruct",
      "path/to/Llama-3.1-8B-Instruct",
      dtype="bfloat16",
    )
    output = sd.speculative_generate(
      jax.random.key(0),
      llama.pad_prompts(token_ids, target.config),
      target=target,
      target_params=target_params,
      drafter=sd.model_drafter(draft),
      draft_params=draft_params,
      # <|eot_id|>, which ends a turn, and what fills the rows after it.
      config=sd.SpeculativeConfig(eos_id=128009, pad_id=128004),
    )
"""

from specdec_jax.lm.llama.checkpoints import load, load_pair, save
from specdec_jax.lm.llama.config import CONFIGS, LlamaConfig, get_config
from specdec_jax.lm.llama.model import LlamaModel
from specdec_jax.lm.llama.prompts import pad_prompts
from specdec_jax.lm.llama.rope import LinearScaling, Llama3Scaling
from specdec_jax.lm.llama.tokenizer import check_same_tokenizer

__all__ = [
  "CONFIGS",
  "LinearScaling",
  "Llama3Scaling",
  "LlamaConfig",
  "LlamaModel",
  "check_same_tokenizer",
  "get_config",
  "load",
  "load_pair",
  "pad_prompts",
  "save",
]
