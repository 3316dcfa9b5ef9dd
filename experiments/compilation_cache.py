"""Compiled programs on disk, so that a script starts faster again."""

import os
import pathlib

import jax


def enable() -> None:
  """Lets JAX keep its compiled programs in the user's cache folder.

  That is $XDG_CACHE_HOME/specdec_jax, or ~/.cache/specdec_jax. The variable
  JAX_COMPILATION_CACHE_DIR names another folder, and
  JAX_ENABLE_COMPILATION_CACHE=false turns it off. The folder can be deleted
  at any time.
  """
  if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    jax.config.update(
      "jax_compilation_cache_dir", str(pathlib.Path(cache) / "specdec_jax")
    )
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
