"""Words, normal forms and patterns that several steps share."""

import re
import unicodedata

_SPACES = re.compile(r"[\s\u00a0\u2007\u202f\u2009\u200a]+")
_INVISIBLE = dict.fromkeys(
  map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff\u200e\u200f")
)

WORD = re.compile(r"[^\W\d_]+(?:['\u2019\-][^\W\d_]+)*")
TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
# What a program fills in, markup that was not resolved, addresses.
PLACEHOLDER = re.compile(
  r"%(?:\d+\$)?[-+#0]*\d*(?:\.\d+)?l{0,2}[sdiufcxXgeqzp](?![a-z])"
  r"|%[({]\w+[)}]|%\d|%[A-Z]\b"
  r"|\$\{?\w+|\{\{|\}\}|\{[\w.:]*\}|\[\[|\]\]|@\w+@|\\[nt]|&\w+;"
  r"|\bhttps?://|www\.\w|<[a-zA-Z/]|###"
)


def norm(text: str) -> str:
  """Composes characters (NFC), drops invisible ones, and joins white space."""
  text = unicodedata.normalize("NFC", text).translate(_INVISIBLE)
  return _SPACES.sub(" ", text).strip()


def words(text: str) -> list[str]:
  """What white space separates."""
  return text.split()


def simplify(text: str) -> str:
  """Letters only, in lower case, digits as 0: equal for near duplicates."""
  return re.sub(r"\W+", "", re.sub(r"\d+", "0", text.lower()))
