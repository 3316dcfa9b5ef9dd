"""Whether two folders' tokenizers mean the same by each id.

Only that matters to speculation: prompts are encoded once, and the draft reads
and writes the target's ids. So vocabularies are compared, and neither how a
text is cut into tokens nor how a file is laid out.
"""

from typing import Any

from specdec_jax.t5.checkpoints.loading import existing_folder
from specdec_jax.t5.checkpoints.stored import damaged, read_json
from specdec_jax.t5.vocabulary import Tokens, check_same_tokens

_FAST = "tokenizer.json"
_SENTENCEPIECE = "tokenizer.model"


def check_same_tokenizer(target: Any, draft: Any) -> None:
  """Checks that a draft speaks its target's language; reads no weights.

  Args:
    target: The target's folder.
    draft: The draft's.

  Raises:
    FileNotFoundError: If there is no such folder.
    ValueError: If the tokenizers differ, naming both, or one is missing or
      cannot be read.
  """
  check_same_tokens(read_tokens(target), read_tokens(draft))


def read_tokens(folder: Any) -> Tokens:
  """Reads tokenizer.json, or tokenizer.model where there is none.

  Args:
    folder: A Hugging Face folder.

  Raises:
    FileNotFoundError: If there is no such folder.
    ValueError: If it has neither file, or one that is damaged.
  """
  folder = existing_folder(folder)
  if (folder / _FAST).exists():
    return _read_fast(folder / _FAST)
  if (folder / _SENTENCEPIECE).exists():
    return _read_sentencepiece(folder / _SENTENCEPIECE)
  raise ValueError(
    f"{folder} holds neither {_FAST} nor {_SENTENCEPIECE}, so nobody can tell"
    " whether target and draft share a tokenizer. Copy the file of the"
    " checkpoint's origin into it."
  )


def _read_fast(file: Any) -> Tokens:
  contents = read_json(file)
  try:
    ids = dict(contents["model"]["vocab"])
    for token in contents.get("added_tokens") or ():
      ids[token["content"]] = token["id"]
    pieces: list[str | None] = [None] * (max(ids.values()) + 1)
    for piece, i in ids.items():
      pieces[i] = piece
  except (KeyError, TypeError, ValueError) as error:
    raise damaged(
      file, ValueError(f"it has no vocabulary of tokens and ids ({error!r})")
    ) from error
  return Tokens(str(file), tuple(pieces))


def _read_sentencepiece(file: Any) -> Tokens:
  import sentencepiece

  try:
    model = sentencepiece.SentencePieceProcessor(model_proto=file.read_bytes())
  except RuntimeError as error:
    raise damaged(file, error) from error
  pieces = map(model.id_to_piece, range(model.get_piece_size()))
  return Tokens(str(file), tuple(pieces))
