"""Decoder-only language models: network, the paper's sizes, weights."""

from specdec_jax.lm.checkpoints import load, save
from specdec_jax.lm.config import CONFIGS, LMConfig, get_config
from specdec_jax.lm.model import LMModel
from specdec_jax.t5.self_draft import self_draft

__all__ = [
  "CONFIGS",
  "LMConfig",
  "LMModel",
  "get_config",
  "load",
  "save",
  "self_draft",
]
