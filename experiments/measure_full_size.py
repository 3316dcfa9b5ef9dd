"""How fast would the published sizes be? SYNTHETIC: without their weights.

    python -m experiments.measure_full_size --gin_file=measure_full_size.gin

Random weights of the real shapes, and guesses that are kept at a chosen rate:
the paper's alpha of each row of its Table 2, or any other. Everything else is
the real decoder (`decoding/synthetic.py`), timed against its own baseline as in
`measure_speed`, of whose lines speed.jsonl has the fields; "synthetic" is true,
and "alpha" the rate. An interrupted run goes on with the rows that are missing.
"""

import dataclasses
import logging
import os
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from rich.table import Table

import specdec_jax as sd
from experiments import compilation_cache, environment, gin_cli
from experiments.checks import check_integers
from experiments.decoding import synthetic
from experiments.decoding.batching import make_batches
from experiments.decoding.report import count_parameters
from experiments.decoding.speed import make_cell
from experiments.decoding.terminal import make_console
from experiments.decoding.timing import time_pair
from experiments.progress import progress_bar
from experiments.records import Records
from specdec_jax import t5

log = logging.getLogger(__name__)

CELLS = "speed.jsonl"
_PRESENT = ("draft", "alpha", "gamma", "batch_size")


@dataclasses.dataclass(frozen=True)
class Row:
  """What to time.

  Attributes:
    draft: The draft's size, such as "t5_1_1_small".
    alpha: How likely a guess is kept.
    gamma: Guesses per round.
  """

  draft: str
  alpha: float
  gamma: int


def run(
  *,
  target: str,
  rows: Sequence[Row],
  output_dir: str,
  batch_sizes: Sequence[int] = (1,),
  input_length: int = 64,
  new_tokens: int = 64,
  texts: int = 4,
  repeats: int = 3,
  dtype: str | None = None,
  seed: int = 0,
  resume: bool = True,
) -> list[dict[str, Any]]:
  """Times them.

  Args:
    target: The target's size, such as "t5_1_1_xl".
    rows: What to time with it.
    output_dir: Where the results go; rows that are there are not timed again.
    batch_sizes: Texts that are decoded side by side.
    input_length: Tokens of each text.
    new_tokens: Tokens of each output: none ends before.
    texts: How many to decode; batches of more are filled up.
    repeats: How often to time a row.
    dtype: What to compute in; None for float32 on a processor and bfloat16 on
      an accelerator.
    seed: Of weights and draws.
    resume: Whether to go on from what is there; otherwise it is overwritten.

  Returns:
    The lines.

  Raises:
    ValueError: If an argument cannot be, or the models do not fit into memory.
  """
  check_integers(
    1,
    input_length=input_length,
    new_tokens=new_tokens,
    texts=texts,
    repeats=repeats,
  )
  if not rows or not batch_sizes:
    raise ValueError("rows or batch_sizes is empty; give one or more.")
  if dtype is None:
    dtype = "float32" if jax.default_backend() == "cpu" else "bfloat16"
  for row in rows:
    _check_memory(target, row.draft, dtype)
  cells = Records(
    output_dir,
    CELLS,
    {
      "target": target,
      "input_length": input_length,
      "new_tokens": new_tokens,
      "texts": texts,
      "repeats": repeats,
      "dtype": dtype,
      "seed": seed,
      "code": environment.code_checksum(),
    },
    resume=resume,
  )
  wanted = [
    (row.draft, row.alpha, row.gamma, size)
    for row in rows
    for size in batch_sizes
  ]
  found = {tuple(each[name] for name in _PRESENT) for each in cells.done}
  missing = [each for each in wanted if each not in found]
  inputs = np.random.default_rng(seed).integers(
    4, t5.get_config(target).vocab_size, (texts, input_length)
  )
  pair = None
  with progress_bar(
    "rows",
    total=len(wanted) * (repeats + 1),
    done=(len(wanted) - len(missing)) * (repeats + 1),
  ) as advance:
    for draft, alpha, gamma, batch_size in missing:
      pair = synthetic.make_pair(
        _model(target, dtype),
        _model(draft, dtype),
        alpha=alpha,
        key=jax.random.key(seed),
        names=(target, draft),
        like=pair,
      )
      config = sd.SpeculativeConfig(
        gamma=gamma,
        max_new_tokens=new_tokens,
        eos_id=-1,
        sampling=sd.SamplingConfig(temperature=1.0),
      )
      timing = time_pair(
        pair,
        make_batches(
          inputs.tolist(),
          range(texts),
          batch_size=batch_size,
          length_multiple=input_length,
        ),
        config=config,
        seed=seed,
        repeats=repeats,
        on_progress=lambda: advance(1),
      )
      cell = make_cell(
        timing,
        pair=pair,
        draft=draft,
        task="random tokens",
        kinds=[""] * texts,
        config=config,
        batch_size=batch_size,
        seed=seed,
      )
      cells.append(
        [
          cell
          | {
            "synthetic": True,
            "alpha": alpha,
            "target": target,
            "target_parameters": count_parameters(pair.target_params["model"]),
            "draft_parameters": count_parameters(pair.draft_params["model"]),
          }
        ]
      )
  by_key = {tuple(each[name] for name in _PRESENT): each for each in cells.done}
  lines = [by_key[each] for each in wanted]
  _show(lines)
  return lines


def _model(name: str, dtype: str) -> t5.T5Model:
  return t5.T5Model(dataclasses.replace(t5.get_config(name), dtype=dtype))


def _check_memory(target: str, draft: str, dtype: str) -> None:
  """Checks that there is room for the weights, before any is made.

  Raises:
    ValueError: If there is not.
  """
  needed = sum(
    synthetic.size_in_bytes(_model(name, dtype)) for name in (target, draft)
  )
  free = _free_bytes()
  if free is not None and needed > free:
    raise ValueError(
      f"{target} and {draft} in {dtype} have {needed / 2**30:.1f} GiB of"
      f" weights, and {free / 2**30:.1f} GiB of memory are free. Take smaller"
      " sizes, dtype='bfloat16', or a larger machine."
    )


def _free_bytes() -> int | None:
  """Free memory of the device; None if it does not tell."""
  if jax.default_backend() == "cpu":
    try:
      return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
      return None
  stats = jax.devices()[0].memory_stats() or {}
  if "bytes_limit" not in stats:
    return None
  return stats["bytes_limit"] - stats.get("bytes_in_use", 0)


def _show(lines: list[dict[str, Any]]) -> None:
  console = make_console()
  first = lines[0]
  table = Table(
    title=f"SYNTHETIC: {first['target']} with random weights",
    box=None,
    padding=(0, 1, 0, 0),
  )
  for heading in (
    "draft",
    "alpha",
    "\u03b3",
    "batch",
    "c",
    "verification",
    "Theorem 3.8",
    "predicted",
    "speedup",
  ):
    table.add_column(heading, justify="right")
  for line in lines:
    speedup = line["speedup"]
    table.add_row(
      line["draft"],
      f"{line['alpha']:g}",
      str(line["gamma"]),
      str(line["batch_size"]),
      f"{line['cost_ratio']:.3f}",
      f"{line['verification_ratio']:.2f}",
      f"{line['theorem_3_8']:.2f}",
      f"{line['predicted']['median']:.2f}",
      f"{speedup['median']:.2f} ({speedup['min']:.2f} to {speedup['max']:.2f})",
    )
  console.print(table)
  console.print(environment.line(first["environment"]), style="dim")


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
  """Runs the command line."""
  return gin_cli.main(
    run, name="measure_full_size", configurables=(Row,), argv=argv
  )


if __name__ == "__main__":
  logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
  compilation_cache.enable()
  main()
