"""Whether a pair looks like a translation, and a text like English prose."""

import collections
import re

from experiments.corpora import languages
from experiments.corpora.text import PLACEHOLDER, WORD, words

# A link or key whose text was lost with its markup.
_DANGLING = re.compile(
  r"\b(?:see|in|to|at|from|siehe|unter|zu|also|auch|and|und)\s+[.,)]"
  r"|\(\s*\)|\s[,.]\s[,.]",
  re.I,
)
_MARKUP = frozenset("<>{}|\\=_~^")
_LAST_LATIN = 0x24F


def reason_to_reject(
  source: str, target: str, min_words: int = 4, max_words: int = 220
) -> str | None:
  """None if English and German look like a pair, else a short reason."""
  return (
    _wrong_length(source, target, min_words, max_words)
    or _wrong_characters(source, target)
    or _wrong_ratio(source, target)
    or _wrong_language(source, target)
    or _untranslated(source, target)
  )


def is_english(text: str, least: int, most: int) -> bool:
  """Whether `text` is prose in English, of `least` to `most` words."""
  number = len(words(text))
  if not least <= number <= most or PLACEHOLDER.search(text):
    return False
  english, german, _ = languages.count(text)
  return _mostly_letters(text) and (
    number < 12 or (english > german and english >= number * 0.08)
  )


def _mostly_letters(text: str) -> bool:
  dense = text.replace(" ", "")
  return sum(each.isalpha() for each in dense) >= 0.75 * len(dense)


def _wrong_length(source, target, min_words, max_words) -> str | None:
  if len(words(source)) < min_words or len(words(target)) < 3:
    return "short"
  if len(words(source)) > max_words or len(words(target)) > max_words:
    return "long"
  return None


def _wrong_characters(source, target) -> str | None:
  if PLACEHOLDER.search(source) or PLACEHOLDER.search(target):
    return "placeholder"
  if _DANGLING.search(source) or _DANGLING.search(target):
    return "dangling"
  for text in (source, target):
    if not _mostly_letters(text):
      return "symbols"
    if sum(each in _MARKUP for each in text) > 2:
      return "markup"
  if any(ord(each) > _LAST_LATIN and each.isalpha() for each in target):
    return "script"
  return None


def _wrong_ratio(source, target) -> str | None:
  least, most = (0.5, 2.3) if len(source) < 40 else (0.6, 1.9)
  # Eight characters on both sides, for short texts vary more.
  ratio = (len(target) + 8) / (len(source) + 8)
  return None if least <= ratio <= most else "ratio"


def _wrong_language(source, target) -> str | None:
  english, german, number = languages.count(source)
  english_there, german_there, number_there = languages.count(target)
  if number < 3 or number_there < 2:
    return "symbols"
  if german > english or (number >= 8 and english == 0):
    return "source-language"
  if (
    english_there > german_there
    or (number_there >= 8 and german_there == 0)
    or (number_there >= 12 and german_there < 2)
  ):
    return "target-language"
  return None


def _untranslated(source, target) -> str | None:
  one, other = (
    collections.Counter(word.lower() for word in WORD.findall(text))
    for text in (source, target)
  )
  same = sum((one & other).values())
  return "untranslated" if same > 0.6 * sum(other.values()) else None
