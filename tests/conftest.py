import os

# Before JAX is imported: a developer's accelerator stays out of the tests,
# unless the caller names it.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Compiling takes most of the tests' time.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
# A script under test would turn the cache on for all tests after it, and XLA
# may crash as it loads a program that another test process wrote.
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
