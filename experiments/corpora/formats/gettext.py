"""Compiled message catalogues (.mo)."""

import struct
from collections.abc import Iterator

_LITTLE_ENDIAN = b"\xde\x12\x04\x95"


def read(path: str) -> Iterator[tuple[str, str]]:
  """Yields each message and its translation; plural forms where there are."""
  with open(path, "rb") as file:
    data = file.read()
  order = "<" if data[:4] == _LITTLE_ENDIAN else ">"
  number, originals, translations = struct.unpack(order + "3I", data[8:20])

  def text(table, index):
    entry = data[table + 8 * index : table + 8 * index + 8]
    length, start = struct.unpack(order + "2I", entry)
    return data[start : start + length].decode("utf-8", "replace")

  for index in range(number):
    message = text(originals, index).split("\x04")[-1]  # After its context.
    translation = text(translations, index)
    yield message.split("\0")[-1], translation.split("\0")[-1]
