"""What the packages' copyright files say, as a table to check by hand."""

import glob
import os
import re

from experiments.corpora.formats import files
from experiments.corpora.index import stanzas
from experiments.corpora.text import norm

_DOCUMENTATION = re.compile(
  r"(?:^|[\s/])(?:docs?|help|helpcontent2|Documentation|po4?a?|man"
  r"|translations?)/\*?"
)
_PHRASES = re.compile(
  r"GNU (?:Free Documentation|Lesser General Public|General Public) License"
  r"(?:,? [Vv]ersion [\d.]+)?|GNU GPL, version \d"
  r"|Creative Commons [A-Za-z -]{5,40}"
)


def table(root: str) -> str:
  """A line per package: its licence, and those of its documentation.

  The licence is that of "Files: *"; where the file is free text, the names of
  licences that occur in it.
  """
  rows = []
  for folder in sorted(glob.glob(f"{root}/*")):
    package = os.path.basename(folder)
    path = _copyright_file(root, package)
    if os.path.isfile(path):
      rows.append(f"{package}\t{_licences(files.read(path))}")
    else:
      rows.append(f"{package}\t(no copyright file here)")
  return "\n".join(rows) + "\n"


def _copyright_file(root: str, package: str) -> str:
  folder = f"{root}/{package}/usr/share/doc/{package}"
  if os.path.islink(folder):  # To the documentation of a sister package.
    sister = os.readlink(folder)
    folder = f"{root}/{sister}/usr/share/doc/{sister}"
  return f"{folder}/copyright"


def _licences(text: str) -> str:
  whole, documentation = [], []
  for stanza in stanzas(text):
    if "Files" in stanza and "License" in stanza:
      licence = stanza["License"].split("\n")[0].strip()
      if "*" in stanza["Files"].split():
        whole.append(licence)
      elif _DOCUMENTATION.search(stanza["Files"]):
        documentation.append(licence)
  if not whole:
    whole = sorted(set(_PHRASES.findall(norm(text))))
  line = "; ".join(dict.fromkeys(whole))
  if documentation:
    line += "\tdocs: " + "; ".join(dict.fromkeys(documentation))
  return line
