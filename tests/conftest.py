import gc
import os
import pathlib

# Before JAX is imported: a developer's accelerator stays out of the tests,
# unless the caller names it.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Compiling takes most of the tests' time.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
# Tests leave nothing behind, and find nothing of an earlier run.
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

import jax
import jaxtyping
import pytest

jax.config.update("jax_default_matmul_precision", "highest")


@pytest.fixture
def unchecked():
  """Lets a bad input reach the code, whose own message is under test.

  Otherwise the check of the signature refuses it first.
  """
  before = jaxtyping.config.jaxtyping_disable
  jaxtyping.config.update("jaxtyping_disable", True)
  yield
  jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(autouse=True, scope="module")
def freed_programs():
  """Lets go of compiled programs before there are too many.

  They take memory mappings, of which Linux allows a process 65,530; XLA crashes
  where it gets no more.
  """
  yield
  mappings = pathlib.Path("/proc/self/maps")
  if mappings.exists() and mappings.read_bytes().count(b"\n") > 20_000:
    jax.clear_caches()
    gc.collect()
