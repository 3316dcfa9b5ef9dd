"""What a compiled program's text says of its decoding loop.

XLA prints a program as computations of instructions, one a line:

    %name = bf16[1,64,129,64]{3,1,2,0:T(8,128)S(3)} fusion(...), calls=%other

The braces hold the layout; S(n) is a memory other than HBM, on the chip.
"""

import collections
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

COLLECTIVES = (
  "all-reduce",
  "all-gather",
  "reduce-scatter",
  "collective-permute",
  "collective-broadcast",
  "all-to-all",
  "ragged-all-to-all",
)
"""What moves data between devices; TPUs start and finish it in two places."""

_HEADER = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\{$")
_NAME = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = ")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_CALLED = re.compile(
  r"\b(?:calls|to_apply|body|condition|true_computation|false_computation"
  r"|called_computation)=%?([\w.\-]+)"
  r"|\b(?:branch_computations|called_computations)=\{([^}]*)\}"
)
_BODY = re.compile(r"\bbody=%?([\w.\-]+)")
_SCOPE = re.compile(r'op_name="([^"]*)"')
_ARRAY = re.compile(r"([a-z]\w*)\[([\d,]*)\](\{[^}]*\})?")
_SPACE = re.compile(r"S\((\d+)\)")


class Array(NamedTuple):
  """An array, as far as it matters here.

  Attributes:
    dtype: XLA's name, such as "bf16".
    sizes: Its dimensions in ascending order, without those of size one: a
      reshaped or transposed array is the same.
    space: Where it lies; 0 is the device's main memory.
  """

  dtype: str
  sizes: tuple[int, ...]
  space: int = 0

  def same(self, other: "Array") -> bool:
    """Whether both hold the same numbers, wherever they lie."""
    return self[:2] == other[:2]


class Instruction(NamedTuple):
  """A line.

  Attributes:
    name: Its own.
    arrays: What it returns; a tuple's parts.
    opcode: What it does.
    operands: The names of what it reads.
    called: The computations that it runs.
    body: If it is a loop, the computation that it repeats.
    scope: Where in the Python program it comes from.
  """

  name: str
  arrays: tuple[Array, ...]
  opcode: str
  operands: tuple[str, ...]
  called: tuple[str, ...]
  body: str | None
  scope: str


class Program(NamedTuple):
  """A compiled program.

  Attributes:
    computations: By name.
    entry: The name of the first.
  """

  computations: dict[str, list[Instruction]]
  entry: str


class Loop(NamedTuple):
  """What happens in one turn of a loop.

  Attributes:
    collectives: How often each kind stands there; one within an inner loop
      counts once.
    in_inner_loops: Those of them that are within an inner loop.
    in_draft: Those of them that the draft's calls need.
  """

  collectives: dict[str, int]
  in_inner_loops: dict[str, int]
  in_draft: dict[str, int]


class Movement(NamedTuple):
  """How often whole caches are moved in one turn of a loop.

  Attributes:
    copied: Within one memory, or made anew: what must not be.
    fetched: From main memory to the chip's own, where it is read.
    written_back: The other way, after an update there.
    updated: Updates in place, by a scatter or a dynamic-update-slice.
  """

  copied: int
  fetched: int
  written_back: int
  updated: int


def parse(text: str) -> Program:
  """Reads what `compiled.as_text()` returns.

  Raises:
    ValueError: If there is no entry in it.
  """
  computations: dict[str, list[Instruction]] = {}
  entry, current = None, None
  for line in text.splitlines():
    if line[:1] not in ("", " ", "}"):
      header = _HEADER.match(line)
      if header and " -> " in line:
        current = computations.setdefault(header[2], [])
        entry = header[2] if header[1] else entry
    elif current is not None and (name := _NAME.match(line)):
      current.append(_instruction(name[1], line[name.end() :]))
  if entry is None:
    raise ValueError("The text has no ENTRY computation; give a compiled one.")
  return Program(computations, entry)


def decoding_loop(program: Program) -> str:
  """Returns the body of the loop with the most work in it.

  Among those that are within no other loop: XLA may write a small one for some
  operation.

  Raises:
    ValueError: If there is no loop.
  """
  bodies = [
    each.body
    for each in _walk(program, program.entry, into_loops=False)
    if each.body is not None
  ]
  if not bodies:
    raise ValueError("The program has no loop; decoding has one.")
  return max(bodies, key=lambda body: sum(1 for _ in _walk(program, body)))


def loop_collectives(program: Program, body: str, draft: str) -> Loop:
  """Counts what moves data between devices in a loop.

  Args:
    program: The program.
    body: From `decoding_loop`.
    draft: The name of the draft's scope (`jax.named_scope`).
  """
  everywhere = collections.Counter()
  outside = collections.Counter()
  in_draft = collections.Counter()
  for each in _walk(program, body):
    if kind := _collective(each.opcode):
      everywhere[kind] += 1
      if draft in each.scope.split("/"):
        in_draft[kind] += 1
  for each in _walk(program, body, into_loops=False):
    if kind := _collective(each.opcode):
      outside[kind] += 1
  return Loop(dict(everywhere), dict(everywhere - outside), dict(in_draft))


def cache_movement(
  program: Program, body: str, caches: Iterable[Array]
) -> Movement:
  """Counts how often a loop moves arrays of the caches' sizes.

  What happens within a fusion is no movement: only its result is written.

  Args:
    program: The program.
    body: From `decoding_loop`.
    caches: The self-attention caches, as they lie on one device.
  """
  wanted = {each[:2] for each in caches}
  counts = collections.Counter()
  for computation in _reached(program, body, into_fusions=False):
    lines = program.computations[computation]
    returned = {each.name: each.arrays for each in lines}
    for each in lines:
      if not any(array[:2] in wanted for array in each.arrays):
        continue
      if each.opcode in ("copy", "copy-start"):
        there = each.arrays[0].space
        here = returned[each.operands[0]][0].space
        if here == there:
          counts["copied"] += 1
        else:
          counts["fetched" if here == 0 else "written_back"] += 1
      elif each.opcode in ("fusion", "transpose", *_UPDATES):
        counts["updated" if _updates(program, each) else "copied"] += 1
  return Movement(*(counts[name] for name in Movement._fields))


def _updates(program: Program, instruction: Instruction) -> bool:
  """Whether a scatter or the like writes the result in place."""
  return instruction.opcode in _UPDATES or any(
    each.opcode in _UPDATES
    for name in instruction.called
    for each in _walk(program, name)
  )


_UPDATES = ("scatter", "dynamic-update-slice")


def _collective(opcode: str) -> str | None:
  kind = opcode.removesuffix("-start")
  return kind if kind in COLLECTIVES else None


def _reached(
  program: Program,
  first: str,
  into_loops: bool = True,
  into_fusions: bool = True,
) -> list[str]:
  """The computations that one runs, each once, itself included."""
  found, waiting = {first: None}, [first]
  while waiting:
    for each in program.computations[waiting.pop()]:
      if each.body is not None and not into_loops:
        continue
      if each.opcode == "fusion" and not into_fusions:
        continue
      for name in each.called:
        if name in program.computations and name not in found:
          found[name] = None
          waiting.append(name)
  return list(found)


def _walk(
  program: Program, first: str, into_loops: bool = True
) -> Iterator[Instruction]:
  for name in _reached(program, first, into_loops):
    yield from program.computations[name]


def _instruction(name: str, rest: str) -> Instruction:
  """Reads a line from its result's type on."""
  end = _end(rest) if rest.startswith("(") else rest.find(" ")
  opcode = _OPCODE.match(rest, end)
  arrays = tuple(map(_array, _ARRAY.finditer(rest[:end])))
  if opcode is None:
    return Instruction(name, arrays, "", (), (), None, "")
  inside = rest[opcode.end() - 1 :]
  operands = inside[: _end(inside)]
  after = inside[len(operands) :]
  called = []
  for match in _CALLED.finditer(after):
    called += re.findall(r"[\w.\-]+", match[1] or match[2])
  body = _BODY.search(after)
  scope = _SCOPE.search(after)
  return Instruction(
    name,
    arrays,
    opcode[1],
    tuple(re.findall(r"%([\w.\-]+)", operands)),
    tuple(called),
    body[1] if body and opcode[1] == "while" else None,
    scope[1] if scope else "",
  )


def _end(text: str) -> int:
  """Where the parenthesis that a text begins with is closed."""
  depth = 0
  for i, character in enumerate(text):
    depth += (character == "(") - (character == ")")
    if depth == 0:
      return i + 1
  return len(text)


def _array(match: re.Match) -> Array:
  sizes = (int(each) for each in match[2].split(",") if each)
  space = _SPACE.search(match[3] or "")
  return Array(
    match[1],
    tuple(sorted(each for each in sizes if each > 1)),
    int(space[1]) if space else 0,
  )
