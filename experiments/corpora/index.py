"""What apt's index files say: sources, sections and descriptions."""

import bz2
import dataclasses
import glob
import gzip
import lzma
import re
import subprocess
from collections.abc import Iterator

from experiments.corpora.text import norm

# Reads what apt alone can, such as lz4.
_HELPER = "/usr/lib/apt/apt-helper"
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}

Descriptions = dict[tuple[str, str], tuple[str, str]]
"""Package and checksum to synopsis and extended description."""


@dataclasses.dataclass(frozen=True)
class Index:
  """The archive's packages.

  Attributes:
    sources: The source package of each package.
    sections: The archive's section of each package.
    english: The original descriptions.
    german: Their translations, by the same keys.
  """

  sources: dict[str, str]
  sections: dict[str, str]
  english: Descriptions
  german: Descriptions

  def source(self, package: str) -> str:
    """A package's source package."""
    return self.sources.get(package, package)


def load(work: str) -> Index:
  """Reads the index files that `fetch.fetch` left in `work`."""
  sources, sections = {}, {}
  for text in _read_all(work, "*_Packages*"):
    for stanza in stanzas(text):
      name = stanza["Package"]
      # Its version may follow the source's name, in parentheses.
      sources[name] = stanza.get("Source", name).split()[0]
      sections[name] = stanza.get("Section", "misc").split("/")[-1]
  return Index(
    sources, sections, _descriptions(work, "en"), _descriptions(work, "de")
  )


def base_source(name: str) -> str:
  """A source package without versions: gcc-12 and gcc-11 are one family."""
  base = re.sub(r"(?<=[a-z])[-.]?\d[\d.]*(?=$|-)", "", name)
  return re.sub(r"[-+.]+$", "", base) or name


def stanzas(text: str) -> Iterator[dict[str, str]]:
  """Yields the fields of each paragraph of a control file."""
  for block in text.split("\n\n"):
    fields, name = {}, None
    for line in block.split("\n"):
      if line[:1] in ("", " ", "\t"):
        if name:
          fields[name] += "\n" + line
      elif ":" in line:
        name, value = line.split(":", 1)
        fields[name] = value.strip()
    if fields:
      yield fields


def _descriptions(work: str, language: str) -> Descriptions:
  found = {}
  for text in _read_all(work, f"*Translation-{language}*"):
    for stanza in stanzas(text):
      value = stanza.get(f"Description-{language}")
      if value:
        synopsis, _, extended = value.partition("\n")
        key = stanza["Package"], stanza["Description-md5"]
        found[key] = norm(synopsis), extended
  return found


def _read_all(work: str, pattern: str) -> Iterator[str]:
  for path in sorted(glob.glob(f"{work}/apt/lists/{pattern}")):
    yield _read(path).decode("utf-8", "replace")


def _read(path: str) -> bytes:
  name = path.rpartition("/")[2]
  suffix = name[name.rfind(".") :] if "." in name else ""
  if suffix in _OPENERS:
    with _OPENERS[suffix](path, "rb") as file:
      return file.read()
  if suffix in (".lz4", ".zst", ".lzma"):
    command = [_HELPER, "cat-file", path]
    return subprocess.run(command, check=True, capture_output=True).stdout
  with open(path, "rb") as file:
    return file.read()
