"""Extended descriptions of Debian packages, cut into paragraphs."""

import re

from experiments.corpora.text import norm

PARAGRAPH, ITEM, VERBATIM = "p", "li", "v"
_BULLET = re.compile(r"\s*(?:[-*+\u2022\u00b7]|o(?=\s)|\d+[.)])\s+(.*)")


def parts(description: str) -> list[tuple[str, str]]:
  """Paragraphs, items of lists and verbatim lines, in order."""
  found = []
  current: list[str] = []
  kind = PARAGRAPH

  def end():
    if current:
      found.append((kind, norm(" ".join(current))))
    current.clear()

  for line in description.split("\n"):
    # Each line of the field is indented by one space.
    body = line[1:] if line[:1] == " " else line
    bullet = _BULLET.match(body)
    if body.strip() in (".", ""):
      end()
      kind = PARAGRAPH
    elif bullet:
      end()
      kind = ITEM
      current.append(bullet[1])
    elif body[:1] in (" ", "\t") and kind == PARAGRAPH:
      end()
      found.append((VERBATIM, norm(body)))
    else:
      if kind == ITEM and body[:1] not in (" ", "\t"):
        end()
        kind = PARAGRAPH
      current.append(body)
  end()
  return found


def plain(blocks: list[tuple[str, str]]) -> str:
  """One line of text, without what is verbatim."""
  return norm(
    " ".join(
      ("- " if kind == ITEM else "") + text
      for kind, text in blocks
      if kind != VERBATIM
    )
  )
