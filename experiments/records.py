"""JSON files that survive an interruption."""

import hashlib
import json
import os
import pathlib
from collections.abc import Iterable
from typing import Any

MANIFEST = "manifest.json"


def checksum(value: Any) -> str:
  """Returns a short name of anything that JSON can hold."""
  return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def write_json(path: pathlib.Path, value: Any) -> None:
  """Writes a JSON file, whole or not at all."""
  text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
  _write(path, text + "\n")


def write_json_lines(path: pathlib.Path, values: Iterable[Any]) -> None:
  """Writes a file of JSON lines, whole or not at all."""
  lines = (json.dumps(x, ensure_ascii=False, allow_nan=False) for x in values)
  _write(path, "".join(line + "\n" for line in lines))


def _write(path: pathlib.Path, text: str) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  unfinished = path.with_name(path.name + ".unfinished")
  unfinished.write_text(text, encoding="utf-8")
  os.replace(unfinished, path)


def differences(before: Any, after: Any) -> list[str]:
  """Returns what two manifests differ in, each as "name was X and is Y"."""
  found, wanted = _flatten(before), _flatten(after)
  return [
    f"{name} was {found.get(name)!r} and is {wanted.get(name)!r}"
    for name in {**found, **wanted}
    if found.get(name) != wanted.get(name)
  ]


class Records:
  """A file of JSON lines that grows as a run proceeds.

  Beside it lies a manifest of what determines the records. A run that was
  interrupted goes on from the file; a run that would write other records into
  it is refused.
  """

  def __init__(
    self,
    folder: str | os.PathLike,
    name: str,
    manifest: dict[str, Any],
    *,
    resume: bool = True,
  ):
    """Opens the file.

    Args:
      folder: The run's folder; made if it is not there.
      name: The file's name.
      manifest: All that the records depend on, as JSON.
      resume: Whether to keep the records that are there; otherwise they are
        overwritten.

    Raises:
      ValueError: If the records there are of another run, or damaged.
    """
    self.path = pathlib.Path(folder) / name
    manifest = json.loads(json.dumps(manifest))
    manifest_path = self.path.with_name(MANIFEST)
    lines = []
    if resume and manifest_path.exists():
      _check_same(manifest_path, manifest)
      if self.path.exists():
        lines = self.path.read_bytes().split(b"\n")[:-1]
    elif resume and self.path.exists():
      raise ValueError(
        f"{self.path} has no {MANIFEST} beside it that says what run it is"
        " of. Choose another output_dir, or set resume=False to overwrite."
      )
    else:
      # First the old records go: a manifest must never stand beside others'.
      self.path.unlink(missing_ok=True)
      write_json(manifest_path, manifest)
    self._lines = lines
    self.done = _parse(self.path, lines)
    self.keep(len(lines))

  def keep(self, count: int) -> None:
    """Drops all records but the first `count`, and any half-written one."""
    self._lines = self._lines[:count]
    self.done = self.done[:count]
    with open(self.path, "ab") as f:
      f.truncate(sum(len(line) + 1 for line in self._lines))

  def append(self, records: list[dict[str, Any]]) -> None:
    """Adds records and hands them to the disk."""
    lines = [
      json.dumps(each, ensure_ascii=False, allow_nan=False).encode()
      for each in records
    ]
    with open(self.path, "ab") as f:
      f.write(b"".join(line + b"\n" for line in lines))
      f.flush()
      os.fsync(f.fileno())
    self._lines += lines
    self.done += [json.loads(line) for line in lines]


def read_records(path: str | os.PathLike) -> list[dict[str, Any]]:
  """Returns the records of a file that `Records` wrote, or is writing.

  Raises:
    FileNotFoundError: If it is not there.
    ValueError: If a whole line is damaged.
  """
  path = pathlib.Path(path)
  # The last line may be half written: the run may go on.
  return _parse(path, path.read_bytes().split(b"\n")[:-1])


def _parse(path: pathlib.Path, lines: list[bytes]) -> list[dict[str, Any]]:
  records = []
  for i, line in enumerate(lines):
    try:
      records.append(json.loads(line))
    except ValueError as error:
      raise ValueError(
        f"{path}:{i + 1} is damaged ({error}). Delete the file from this line"
        " on, or set resume=False to start afresh."
      ) from error
  return records


def _check_same(path: pathlib.Path, manifest: dict[str, Any]) -> None:
  try:
    found = json.loads(path.read_text(encoding="utf-8"))
  except ValueError as error:
    raise ValueError(
      f"{path} is damaged ({error}). Choose another output_dir, or set"
      " resume=False to overwrite."
    ) from error
  if changes := differences(found, manifest):
    raise ValueError(
      f"{path.parent} holds records of another run: {'; '.join(changes)}."
      " Choose another output_dir, or set resume=False to overwrite."
    )


def _flatten(value: Any, prefix: str = "") -> dict[str, Any]:
  if not isinstance(value, dict):
    return {prefix: value}
  return {
    name: leaf
    for key, each in value.items()
    for name, leaf in _flatten(
      each, f"{prefix}.{key}" if prefix else key
    ).items()
  }
