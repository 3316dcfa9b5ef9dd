"""Tells English from German by their function words."""

from experiments.corpora.text import WORD


def _words(text: str) -> frozenset[str]:
  return frozenset(text.split())


ENGLISH = _words("""
the of and to is are be this that with for from you your it its as by on or not
can which when if have has been there their they these those one other some
more into than then only all any but about may should would could must do does
use used using following contains provides package files file how what where
who here out up between each such no we our his her she he him them my me
""")
GERMAN = _words("""
der das und ist sind ein eine einen einem einer eines mit für von zu zum zur den
dem des nicht auf sich wird werden kann können sie ihr ihre ihren ihrer es als
auch bei aus oder dass daß wenn wie nach im durch dieser diese dieses diesen
diesem über unter nur noch um sein hat haben wurde wurden sowie mehr alle aber
vor zwischen bis ohne ich wir er mich mir uns euch du dein mein kein keine soll
sollte muss müssen enthält paket dateien datei verwendet vom beim ins ob doch
dann da hier
""")


def count(text: str) -> tuple[int, int, int]:
  """How many words are English, how many German, and how many there are."""
  found = [word.lower() for word in WORD.findall(text)]
  return (
    sum(word in ENGLISH for word in found),
    sum(word in GERMAN for word in found),
    len(found),
  )
