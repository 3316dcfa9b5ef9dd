"""HTML, DocBook and Mallard, cut into the texts of their blocks."""

import html
import re
from html.parser import HTMLParser

from experiments.corpora.text import norm


def _names(text: str) -> frozenset[str]:
  return frozenset(text.split())


_BLOCKS = _names("""
p h1 h2 h3 h4 h5 h6 li dt dd td th caption pre blockquote div figcaption tr
table ul ol dl body section article para simpara title term listitem entry desc
item note tip sect1 sect2 sect3 sect4 chapter row page varlistentry
""")
_SKIPPED = _names("""
script style head nav header footer pre screen programlisting literallayout
synopsis svg math form select button bookinfo articleinfo credit mal:credit
revision date authorgroup legalnotice indexterm remark mediaobject screenshot
media code-block textobject keywordset license sourceinfo simplelist
cmdsynopsis
""")
_SKIPPED_CLASSES = _names("""
navheader navfooter toc docnav related sphinxsidebar footer headerlink
indexterm nav_table toc_uplink toc_header nav_header footnote-reference MAC
UNIX WIN WRITER CALC IMPRESS DRAW CHART MATH BASE colist contents-treeview
leftside rightside relatedtopics lang_header lang_footer programlisting screen
highlight
""")
# Of LibreOffice's help, whose blocks have ids.
_SKIPPED_CLASSES_BY_ID = _names("code codeintable smathcode related")
_EMPTY = _names("br img hr meta link input col area base wbr embed source")
_CODE = _names("pre programlisting screen")
# Keys pressed together, and the way through a menu.
_COMBINATIONS = _names("keycombo keyseq menuchoice guiseq")
_COMBINED = _names(
  "keycap keysym key guimenu guisubmenu guimenuitem guibutton guilabel gui"
)
# Entities of KDE's manuals, in English and German.
_ENTITIES = {
  "eg": ("e.g.", "z. B."),
  "ie": ("i.e.", "d. h."),
  "etc": ("etc.", "usw."),
  "kde": ("KDE", "KDE"),
  "kmymoney": ("KMyMoney", "KMyMoney"),
  "RMB": ("right mouse button", "rechte Maustaste"),
  "LMB": ("left mouse button", "linke Maustaste"),
  "MMB": ("middle mouse button", "mittlere Maustaste"),
}
_KEYS = {
  "Ctrl": ("Ctrl", "Strg"),
  "Shift": ("Shift", "Umschalt"),
  "Enter": ("Enter", "Eingabe"),
  "Esc": ("Esc", "Esc"),
  "Alt": ("Alt", "Alt"),
  "Tab": ("Tab", "Tab"),
  "Del": ("Del", "Entf"),
  "Space": ("Space", "Leertaste"),
}
_DOCTYPE = re.compile(r"<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>", re.S)
_ENTITY = re.compile(r"&(?!#|lt;|gt;|amp;|quot;|apos;)(\w+);")
_NUMBER = re.compile(
  r"^(?:(?:Chapter|Kapitel|Appendix|Anhang)\s+)?"
  r"(?:\d+(?:\.\d+)*\.?|[A-Z](?:\.\d+)+\.?|[A-Z]\.)\s+(?=\S)"
)


def blocks(
  text: str, by_id: bool = False, german: bool = False, application: str = ""
) -> list[tuple[str | None, str]]:
  """The texts of a page's blocks, in order.

  Args:
    text: The page.
    by_id: Whether to name blocks by their id, instead of their tag.
    german: Whether to name keys in German.
    application: What &kappname; stands for.

  Returns:
    Tag or id, and text; headings have lost their numbers.
  """

  def entity(match):
    name = match[1]
    if name in _KEYS:
      return f"<keycap>{_KEYS[name][german]}</keycap>"
    if name in _ENTITIES:
      return _ENTITIES[name][german]
    if name == "kappname":
      return application
    known = html.unescape(match[0])
    if known != match[0]:
      return known
    return name if name[0].isupper() else name.capitalize()

  parser = _Parser(by_id)
  parser.feed(_ENTITY.sub(entity, _DOCTYPE.sub("", text)))
  parser.close()
  parser.end_block()
  if by_id:
    return parser.found
  return [
    (tag, _NUMBER.sub("", block) if tag and tag[0] == "h" else block)
    for tag, block in parser.found
  ]


class _Parser(HTMLParser):
  """Gathers text into blocks.

  Attributes:
    found: The blocks so far.
  """

  def __init__(self, by_id: bool):
    super().__init__(convert_charrefs=True)
    self.found = []
    self._by_id = by_id
    self._texts = []
    self._tag = ""
    self._id = None
    # The element that is being skipped, and how deep it is nested in itself.
    self._skipped, self._depth = "", 0
    # Combinations that are open: what joins their parts, whether one is there.
    self._combinations = []

  def end_block(self):
    block = norm("".join(self._texts))
    self._texts = []
    if block:
      self.found.append((self._id if self._by_id else self._tag, block))

  def handle_starttag(self, tag, attrs):
    if self._skipped:
      self._depth += tag == self._skipped
      return
    if tag in _EMPTY:
      self._texts.append(" ")
      return
    attributes = dict(attrs)
    classes = set((attributes.get("class") or "").split())
    if (
      tag in _SKIPPED
      or classes & _SKIPPED_CLASSES
      or (self._by_id and classes & _SKIPPED_CLASSES_BY_ID)
    ):
      if tag in _BLOCKS | _CODE:
        self.end_block()
      self._skipped, self._depth = tag, 1
      return
    if tag in _COMBINATIONS:
      is_keys = tag.startswith("key")
      if self._combinations and is_keys:  # A menu entry's shortcut.
        self._texts.append(" ")
      self._combinations.append(["+" if is_keys else " > ", False])
    elif self._combinations and tag in _COMBINED:
      self._join()
    if tag in _BLOCKS:
      self.end_block()
      self._tag, self._id = tag, attributes.get("id")

  def handle_startendtag(self, tag, attrs):
    if not self._skipped and tag in _EMPTY:
      self._texts.append(" ")

  def handle_endtag(self, tag):
    if self._skipped:
      self._depth -= tag == self._skipped
      if not self._depth:
        self._skipped = ""
      return
    if tag in _COMBINATIONS:
      if self._combinations:
        self._combinations.pop()
      if self._combinations:
        self._texts.append(" ")
    if tag in _BLOCKS:
      self.end_block()
      self._id = None

  def handle_data(self, data):
    if self._skipped:
      return
    if self._combinations:  # White space between the keys.
      data = data.strip()
    self._texts.append(data)

  def _join(self):
    """Writes Ctrl+O and File > Open between adjacent elements."""
    innermost = self._combinations[-1]
    if innermost[1]:
      self._texts.append(innermost[0])
    innermost[1] = True
