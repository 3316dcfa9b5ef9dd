"""What memory a program takes, and whether something fits into it."""

from typing import Any

import jax

_GIB = 2**30


def of_program(compiled: Any) -> dict[str, int]:
  """Returns what a device needs for a compiled program, in bytes.

  `total` is what is held at once at most: arguments, outputs and temporaries,
  less what outputs share with arguments, and the program itself.
  """
  found = compiled.memory_analysis()
  parts = {
    "arguments": int(found.argument_size_in_bytes),
    "outputs": int(found.output_size_in_bytes),
    "temporaries": int(found.temp_size_in_bytes),
    "aliased": int(found.alias_size_in_bytes),
    "code": int(found.generated_code_size_in_bytes),
  }
  return parts | {"total": sum(parts.values()) - 2 * parts["aliased"]}


def available_bytes() -> int | None:
  """Returns what the first device has left; None if it does not tell.

  Of a processor that is the machine's memory as Linux counts it, of an
  accelerator its own.
  """
  if jax.default_backend() == "cpu":
    return _linux_available()
  stats = jax.devices()[0].memory_stats()
  if not stats or "bytes_limit" not in stats:
    return None
  return stats["bytes_limit"] - stats.get("bytes_in_use", 0)


def check(needed: int, what: str, fix: str) -> None:
  """Checks that there is enough; nothing, where nobody tells how much.

  Args:
    needed: Bytes.
    what: What needs them.
    fix: What to do if they are not there.

  Raises:
    MemoryError: If they are not there.
  """
  available = available_bytes()
  if available is not None and needed > available:
    raise MemoryError(
      f"{what} needs about {needed / _GIB:.1f} GiB, and the"
      f" {jax.default_backend()} has {available / _GIB:.1f} GiB left; {fix}."
    )


def _linux_available() -> int | None:
  try:
    with open("/proc/meminfo", encoding="ascii") as f:
      for line in f:
        if line.startswith("MemAvailable:"):
          return int(line.split()[1]) * 1024
  except OSError:
    pass
  return None
