"""A target, a draft and the vocabulary that they share."""

import dataclasses
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import specdec_jax as sd
from experiments import checkpoint
from experiments.checks import check_integers
from experiments.paths import resolve
from specdec_jax import t5
from specdec_jax.array_typing import Array, Int, Key, Params
from specdec_jax.drafters import NgramModel
from specdec_jax.t5.vocabulary import (
  SentencePieceVocabulary,
  check_model_size,
  check_same_tokens,
)

TABLE = ".npz"
"""How the name of an n-gram table ends; folders hold models."""

_LONGEST_MATCH = 8
"""Longer matches count no more than one of this many tokens."""


@dataclasses.dataclass(frozen=True)
class PairConfig:
  """Where a pair lies.

  Attributes:
    name: What to call it in reports.
    target: The target's checkpoint, anything that `t5.load` or `lm.load`
      reads.
    draft: The draft's, or an n-gram table's file (.npz), which
      `experiments.count_ngrams` writes; None if there is none.
    vocabulary: The SentencePiece model; None for spiece.model in the target's
      folder, where Hugging Face keeps it.
    draft_vocabulary: The draft's own, to be checked against the target's;
      None for spiece.model in the draft's folder, if there is one.
    extra_ids: As in `SentencePieceVocabulary`.
    target_config: The target's published size, such as "t5_1_1_xxl", if the
      checkpoint itself does not tell its shape.
    draft_config: The draft's.
    dtype: What both models compute in, "float32" or "bfloat16".
    self_draft_layers: The target's decoder layers that are the draft
      (`t5.self_draft`), `(0, 1, 2)` for the exit after three; None if it is a
      model of its own.
    early_exit: After how many of its layers the target guesses, to go on with
      the same work (`sd.early_exit_drafter`); its guesses are those of
      `self_draft_layers` with as many. None for no exit.
    prompt_lookup: The shortest match that guesses are copied from, in tokens
      (`sd.prompt_lookup_drafter`); the draft, if there is one, guesses where
      nothing matches. None for no lookup.
    stops: After how many guesses the draft stops, unless it is sure of them
      (`sd.adaptive_drafter`); () for never before gamma.
    confidence: How sure, for the stops.
  """

  name: str
  target: str
  draft: str | None
  vocabulary: str | None = None
  draft_vocabulary: str | None = None
  extra_ids: int = 0
  target_config: str | None = None
  draft_config: str | None = None
  dtype: str = "float32"
  self_draft_layers: tuple[int, ...] | None = None
  early_exit: int | None = None
  prompt_lookup: int | None = None
  stops: tuple[int, ...] = ()
  confidence: float | None = None

  def __post_init__(self):
    if self.drafts_from_table and self.draft_config is not None:
      raise ValueError(
        f"PairConfig.draft_config is {self.draft_config!r}, but the draft"
        f" {self.draft} is an n-gram table, which has no size to tell; set it"
        " to None."
      )
    if self.self_draft_layers is not None:
      layers = tuple(self.self_draft_layers)
      object.__setattr__(self, "self_draft_layers", layers)
      if self.draft is not None:
        raise ValueError(
          f"PairConfig.self_draft_layers is {layers} and draft {self.draft!r};"
          " the target's layers are a draft themselves, so set one of the two"
          " to None."
        )
    if self.early_exit is not None:
      check_integers(1, **{"PairConfig.early_exit": self.early_exit})
      if self.has_draft or self.prompt_lookup is not None:
        raise ValueError(
          f"PairConfig.early_exit is {self.early_exit}, draft"
          f" {self.draft!r}, self_draft_layers {self.self_draft_layers} and"
          f" prompt_lookup {self.prompt_lookup}; an exit drafts alone, so set"
          " the others to None."
        )
    if self.prompt_lookup is not None:
      check_integers(1, **{"PairConfig.prompt_lookup": self.prompt_lookup})
    object.__setattr__(self, "stops", tuple(self.stops))
    if bool(self.stops) != (self.confidence is not None) or (
      self.stops and not self.has_draft
    ):
      raise ValueError(
        f"PairConfig.stops is {self.stops}, confidence {self.confidence} and"
        f" the draft {self.draft_name!r}; a draft that stops early needs both"
        " numbers, another one neither: stops=(), confidence=None."
      )

  @property
  def has_draft(self) -> bool:
    """Whether a model of its own, or a table, guesses."""
    return self.draft is not None or self.self_draft_layers is not None

  @property
  def has_drafter(self) -> bool:
    """Whether anything guesses; without it gamma must be 0."""
    others = (self.early_exit, self.prompt_lookup)
    return self.has_draft or any(each is not None for each in others)

  @property
  def draft_name(self) -> str | None:
    """What to call the draft in reports; None if there is none."""
    if self.early_exit is not None:
      return f"exit after {self.early_exit} layers of {self.target}"
    if self.self_draft_layers is not None:
      return f"layers {self.self_draft_layers} of {self.target}"
    return self.draft

  def check_only_draft(self, why: str) -> None:
    """Checks that all guesses are a draft's, or that there are none.

    Args:
      why: What is asked of the drafter, for the error.

    Raises:
      ValueError: If `early_exit` or `prompt_lookup` is set.
    """
    if self.early_exit is not None:
      raise ValueError(
        f"PairConfig.early_exit is {self.early_exit}, but {why}, and an exit"
        " has none of its own; set it to None, and self_draft_layers to"
        f" range({self.early_exit}), which guesses the same."
      )
    if self.prompt_lookup is not None:
      raise ValueError(
        f"PairConfig.prompt_lookup is {self.prompt_lookup}, but {why}, and"
        " copied guesses have none; set it to None."
      )

  @property
  def drafts_from_table(self) -> bool:
    """Whether the draft is an n-gram table, and no model."""
    return self.draft is not None and self.draft.endswith(TABLE)

  def load_vocabulary(self) -> SentencePieceVocabulary:
    """Reads the vocabulary, before any weights.

    Raises:
      FileNotFoundError: If it is not there.
      ValueError: If it is not T5's, or the draft has another.
    """

    def read(path):
      return SentencePieceVocabulary(path, extra_ids=self.extra_ids)

    vocabulary = read(
      resolve(self.vocabulary or _beside(self.target, "spiece.model"))
    )
    draft_path = self.draft_vocabulary
    if draft_path is None and self.draft is not None:
      path = _beside(self.draft, "spiece.model")
      draft_path = path if _is_file(resolve(path)) else None
    if draft_path is not None:
      check_same_tokens(vocabulary, read(resolve(draft_path)))
    return vocabulary

  def load(
    self,
    vocabulary: SentencePieceVocabulary | None = None,
    first: "Pair | None" = None,
  ) -> "Pair":
    """Reads the weights, and checks that all fits together.

    Args:
      vocabulary: What `load_vocabulary` returned; None to read it here.
      first: A pair with this target in memory, to share its weights; None to
        read them.

    Raises:
      FileNotFoundError: If something is not there.
      ValueError: If something does not fit; see also `checkpoint.load`.
    """
    vocabulary = vocabulary or self.load_vocabulary()
    if first is None:
      target, target_params = checkpoint.load(
        self.target, self.target_config, dtype=self.dtype
      )
      check_model_size(vocabulary, target.vocab_size, self.target)
      target_params = target.lay_out(target_params)
    else:
      target, target_params = first.target, first.target_params
    draft, draft_params = self._load_draft(vocabulary, target, target_params)
    return Pair(self, vocabulary, target, target_params, draft, draft_params)

  def _load_draft(
    self,
    vocabulary: SentencePieceVocabulary,
    target: Any,
    target_params: Params,
  ) -> tuple[sd.DecoderModel | None, Params]:
    """Returns the draft and its parameters, or None and None."""
    if self.early_exit is not None:
      sd.early_exit_drafter(target, layers=self.early_exit)  # It can be made.
    if self.self_draft_layers is not None:
      return t5.self_draft(target, target_params, self.self_draft_layers)
    if self.draft is None:
      return None, None
    if self.drafts_from_table:
      draft_params = _load_table(self.draft)
      draft = NgramModel(draft_params.vocab_size)
    else:
      draft, draft_params = checkpoint.load(
        self.draft, self.draft_config, dtype=self.dtype
      )
      if type(draft) is not type(target):
        raise ValueError(
          f"The target {self.target} is a {type(target).__name__}, the draft"
          f" {self.draft} a {type(draft).__name__}, which read their inputs in"
          " different ways; give two models of one kind."
        )
      self._check_encoder(target.config, draft.config)
      draft_params = draft.lay_out(draft_params)
    # What both have beyond the one vocabulary is padding.
    check_model_size(vocabulary, draft.vocab_size, self.draft)
    return draft, draft_params

  def _check_encoder(self, target: Any, draft: Any) -> None:
    width = getattr(draft, "encoded_dim", None)
    if width is not None and width != target.emb_dim:
      raise ValueError(
        f"The draft {self.draft} shares an encoder of emb_dim {width}, and the"
        f" target {self.target} has emb_dim {target.emb_dim}; give the target"
        " that the draft was distilled from."
      )


@dataclasses.dataclass(frozen=True)
class Pair:
  """A pair in memory.

  Attributes:
    config: Where it came from.
    vocabulary: What both models speak.
    target: The target.
    target_params: Its parameters, laid out for decoding.
    draft: The draft, which may be an `NgramModel`; None if there is none.
    draft_params: Its parameters; of an `NgramModel` its table.
  """

  config: PairConfig
  vocabulary: SentencePieceVocabulary
  target: sd.DecoderModel
  target_params: Params
  draft: sd.DecoderModel | None
  draft_params: Params

  @property
  def drafter(self) -> sd.Drafter | None:
    """What guesses for this target."""
    if self.config.early_exit is not None:
      target: Any = self.target  # Of layers, as `PairConfig.load` has checked.
      return sd.early_exit_drafter(target, layers=self.config.early_exit)
    size = self.target.vocab_size
    if self.draft is None:
      drafter = None
    elif self.config.confidence is None:
      drafter = sd.model_drafter(self.draft, vocab_size=size)
    else:
      drafter = sd.adaptive_drafter(
        self.draft,
        stops=self.config.stops,
        confidence=self.config.confidence,
        vocab_size=size,
      )
    if self.config.prompt_lookup is None:
      return drafter
    lookup = sd.prompt_lookup_drafter(
      size,
      min_ngram=self.config.prompt_lookup,
      max_ngram=max(self.config.prompt_lookup, _LONGEST_MATCH),
    )
    return lookup if drafter is None else sd.fallback_drafter(lookup, drafter)

  @property
  def drafter_params(self) -> Params:
    """The drafter's parameters."""
    if self.config.prompt_lookup is None or self.draft is None:
      return self.draft_params
    return None, self.draft_params

  def speculative(
    self,
    key: Key[Array, "B"],
    inputs: Int[Array, "B S"],
    config: sd.SpeculativeConfig,
  ) -> sd.GenerateOutput:
    """Decodes speculatively."""
    return sd.speculative_generate(
      key,
      inputs,
      target=self.target,
      target_params=self.target_params,
      drafter=self.drafter,
      draft_params=self.drafter_params,
      config=config,
    )

  def baseline(
    self,
    key: Key[Array, "B"],
    inputs: Int[Array, "B S"],
    config: sd.SpeculativeConfig,
  ) -> sd.GenerateOutput:
    """Decodes with the target alone."""
    return sd.autoregressive_generate(
      key,
      inputs,
      model=self.target,
      params=self.target_params,
      config=config,
    )

  def checksum(self) -> str:
    """A short name of the weights: changes when any of them does."""
    return weights_checksum((self.target_params, self.draft_params))


def weights_checksum(params: Params) -> str:
  """Returns a short name of weights, another one when any of them differs."""
  sums = [np.asarray(_sum_of_bits(each)) for each in jax.tree.leaves(params)]
  return f"{zlib.crc32(np.array(sums).tobytes()):08x}"


@jax.jit
def _sum_of_bits(x: Array) -> Array:
  kind = {4: jnp.uint32, 2: jnp.uint16}[x.dtype.itemsize]
  bits = jax.lax.bitcast_convert_type(x, kind).astype(jnp.uint32).ravel()
  # Odd factors by place: entries that change places are noticed as well. The
  # shift: so are changes of the highest bits, all the signs for one.
  mixed = bits * (jax.lax.iota(jnp.uint32, bits.size) * 2 + 1)
  return jnp.sum(mixed ^ (mixed >> 15), dtype=jnp.uint32)


def _load_table(path: str) -> sd.NgramTable:
  try:
    return sd.load_ngrams(resolve(path))
  except FileNotFoundError as error:
    raise FileNotFoundError(
      f"There is no n-gram table at {path}; python -m experiments.count_ngrams"
      " --gin_file=count_ngrams.gin makes unigram.npz and bigram.npz."
    ) from error


def _beside(folder: str, name: str) -> str:
  return f"{folder.rstrip('/')}/{name}"


def _is_file(path: str) -> bool:
  from etils import epath

  return epath.Path(path).is_file()
