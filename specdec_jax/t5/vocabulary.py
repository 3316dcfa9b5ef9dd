"""T5's vocabulary: a SentencePiece model, read as seqio reads it."""

import dataclasses
import functools
import struct
from collections.abc import Sequence
from typing import Any

PAD_ID = 0
EOS_ID = 1
UNK_ID = 2


@dataclasses.dataclass(frozen=True)
class Tokens:
  """What ids stand for, where nothing need be encoded.

  Attributes:
    path: The file that tells.
    pieces: All tokens in order of their ids; None where an id has none.
  """

  path: str
  pieces: tuple[str | None, ...]

  @property
  def vocab_size(self) -> int:
    """Number of ids; a model may have more, as padding."""
    return len(self.pieces)


class SentencePieceVocabulary:
  """Text to token ids and back.

  Attributes:
    path: Where the model lies.
    pad_id: 0, which fills rows and starts the decoder.
    eos_id: 1, which ends a text.
    unk_id: 2, which stands for what has no id.
  """

  pad_id = PAD_ID
  eos_id = EOS_ID
  unk_id = UNK_ID

  def __init__(self, path: Any, *, extra_ids: int = 0):
    """Reads a SentencePiece model.

    Args:
      path: A file, local or gs://.
      extra_ids: How many sentinels to add, as seqio does: `<extra_id_0>` has
        the last id. 100 in the vocabularies of the published T5 models whose
        inputs hold sentinels.

    Raises:
      FileNotFoundError: If there is no such file.
      ValueError: If it is no SentencePiece model, or its special ids are not
        T5's.
    """
    import sentencepiece
    from etils import epath

    self.path = str(path)
    file = epath.Path(path).expanduser()
    if not file.is_file():
      raise FileNotFoundError(
        f"There is no vocabulary at {path}; give the path of a SentencePiece"
        " model, such as sentencepiece.model or spiece.model."
      )
    if extra_ids < 0:
      raise ValueError(f"extra_ids is {extra_ids}; it must not be negative.")
    model = file.read_bytes() + _sentinels(extra_ids)
    try:
      self._tokenizer = sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
      raise ValueError(
        f"{path} ({file.stat().length} bytes) is no SentencePiece model; if"
        " it came by Git LFS, fetch its contents."
      ) from error
    found = (
      self._tokenizer.pad_id(),
      self._tokenizer.eos_id(),
      self._tokenizer.unk_id(),
    )
    if found != (PAD_ID, EOS_ID, UNK_ID):
      raise ValueError(
        f"The vocabulary {path} has pad, eos, unk at {found}; T5's are at"
        " (0, 1, 2). Train it with pad_id=0, eos_id=1, unk_id=2, bos_id=-1."
      )

  @property
  def vocab_size(self) -> int:
    """Number of ids, sentinels included; a model may have more, as padding."""
    return self._tokenizer.get_piece_size()

  def encode(self, text: str) -> list[int]:
    """Returns the ids of `text`, EOS included."""
    return [*self._tokenizer.encode(text), EOS_ID]

  def decode(self, ids: Sequence[int]) -> str:
    """Returns the text before the first EOS.

    Args:
      ids: Token ids; those beyond the vocabulary, a model's padding, decode
        as unknown, as in seqio.
    """
    ids = list(ids)
    if EOS_ID in ids:
      ids = ids[: ids.index(EOS_ID)]
    return self._tokenizer.decode([self._known(each) for each in ids])

  def token_text(self, token: int) -> str:
    """Returns one token as it looks inside a text, its space in front."""
    piece = self._tokenizer.id_to_piece(self._known(token))
    return piece.replace("\u2581", " ")

  @functools.cached_property
  def pieces(self) -> tuple[str, ...]:
    """All tokens in order of their ids."""
    return tuple(map(self._tokenizer.id_to_piece, range(self.vocab_size)))

  def _known(self, token: int) -> int:
    return int(token) if 0 <= token < self.vocab_size else UNK_ID


def check_model_size(
  vocabulary: SentencePieceVocabulary, model_size: int, model: Any
) -> None:
  """Checks that a model has an embedding for each id of a vocabulary.

  Args:
    vocabulary: What the texts are encoded with.
    model_size: The model's `vocab_size`, padding included.
    model: What to call the model in the error: its path.

  Raises:
    ValueError: If it has fewer.
  """
  if vocabulary.vocab_size > model_size:
    raise ValueError(
      f"The vocabulary {vocabulary.path} has {vocabulary.vocab_size} ids,"
      f" but the model {model} has embeddings for {model_size}. Use the"
      " vocabulary that the model was trained with."
    )


def check_same_tokens(
  target: SentencePieceVocabulary | Tokens,
  draft: SentencePieceVocabulary | Tokens,
) -> None:
  """Checks that target and draft mean the same by each id.

  Args:
    target: What the target's ids stand for.
    draft: What the draft's do.

  Raises:
    ValueError: If the two vocabularies differ.
  """
  if target.pieces == draft.pieces:
    return
  pairs = zip(target.pieces, draft.pieces, strict=False)
  first = next(
    (
      f" Id {i} is {one!r} in one and {other!r} in the other."
      for i, (one, other) in enumerate(pairs)
      if one != other
    ),
    "",
  )
  raise ValueError(
    "Target and draft have different tokenizers: the target's"
    f" {target.path} has {target.vocab_size} ids, the draft's"
    f" {draft.path} has {draft.vocab_size}.{first} Speculation needs one"
    " tokenizer for both; use a draft that was trained with the target's."
  )


def _sentinels(extra_ids: int) -> bytes:
  """Serialized pieces; a protocol buffer grows by appending to its bytes."""
  pieces = []
  for i in reversed(range(extra_ids)):
    text = f"\u2581<extra_id_{i}>".encode()
    piece = b"\x0a" + bytes([len(text)]) + text  # Field 1, the piece.
    piece += b"\x15" + struct.pack("<f", 0.0)  # Field 2, its score.
    piece += b"\x18\x04"  # Field 3, its type: user defined.
    pieces.append(b"\x0a" + bytes([len(piece)]) + piece)
  return b"".join(pieces)
