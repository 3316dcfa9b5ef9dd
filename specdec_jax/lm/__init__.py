"""Decoder-only language models: network, the paper's sizes, weights; Llama."""

from specdec_jax.lm import llama
from specdec_jax.lm.checkpoints import load, save
from specdec_jax.lm.config import CONFIGS, LMConfig, get_config
from specdec_jax.lm.model import LMModel

__all__ = [
  "CONFIGS",
  "LMConfig",
  "LMModel",
  "get_config",
  "llama",
  "load",
  "save",
]
