"""TPU chips: what they are made of, and the slices that they come in.

The figures are the maker's own, of one chip.
"""

import os
from typing import Any, NamedTuple


class Chip(NamedTuple):
  """A kind of chip.

  Attributes:
    name: What a topology's name begins with.
    memory: Bytes of its HBM.
    bandwidth: Bytes a second from it.
    operations: Floating-point operations a second, in bfloat16.
    slices: Topologies to try, the smallest first.
    source: Where the figures are printed.
    megacore: Whether its two cores are to be taken for one device, as they are
      where JAX runs on it.
  """

  name: str
  memory: int
  bandwidth: float
  operations: float
  slices: tuple[str, ...]
  source: str
  megacore: bool = False


CHIPS = {
  chip.name: chip
  for chip in (
    Chip(
      "v4",
      32 * 2**30,
      1200e9,
      275e12,
      ("1x1x1", "2x2x1"),
      "https://docs.cloud.google.com/tpu/docs/v4",
      megacore=True,
    ),
    Chip(
      "v5e",
      16 * 10**9,
      819e9,
      197e12,
      ("1x1", "2x2", "2x4"),
      "https://cloud.google.com/tpu/docs/v5e",
    ),
    Chip(
      "v5p",
      95 * 10**9,
      2765e9,
      459e12,
      ("1x1x1", "2x2x1"),
      "https://cloud.google.com/tpu/docs/v5p",
    ),
    Chip(
      "v6e",
      32 * 10**9,
      1638e9,
      918e12,
      ("1x1", "2x2", "2x4"),
      "https://docs.cloud.google.com/tpu/docs/v6e",
    ),
  )
}
"""Every chip by name."""


def get_chip(name: str) -> Chip:
  """Returns a chip.

  Raises:
    ValueError: If there is none of that name; names all there are.
  """
  if name not in CHIPS:
    raise ValueError(
      f"There is no chip named {name!r} here; there are {', '.join(CHIPS)}."
    )
  return CHIPS[name]


def count(topology: str) -> int:
  """Returns how many chips a topology has.

  Args:
    topology: Such as "2x2x1".

  Raises:
    ValueError: If it is not sizes with an x between them.
  """
  total = 1
  for each in topology.split("x"):
    if not each.isdigit() or int(each) < 1:
      raise ValueError(
        f"The topology {topology!r} is not of the form '2x2x1': positive sizes"
        " with an x between them."
      )
    total *= int(each)
  return total


def devices(chip: Chip, topology: str) -> list[Any]:
  """Returns the devices of a slice that need not be there.

  They can be compiled for, not run on. All chips are on one host.

  Args:
    chip: Of what kind.
    topology: How many of them, such as "2x2x1".

  Raises:
    ImportError: If libtpu, which compiles for TPUs, is not installed.
    ValueError: If there is no such slice.
  """
  # No virtual machine in a cloud has to say what TPU is here: there is none.
  os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
  check_compiler()
  from jax.experimental import topologies

  expected = count(topology)
  bounds = [int(each) for each in topology.split("x")]
  options: dict[str, Any] = {
    "chips_per_host_bounds": (*bounds, *[1] * (3 - len(bounds)))
  }
  if chip.megacore:
    options["chip_config_name"] = "megacore"
  try:
    found = topologies.get_topology_desc(
      platform="tpu", topology_name=f"{chip.name}:{topology}", **options
    ).devices
  except Exception as error:  # XlaRuntimeError, and others in older versions.
    raise ValueError(
      f"There is no slice {chip.name}:{topology}: {error}"
    ) from error
  if len(found) != expected:
    raise ValueError(
      f"{chip.name}:{topology} has {len(found)} devices where {expected} chips"
      " were expected; a chip must be one device."
    )
  return list(found)


def check_compiler() -> str:
  """Returns the version of libtpu.

  Raises:
    ImportError: If it is not installed.
  """
  import importlib.metadata

  try:
    return importlib.metadata.version("libtpu")
  except importlib.metadata.PackageNotFoundError as error:
    raise ImportError(
      "libtpu, which compiles for TPUs, is not installed; pip install"
      " 'specdec_jax[experiments,tpu]'. It needs no TPU."
    ) from error
