"""Pages of manuals and what they say of themselves."""

import glob
import os
import re
from collections.abc import Iterator

from experiments.corpora.formats import files, markup, roff
from experiments.corpora.item import Item
from experiments.corpora.parallel import manuals
from experiments.corpora.quality import is_english
from experiments.corpora.text import norm, words

_NAME_LINE = re.compile(r"(.{1,200}?)\s[-\u2013\u2014]+\s+(.*)")
_MOST_WORDS = 500


def manual_pages(root: str) -> Iterator[Item]:
  """Yields the section DESCRIPTION and the line of the section NAME."""
  seen = set()
  for path in sorted(glob.glob(f"{root}/*/usr/share/man/man*/*.gz")):
    page = os.path.basename(path)
    if os.path.islink(path) or page in seen:
      continue
    seen.add(page)
    name, text = _name_and_description(files.read(path))
    line = _NAME_LINE.match(name)
    if (
      line
      and is_english(text, 40, _MOST_WORDS)
      and 3 <= len(words(line[2])) <= 24
    ):
      package = os.path.relpath(path, root).split("/")[0]
      yield Item(
        text, line[2], "man", f"man-{package}", page.removesuffix(".gz")
      )


def gnome_help(root: str) -> Iterator[Item]:
  """Yields pages of GNOME's help and their element <desc>."""
  pattern = f"{root}/gnome-user-docs/usr/share/help/C/*/*.page"
  for path in sorted(glob.glob(pattern)):
    blocks = markup.blocks(files.read(path))
    summary = next((text for tag, text in blocks if tag == "desc"), "")
    body = norm(" ".join(text for tag, text in blocks if tag != "desc"))
    if is_english(summary, 4, 40) and is_english(body, 40, 900):
      page = os.path.basename(path)
      yield Item(body, summary, "gnomehelp", "gnome-user-docs", page)


def libreoffice_help(root: str) -> Iterator[Item]:
  """Yields the rest of a page of LibreOffice's help and its first paragraph."""
  folder = manuals.libreoffice_folder(root)
  for path in sorted(glob.glob(f"{folder}/**/*.html", recursive=True)):
    blocks = manuals.libreoffice_blocks(path)
    while blocks and not blocks[0][0].startswith("hd_"):
      blocks.pop(0)
    if len(blocks) < 4 or not blocks[1][0].startswith("par"):
      continue
    (_, heading), (_, lead), *others = blocks
    body = norm(f"{heading}. " + " ".join(text for _, text in others))
    if (
      is_english(lead, 8, 140)
      and is_english(body, 60, 900)
      and lead.endswith(".")
    ):
      page = os.path.relpath(path, folder).removesuffix(".html")
      yield Item(body, lead, "helplead", "libreoffice", page)


def _name_and_description(page: str) -> tuple[str, str]:
  section, name, body = "", "", []
  for tag, text in roff.blocks(page):
    if tag == roff.HEADING:
      section = text.upper()
    elif section == "NAME" and not name:
      name = text
    elif section == "DESCRIPTION":
      body.append(text)
  return name, " ".join(words(norm(" ".join(body)))[:_MOST_WORDS])
