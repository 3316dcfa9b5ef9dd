"""Do the published sizes fit on TPUs, and are their programs sound?

    python -m experiments.compile_tpu --gin_file=compile_tpu.gin

compiles plain and speculative decoding, each as one whole program, for slices
of TPUs that need not be there; nothing is run, and no weight is made. Per chip
and program the smallest slice is sought that it fits on. Of each program that
was compiled, cells.jsonl says what memory a device needs, what moves between
devices in a turn of the decoding loop and whether the draft's calls wait for
any of it, and that no cache is copied; and beside the paper's Table 4, what
ratios and speed-up the chip's bandwidth alone would give. compile_tpu.md is the
same as a page. Needs the extra `tpu`, and an interrupted run goes on with what
is missing.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import jax

import specdec_jax as sd
from experiments import environment, gin_cli, memory
from experiments.ahead_of_time import chips as chip_table
from experiments.ahead_of_time import hlo, page, programs, roofline
from experiments.checks import check_integers
from experiments.decoding.random_pair import RandomModel, check_vocabularies
from experiments.paper.published import TABLES_2_AND_4
from experiments.progress import progress_bar
from experiments.records import Records
from specdec_jax import partitioning
from specdec_jax.t5.config import check_dtype

CELLS = "cells.jsonl"
PAGE = "compile_tpu.md"

_OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Ran out of memory", "out of memory")


def run(
  *,
  target: str,
  drafts: Sequence[str],
  chips: Sequence[str],
  output_dir: str,
  dtype: str = "bfloat16",
  gamma: int = 7,
  temperature: float = 0.0,
  batch_size: int = 1,
  input_length: int = 512,
  output_length: int = 128,
  replicate_draft: bool = True,
  least_chips: int = 1,
  resume: bool = True,
) -> list[dict[str, Any]]:
  """Compiles programs for slices of TPUs.

  Args:
    target: A published size, one of `t5.CONFIGS`.
    drafts: Published sizes; plain decoding comes first, then each of them.
    chips: Which kinds, of `ahead_of_time.chips.CHIPS`.
    output_dir: Where the results go. What is there already is not compiled
      again.
    dtype: What all compute in, and hold their matrices in.
    gamma: Guesses per round of the programs.
    temperature: What they decode at.
    batch_size: Inputs side by side.
    input_length: Tokens of every input.
    output_length: Tokens of every output.
    replicate_draft: Whether each chip holds the draft whole, instead of its
      part.
    least_chips: Slices of fewer chips are passed over.
    resume: Whether to go on from what is there; otherwise it is overwritten.

  Returns:
    The lines of cells.jsonl, those of earlier runs too, by chip, slice and
    size.

  Raises:
    ImportError: If libtpu is not installed.
    ValueError: If an argument cannot be, or `output_dir` holds cells of another
      run.
  """
  check_integers(
    1,
    gamma=gamma,
    batch_size=batch_size,
    input_length=input_length,
    output_length=output_length,
    least_chips=least_chips,
  )
  dtype = check_dtype(dtype)
  kinds = [chip_table.get_chip(each) for each in chips]
  large = RandomModel(target, dtype)
  small = {each: RandomModel(each, dtype) for each in drafts}
  for each in small.values():
    check_vocabularies(large, each)
  settings = {
    "target": target,
    "dtype": dtype,
    "gamma": gamma,
    "temperature": temperature,
    "batch_size": batch_size,
    "input_length": input_length,
    "output_length": output_length,
    "replicate_draft": replicate_draft,
  }
  versions = {
    "jax": jax.__version__,
    "libtpu": chip_table.check_compiler(),
  }
  cells = Records(
    output_dir,
    CELLS,
    settings | versions | {"code": environment.code_checksum()},
    resume=resume,
  )
  wanted = [
    (chip, name, draft)
    for chip in kinds
    for name, draft in ((None, None), *small.items())
  ]
  with progress_bar("programs", total=len(wanted)) as advance:
    for chip, name, draft in wanted:
      for topology in chip.slices:
        if chip_table.count(topology) < least_chips:
          continue
        cell = _find(cells.done, chip.name, topology, name)
        if cell is None:
          cell = _cell(
            chip,
            topology,
            large,
            name,
            draft,
            settings,
          )
          cell |= versions | {
            "command": environment.command(),
            "environment": environment.describe(dtype),
          }
          cells.append([cell])
        if cell["fits"]:
          break
      advance(1)
  lines = in_order(cells.done)
  path = cells.path.with_name(PAGE)
  path.write_text(page.make(lines), encoding="utf-8")
  print(path)
  return lines


def in_order(cells: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
  """Sorts cells by chip, by slice and by size, plain decoding first."""
  places = [
    (chip.name, topology)
    for chip in chip_table.CHIPS.values()
    for topology in chip.slices
  ]
  return sorted(
    cells,
    key=lambda cell: (
      places.index((cell["chip"], cell["topology"])),
      cell["parameter_bytes"],
    ),
  )


def _key(cell: dict[str, Any]) -> tuple[str, str, str | None]:
  return cell["chip"], cell["topology"], cell["draft"]


def _find(cells, chip: str, topology: str, draft: str | None):
  for each in cells:
    if _key(each) == (chip, topology, draft):
      return each
  return None


def _cell(
  chip: chip_table.Chip,
  topology: str,
  target: RandomModel,
  name: str | None,
  draft: RandomModel | None,
  settings: dict[str, Any],
) -> dict[str, Any]:
  """Compiles one program for one slice."""
  devices = chip_table.devices(chip, topology)
  mesh = partitioning.make_mesh(data=1, model=len(devices), devices=devices)
  replicate = settings["replicate_draft"]
  shape = {
    "batch_size": settings["batch_size"],
    "input_length": settings["input_length"],
  }
  config = sd.SpeculativeConfig(
    gamma=settings["gamma"] if draft is not None else 0,
    max_new_tokens=settings["output_length"],
    sampling=sd.SamplingConfig(settings["temperature"]),
  )
  length = config.width + config.gamma + 1
  cell = settings | {
    "chip": chip.name,
    "topology": topology,
    "chips": len(devices),
    "draft": name,
    "gamma": config.gamma,
    "cache_length": length,
    "hbm": chip.memory,
    "parameter_bytes": programs.argument_bytes(
      target, draft, mesh=mesh, replicate_draft=replicate
    ),
    "memory": None,
    "error": None,
    "loop": None,
    "caches": None,
    "seconds": None,
    "estimates": estimates(
      chip,
      target,
      draft,
      chips=len(devices),
      output_length=settings["output_length"],
      replicate_draft=replicate,
      **shape,
    ),
  }
  if cell["parameter_bytes"] > chip.memory:
    cell["error"] = "The parameters alone are more than the chip's memory."
    return cell | {"fits": False}
  before = time.perf_counter()
  lowered = programs.lower(
    target,
    draft,
    config=config,
    mesh=mesh,
    replicate_draft=replicate,
    **shape,
  )
  between = time.perf_counter()
  try:
    compiled = lowered.compile()
  except jax.errors.JaxRuntimeError as error:
    if not any(each in str(error) for each in _OUT_OF_MEMORY):
      raise
    cell["error"] = str(error).strip().partition("\n")[0]
    return cell | {"fits": False}
  cell["seconds"] = {
    "lower": between - before,
    "compile": time.perf_counter() - between,
  }
  cell["memory"] = memory.of_program(compiled)
  cell["fits"] = fits(cell["memory"], chip.memory)
  program = hlo.parse(compiled.as_text())
  body = hlo.decoding_loop(program)
  cell["loop"] = hlo.loop_collectives(program, body, "draft")._asdict()
  cell["caches"] = {
    which: _movement(program, body, model, length, shape, parts)
    for which, model, parts in (
      ("target", target, len(devices)),
      ("draft", draft, 1 if replicate else len(devices)),
    )
    if model is not None
  }
  return cell


def fits(needed: dict[str, int], available: int) -> bool:
  """Whether a program's memory is there.

  Args:
    needed: From `memory.of_program`.
    available: Bytes.
  """
  return needed["total"] <= available


def _movement(program, body, model, length, shape, parts) -> dict[str, int]:
  (layer,) = roofline.cache_of_a_layer(
    model, cache_length=length, **shape
  ).layers
  arrays = []
  for each in (layer.self_attention.key, layer.self_attention.value):
    sizes = list(each.shape)
    sizes[1] //= parts  # Heads.
    arrays.append(
      hlo.Array(
        _HLO_NAMES[each.dtype.name], tuple(sorted(x for x in sizes if x > 1))
      )
    )
  return hlo.cache_movement(program, body, arrays)._asdict()


_HLO_NAMES = {"bfloat16": "bf16", "float32": "f32"}


def estimates(
  chip: chip_table.Chip,
  target: RandomModel,
  draft: RandomModel | None,
  *,
  chips: int,
  batch_size: int,
  input_length: int,
  output_length: int,
  replicate_draft: bool,
) -> list[dict[str, Any]]:
  """Estimates the paper's rows of a pair, for alpha and gamma that it prints.

  Args:
    chip: What both run on.
    target: The target.
    draft: The draft; None for plain decoding, of which there is no row.
    chips: How many there are.
    batch_size: Inputs side by side.
    input_length: Tokens of an input.
    output_length: Tokens of an output.
    replicate_draft: Whether each chip holds the draft whole.

  Returns:
    A row each with a `roofline.Estimate`; none if the paper has no such pair.
  """
  if draft is None or target.size != "t5_1_1_xxl":
    return []
  return [
    {
      "task": row.task,
      "temperature": row.temperature,
      "gamma": row.gamma,
      "alpha": row.alpha,
    }
    | roofline.estimate(
      target,
      draft,
      chip,
      alpha=row.alpha,
      gamma=row.gamma,
      batch_size=batch_size,
      input_length=input_length,
      cache_length=output_length + row.gamma + 1,
      target_parts=chips,
      draft_parts=1 if replicate_draft else chips,
    )._asdict()
    for row in TABLES_2_AND_4
    if draft.size == f"t5_1_1_{row.draft}"
  ]


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
  """Runs the command line."""
  return gin_cli.main(run, name="compile_tpu", argv=argv)


if __name__ == "__main__":
  # Where libtpu is installed, JAX would look for the TPU itself.
  jax.config.update("jax_platforms", "cpu")
  main()
