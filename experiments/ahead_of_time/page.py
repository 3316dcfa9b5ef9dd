"""The page of what was compiled for TPUs."""

from collections.abc import Iterable, Sequence
from typing import Any

from experiments import markdown
from experiments.ahead_of_time.chips import CHIPS, count
from experiments.paper.published import TABLES_2_AND_4, SpeedRow
from experiments.paper.table_4 import TASKS
from specdec_jax.t5 import get_config

Cell = dict[str, Any]

_KINDS = ("all-reduce", "all-gather", "collective-permute")


def make(cells: Sequence[Cell]) -> str:
  """Returns the page.

  Args:
    cells: The lines of cells.jsonl, in order.

  Raises:
    ValueError: If there is none.
  """
  if not cells:
    raise ValueError("There is no cell to show; compile a program first.")
  first = cells[0]
  parts = [
    f"# {first['target']} on TPUs, compiled ahead of time",
    "Nothing was run: each program, prefill and decoding loop in one, was"
    " compiled for a slice of TPUs that was not there, by libtpu"
    f" {', '.join(sorted({each['libtpu'] for each in cells}))}. Batch"
    f" {first['batch_size']}, {first['input_length']} tokens in,"
    f" {first['output_length']} out, {first['dtype']}, temperature"
    f" {first['temperature']:g}, γ = {_gamma(cells)}. The target is cut into as"
    f" many parts as there are chips; {_placement(first)}.",
    "## Memory",
    *_memory(cells),
    "## A turn of the decoding loop",
    *_loops([each for each in cells if each["loop"]]),
    "## What bandwidth alone would give",
    *_estimates([each for each in cells if each["fits"]]),
    "## The chips' figures",
    _figures(),
    markdown.made_by(cells),
  ]
  return "\n\n".join(parts) + "\n"


def _gamma(cells: Iterable[Cell]) -> int:
  return max(each["gamma"] for each in cells)


def _placement(cell: Cell) -> str:
  return (
    "each chip holds the draft whole"
    if cell["replicate_draft"]
    else "so is the draft"
  )


def _program(cell: Cell) -> str:
  return "plain" if cell["draft"] is None else f"with {cell['draft']}"


def _where(cell: Cell) -> tuple[str, str, str]:
  return cell["chip"], cell["topology"], _program(cell)


def _gigabytes(value: int | None) -> str:
  return markdown.number(None if value is None else value / 1e9, 2)


def _memory(cells: Sequence[Cell]) -> list[str]:
  rows = []
  for cell in cells:
    memory = cell["memory"] or {"arguments": cell["parameter_bytes"]}
    rows.append(
      (
        *_where(cell),
        *(
          _gigabytes(memory.get(name))
          for name in (
            "arguments",
            "outputs",
            "temporaries",
            "aliased",
            "code",
            "total",
          )
        ),
        _gigabytes(cell["hbm"]),
        "yes" if cell["fits"] else "no",
      )
    )
  errors: dict[str, list[str]] = {}
  for cell in cells:
    if cell["error"]:
      where = f"{cell['chip']} {cell['topology']}: {cell['error']}"
      errors.setdefault(where, []).append(_program(cell))
  return [
    "Of one chip, in GB (10⁹ bytes). Arguments are the weights; temporaries"
    " hold both caches. Aliased is what outputs share with arguments, which"
    " nothing here could: weights go in, tokens come out.",
    markdown.table(
      (
        "chip",
        "slice",
        "program",
        "arguments",
        "outputs",
        "temporaries",
        "aliased",
        "code",
        "total",
        "HBM",
        "fits",
      ),
      rows,
    ),
    *_smallest(cells),
    *(f"{where} ({', '.join(each)})" for where, each in errors.items()),
  ]


def _smallest(cells: Sequence[Cell]) -> list[str]:
  """A sentence per kind of chip: the smallest slice that holds everything."""
  found = []
  for chip in dict.fromkeys(each["chip"] for each in cells):
    of_chip = [each for each in cells if each["chip"] == chip]
    programs = list(dict.fromkeys(each["draft"] for each in of_chip))
    least = {}
    for cell in of_chip:
      if cell["fits"]:
        least.setdefault(cell["draft"], cell["topology"])
    if set(least) != set(programs):
      missing = [each or "plain" for each in programs if each not in least]
      found.append(f"{chip}: no slice tried holds {', '.join(missing)}.")
    else:
      largest = max(least.values(), key=count)
      found.append(
        f"{chip}: of the slices tried, the smallest that holds every program is"
        f" {largest}, {count(largest)}"
        f" {'chip' if count(largest) == 1 else 'chips'}."
      )
  return found


def _loops(cells: Sequence[Cell]) -> list[str]:
  rows = []
  for cell in cells:
    loop = cell["loop"]
    every = loop["collectives"]
    rows.append(
      (
        *_where(cell),
        *(str(every.get(kind, 0)) for kind in _KINDS),
        str(sum(n for kind, n in every.items() if kind not in _KINDS)),
        markdown.NOT_MEASURED
        if cell["draft"] is None
        else str(sum(loop["in_draft"].values())),
        *(
          _caches(cell, name)
          for name in ("updated", "copied", "fetched", "written_back")
        ),
      )
    )
  return [
    "How often each stands in the body of the compiled loop; a turn is a round,"
    " and in plain decoding a token. The draft's calls 2 to γ are a loop within"
    " it, which counts once. Cache arrays, keys or values of a layer, are given"
    " as target + draft, or together where both have arrays of the same sizes:"
    " updated in place by a scatter; copied as a whole, or made anew, which"
    " should not be; fetched from HBM to the chip's own memory ahead of their"
    " use, and written back from it.",
    markdown.table(
      (
        "chip",
        "slice",
        "program",
        *_KINDS,
        "others",
        "of them in the draft's calls",
        "caches updated",
        "copied",
        "fetched",
        "written back",
      ),
      rows,
    ),
  ]


def _caches(cell: Cell, name: str) -> str:
  counts = [str(each[name]) for each in cell["caches"].values()]
  return f"{counts[0]} together" if _alike(cell) else " + ".join(counts)


def _alike(cell: Cell) -> bool:
  """Whether the two models' caches cannot be told apart by their sizes."""
  if cell["draft"] is None:
    return False
  target, draft = (get_config(cell[each]) for each in ("target", "draft"))
  parts = 1 if cell["replicate_draft"] else cell["chips"]
  return (target.num_heads // cell["chips"], target.head_dim) == (
    draft.num_heads // parts,
    draft.head_dim,
  )


def _estimates(cells: Sequence[Cell]) -> list[str]:
  found = [
    "A call takes the time of its weights and caches at the chip's full"
    " bandwidth, or of its operations at its peak, whichever is longer; the"
    " speed-up is Theorem 3.8 with the verification's ratio in place of 1, at"
    " the paper's α. The paper's c, expected and empirical are of one TPU v4,"
    " Tables 2 and 4. Time between calls, collectives and all else are left"
    " out, so real ratios are larger, most of all those of short calls.",
  ]
  places: dict[tuple[str, str], list[tuple[Cell, dict[str, Any]]]] = {}
  for cell in cells:
    for each in cell["estimates"]:
      places.setdefault((cell["chip"], cell["topology"]), []).append(
        (cell, each)
      )
  for (chip, topology), lines in places.items():
    target_ms = lines[0][1]["target_ms"]
    chips = lines[0][0]["chips"]
    found += [
      f"{chip} {topology} ({chips} {'chip' if chips == 1 else 'chips'}): a"
      f" target call of one token takes {target_ms:.2f} ms.",
      markdown.table(
        (
          "task",
          "draft",
          "T",
          "γ",
          "α",
          "c, paper",
          "c",
          "verification",
          "expected, paper",
          "speed-up",
          "empirical, paper",
        ),
        [_estimate(*each) for each in lines],
      ),
    ]
  return found


def _estimate(cell: Cell, estimate: dict[str, Any]) -> tuple[str, ...]:
  row = published(cell["draft"], estimate)
  return (
    TASKS[estimate["task"]],
    cell["draft"],
    f"{estimate['temperature']:g}",
    str(estimate["gamma"]),
    f"{estimate['alpha']:.2f}",
    f"{row.cost_ratio:.2f}",
    f"{estimate['cost_ratio']:.3f}",
    f"{estimate['verification_ratio']:.3f}",
    f"{row.expected}x",
    f"{estimate['speedup']:.2f}x",
    f"{row.empirical}x",
  )


def published(draft: str, estimate: dict[str, Any]) -> SpeedRow:
  """Returns the paper's row that an estimate is of."""
  (row,) = (
    row
    for row in TABLES_2_AND_4
    if f"t5_1_1_{row.draft}" == draft
    and (row.task, row.temperature, row.gamma, row.alpha)
    == tuple(
      estimate[name] for name in ("task", "temperature", "gamma", "alpha")
    )
  )
  return row


def _figures() -> str:
  return markdown.table(
    ("chip", "HBM, GB", "bandwidth, GB/s", "bfloat16, TFLOP/s", "source"),
    [
      (
        chip.name,
        f"{chip.memory / 1e9:.1f}",
        f"{chip.bandwidth / 1e9:.0f}",
        f"{chip.operations / 1e12:.0f}",
        f"<{chip.source}>",
      )
      for chip in CHIPS.values()
    ],
  )
