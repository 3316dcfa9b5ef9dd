"""Manual pages (man macros of roff), cut into paragraphs."""

import re

from experiments.corpora.text import norm

HEADING = "SH"
_CHARACTERS = {
  "lq": "\u201c", "rq": "\u201d", "aq": "'", "dq": '"', "bu": "\u2022",
  "em": "\u2014", "en": "\u2013", "co": "\u00a9", "rs": "\\", "ti": "~",
  "ha": "^", "ga": "`", "oq": "\u2018", "cq": "\u2019", "Fo": "\u00ab",
  "Fc": "\u00bb", "Bq": "\u201e", "bq": "\u201a", ":a": "ä", ":o": "ö",
  ":u": "ü", ":A": "Ä", ":O": "Ö", ":U": "Ü", "ss": "ß", "hy": "-",
  "mi": "-", "->": "\u2192", "mu": "\u00d7", "de": "\u00b0", "at": "@",
  "sh": "#", "Do": "$", "ba": "|", "<=": "\u2264", ">=": "\u2265",
  "Aq": "'",
}  # fmt: skip
_COMMENT = re.compile(r'\\".*')
_DRAWING = re.compile(
  r"\\f(?:\(..|\[[^]]*\]|.)|\\s[-+]?\d|\\m(?:\[[^]]*\]|\(..|.)"
  r"|\\[hvkwlLoD]'[^']*'|\\n(?:\[[^]]*\]|\(..|.)"
)
_UNICODE = re.compile(r"\\\[u([0-9A-Fa-f]{4,5})\]")
_NAMED = re.compile(r"\\(?:\*?\((..)|\*?\[([^]]*)\])")
_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
_MACRO = re.compile(r"[.']\s*([A-Za-z]+)\s*(.*)")


def text(line: str) -> str:
  """A line without roff's escapes."""
  line = _COMMENT.sub("", line)
  line = _DRAWING.sub("", line)
  line = _UNICODE.sub(lambda match: chr(int(match[1], 16)), line)
  line = _NAMED.sub(
    lambda match: _CHARACTERS.get(match[1] or match[2], ""), line
  )
  for escape, plain in (("-", "-"), ("e", "\\"), (" ", " "), ("~", " ")):
    line = line.replace("\\" + escape, plain)
  line = line.replace("\\0", " ")
  line = re.sub(r"\\[&/,|^%:)cpdu]", "", line)
  return re.sub(r"\\\*?(.)", r"\1", line)


def blocks(page: str) -> list[tuple[str, str]]:
  """Headings and paragraphs with their macros; none if the page is mdoc."""
  if re.search(r"^\.Dd\b", page, re.M):
    return []
  reader = _Reader()
  for line in page.replace("\\\n", " ").split("\n"):
    if line[:1] in (".", "'") and not line.startswith("''"):
      macro = _MACRO.match(line)
      if macro:
        reader.macro(macro[1], _arguments(macro[2]))
    elif reader.filling and not line.startswith("\\h'"):
      reader.add(text(line))
  reader.end()
  return reader.found


def _arguments(rest: str) -> list[str]:
  found = _ARGUMENT.findall(_COMMENT.sub("", rest))
  return [quoted or bare for quoted, bare in found]


class _Reader:
  """Gathers text into paragraphs.

  Attributes:
    found: The paragraphs so far.
    filling: False inside tables and examples, which are left out.
  """

  def __init__(self):
    self.found = []
    self.filling = True
    self._lines = []
    self._tag = "PP"
    self._in_term = False  # The next line is a list's term: its own paragraph.

  def end(self):
    """Ends the paragraph."""
    paragraph = norm(" ".join(self._lines))
    if paragraph:
      self.found.append((self._tag, paragraph))
    self._lines = []

  def add(self, line: str):
    """Adds a line of text to the paragraph."""
    self._lines.append(line)
    if self._in_term:
      self.end()
      self._tag, self._in_term = "TPd", False

  def macro(self, name: str, arguments: list[str]):
    """Does what a macro says."""
    if name in ("nf", "EX", "TS", "Vb"):
      self.end()
      self.filling = False
    elif name in ("fi", "EE", "TE", "Ve"):
      self.filling = True
    elif not self.filling:
      return
    elif name in (HEADING, "SS"):
      self.end()
      self.found.append((name, norm(text(" ".join(arguments)))))
      self._tag, self._in_term = "PP", not arguments
    elif name in ("PP", "P", "LP", "sp", "HP", "RS", "RE"):
      self.end()
      self._tag = "PP"
    elif name in ("TP", "TQ"):
      self.end()
      self._tag, self._in_term = "TPt", True
    elif name == "IP":
      self.end()
      self._tag = "IP"
    elif name in ("B", "I", "R", "SM", "SB"):
      self.add(text(" ".join(arguments)))
    elif name in ("BR", "RB", "BI", "IB", "RI", "IR"):
      self.add(text("".join(arguments)))
    elif name == "URL" and len(arguments) > 1:
      self.add(text("".join(arguments[1:])))
