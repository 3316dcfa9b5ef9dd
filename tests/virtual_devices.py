"""Programs for several devices: processes whose processor passes for many."""

import os
import pathlib
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).parent.parent


def run(
  program: str, *arguments: object, devices: int, **environment: str
) -> subprocess.CompletedProcess[str]:
  """Runs Python code in a process of its own, from the repository's root."""
  return subprocess.run(
    [sys.executable, "-c", program, *map(str, arguments)],
    cwd=REPOSITORY,
    env={
      **os.environ,
      "JAX_PLATFORMS": "cpu",
      "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"
      " --xla_backend_optimization_level=0",  # Compiles faster.
      "PYTHONPATH": str(REPOSITORY),
      **environment,
    },
    capture_output=True,
    text=True,
    check=False,
  )
