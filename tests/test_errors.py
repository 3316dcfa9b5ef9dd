"""Every wrong input is refused by name, with its value and what to do."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax import t5
from tests import toy

PAIR = toy.table_pair()
WIDER = toy.table_pair(7)
NGRAMS = toy.ngram_pair()
INPUTS = np.array([[1, 2], [3, 0]], np.int32)


def speculate(config=None, inputs=INPUTS, key=None, **changes):
  arguments = {**PAIR.models, **changes}
  return sd.speculative_generate(
    jax.random.key(0) if key is None else key,
    inputs,
    config=config or sd.SpeculativeConfig(max_new_tokens=4),
    **arguments,
  )


def verify(tokens=(1, 2), q=(1, 2, 5), p=(1, 3, 5), lengths=None, **options):
  return sd.verify(
    jax.random.key(0),
    jnp.zeros(tokens, jnp.int32),
    jnp.zeros(q),
    jnp.zeros(p),
    None if lengths is None else jnp.zeros(lengths, jnp.int32),
    **options,
  )


def config(**options):
  return toy.config(max_new_tokens=4, **options)


# What is done, the error, and what its message must say.
CONFIGURATION = {
  "a negative gamma": (
    lambda: config(gamma=-1),
    ["gamma is -1", "0 (no speculation) or positive"],
  ),
  "half a gamma": (lambda: config(gamma=2.5), ["gamma is 2.5", "integer"]),
  "gamma True": (lambda: config(gamma=True), ["gamma is True", "integer"]),
  "no token to emit": (
    lambda: toy.config(max_new_tokens=0),
    ["max_new_tokens is 0", "at least 1"],
  ),
  "a row without a token to emit": (
    lambda: toy.config(max_new_tokens=(3, 0)),
    ["max_new_tokens is 0", "every row", "at least 1"],
  ),
  "half a token to emit": (
    lambda: toy.config(max_new_tokens=2.5),
    ["max_new_tokens is 2.5", "one int"],
  ),
  "no budgets": (
    lambda: toy.config(max_new_tokens=()),
    ["max_new_tokens is ()", "one int, or one per row"],
  ),
  "a table of budgets": (
    lambda: toy.config(max_new_tokens=[[1, 2]]),
    ["max_new_tokens is [[1, 2]]", "one per row"],
  ),
  "a negative temperature": (
    lambda: config(temperature=-0.5),
    ["temperature is -0.5", "0 (greedy) or positive"],
  ),
  "a negative temperature of a row": (
    lambda: config(temperature=(1.0, -2.0)),
    ["temperature is -2.0", "0 (greedy) or positive"],
  ),
  "temperature NaN": (
    lambda: config(temperature=float("nan")),
    ["temperature is nan", "finite"],
  ),
  "temperature infinity": (
    lambda: config(temperature=(1.0, float("inf"))),
    ["temperature is inf", "finite"],
  ),
  "temperature in words": (
    lambda: config(temperature="hot"),
    ["temperature is 'hot'", "one float, or one per row"],
  ),
  "temperature None": (
    lambda: config(temperature=None),
    ["temperature is None", "one float"],
  ),
  "a negative top-k": (
    lambda: config(top_k=-1),
    ["top_k is -1", "0 (off) or positive"],
  ),
  "half a top-k": (lambda: config(top_k=2.5), ["top_k is 2.5", "integer"]),
  "top-p above 1": (lambda: config(top_p=1.5), ["top_p is 1.5", "[0, 1]"]),
  "top-p below 0": (lambda: config(top_p=-0.1), ["top_p is -0.1", "[0, 1]"]),
  "top-p NaN": (lambda: config(top_p=float("nan")), ["top_p is nan", "[0, 1]"]),
  "top-p in words": (
    lambda: config(top_p="most"),
    ["top_p is 'most'", "[0, 1]"],
  ),
  "sampling that is a number": (
    lambda: sd.SpeculativeConfig(sampling=0.5),
    ["sampling is 0.5", "SamplingConfig"],
  ),
  "an EOS below -1": (
    lambda: config(eos_id=-2),
    ["eos_id is -2", "-1 for none"],
  ),
  "half an EOS": (lambda: config(eos_id=1.5), ["eos_id is 1.5", "integer"]),
  "a negative pad": (lambda: config(pad_id=-1), ["pad_id is -1", "token id"]),
  "no decodes": (
    lambda: config(num_decodes=0),
    ["num_decodes is 0", "at least 1"],
  ),
  "a lenience above 1": (
    lambda: config(lenience=1.5),
    ["lenience is 1.5", "[0, 1]", "1 (exact) is off"],
  ),
  "a negative lenience": (
    lambda: config(lenience=-0.1),
    ["lenience is -0.1", "[0, 1]"],
  ),
  "lenience NaN": (
    lambda: config(lenience=float("nan")),
    ["lenience is nan", "[0, 1]"],
  ),
  "lenience False": (
    lambda: config(lenience=False),
    ["lenience is False", "[0, 1]", "changes the output's distribution"],
  ),
  "lenience of each row": (
    lambda: config(lenience=(1.0, 0.5)),
    ["lenience is (1.0, 0.5)", "[0, 1]"],
  ),
  "float16": (
    lambda: t5.T5Config(dtype="float16"),
    ["float16", "overflow", "'bfloat16'"],
  ),
  "float16 as a type": (
    lambda: t5.T5Config(dtype=jnp.float16),
    ["float16", "'float32'"],
  ),
  "float64": (lambda: t5.T5Config(dtype="float64"), ["float64", "'float32'"]),
  "a dtype that is none": (
    lambda: t5.T5Config(dtype="half-ish"),
    ["'half-ish'", "'bfloat16'"],
  ),
  "a T5 without layers": (
    lambda: t5.T5Config(num_decoder_layers=0),
    ["num_decoder_layers is 0", "positive"],
  ),
  "a T5 with an unknown activation": (
    lambda: t5.T5Config(mlp_activations=("swish",)),
    ["mlp_activations is ('swish',)", "('gelu', 'linear')"],
  ),
  "a T5 of no published size": (
    lambda: t5.get_config("t5_1_1_huge"),
    ["'t5_1_1_huge'", "t5_1_1_large"],
  ),
  "a drafter of no vocabulary": (
    lambda: sd.model_drafter(PAIR.draft, vocab_size=0),
    ["vocab_size is 0", "target's vocabulary size"],
  ),
  "an n-gram drafter of no vocabulary": (
    lambda: sd.ngram_drafter(0),
    ["vocab_size is 0", "target's vocabulary size"],
  ),
}


def count(texts=([2, 1],), vocab_size=5, **options):
  return sd.count_ngrams(texts, vocab_size=vocab_size, **options)


# What is counted, or drafted from.
TABLES = {
  "no text": (lambda: count([]), ["no token", "at least one text"]),
  "empty texts": (lambda: count([[], []]), ["no token", "at least one text"]),
  "a word that is not in the vocabulary": (
    lambda: count([[2, 1], [2, 5]]),
    ["sequences[1]", "token id 5", "0 to 4", "target's tokenizer"],
  ),
  "a word below it": (
    lambda: count([[2, -1]]),
    ["sequences[0]", "token id -1", "0 to 4"],
  ),
  "words that are no integers": (
    lambda: count([[2.0, 1.0]]),
    ["sequences[0]", "float64", "integers"],
  ),
  "a text where texts belong": (
    lambda: count([2, 1]),
    ["sequences[0]", "shape ()", "one text"],
  ),
  "a padded batch": (
    lambda: count(INPUTS),
    ["array of shape (2, 2)", "without padding"],
  ),
  "trigrams": (lambda: count(order=3), ["order is 3", "2 (bigrams)"]),
  "a discount above 1": (
    lambda: count(discount=1.5),
    ["discount is 1.5", "[0, 1]"],
  ),
  "a discount NaN": (
    lambda: count(discount=float("nan")),
    ["discount is nan", "[0, 1]"],
  ),
  "no follower": (
    lambda: count(max_followers=0),
    ["max_followers is 0", "at least 1"],
  ),
  "a table of no vocabulary": (
    lambda: count(vocab_size=0),
    ["vocab_size is 0", "at least 1"],
  ),
  "half a vocabulary": (
    lambda: count(vocab_size=2.5),
    ["vocab_size is 2.5", "integer"],
  ),
  "a start token beyond the vocabulary": (
    lambda: count(start_id=5),
    ["start_id is 5", "5 entries", "first decoder input"],
  ),
  "a table of another vocabulary": (
    lambda: speculate(
      drafter=sd.ngram_drafter(5), draft_params=count(vocab_size=7)
    ),
    ["7 words", "drafter 5", "target's vocabulary size"],
  ),
}

CALLS = {
  "inputs without a batch": (
    lambda: speculate(inputs=np.array([1, 2])),
    ["inputs have shape (2,)", "[batch, source length]"],
  ),
  "inputs of floats": (
    lambda: speculate(inputs=np.array([[1.0, 2.0]])),
    ["inputs have", "float64", "integers"],
  ),
  "inputs of floats on the device": (
    lambda: speculate(inputs=jnp.array([[1.0, 2.0]])),
    ["inputs have", "float32", "integers"],
  ),
  "an empty batch": (
    lambda: speculate(inputs=np.zeros((0, 3), int)),
    ["inputs have shape (0, 3)", "at least one row"],
  ),
  "inputs without a token": (
    lambda: speculate(inputs=np.zeros((3, 0), int)),
    ["inputs have shape (3, 0)", "one token"],
  ),
  "a word beyond the vocabulary": (
    lambda: speculate(inputs=np.array([[1, 5]])),
    ["token id 5", "0 to 4", "target's tokenizer"],
  ),
  "a negative word": (
    lambda: speculate(inputs=np.array([[1, -1]])),
    ["token id -1", "0 to 4", "target's tokenizer"],
  ),
  "a key of the old kind": (
    lambda: speculate(key=jax.random.PRNGKey(0)),
    ["key is", "jax.random.key(seed)"],
  ),
  "a seed for a key": (
    lambda: speculate(key=0),
    ["key is 0", "jax.random.key(seed)"],
  ),
  "keys for another batch": (
    lambda: speculate(key=jax.random.split(jax.random.key(0), 3)),
    ["key has shape (3,)", "one per row: (2,)"],
  ),
  "temperatures for another batch": (
    lambda: speculate(config(temperature=(1.0, 0.5, 0.0))),
    ["temperature has 3 entries", "batch of 2 rows"],
  ),
  "budgets for another batch": (
    lambda: speculate(toy.config(max_new_tokens=(1, 2, 3))),
    ["max_new_tokens has 3 entries", "batch of 2 rows"],
  ),
  "an EOS beyond the vocabulary": (
    lambda: speculate(config(eos_id=5)),
    ["eos_id is 5", "5 entries", "tokenizer"],
  ),
  "a pad beyond the vocabulary": (
    lambda: speculate(config(pad_id=9)),
    ["pad_id is 9", "5 entries", "tokenizer"],
  ),
  "vocabularies that differ": (
    lambda: speculate(
      drafter=sd.model_drafter(WIDER.draft),
      draft_params=WIDER.draft_params,
    ),
    ["7 entries", "target's 5", "vocab_size=5"],
  ),
  "an n-gram drafter of another vocabulary": (
    lambda: speculate(
      drafter=sd.ngram_drafter(7), draft_params=count(vocab_size=7)
    ),
    ["7 entries", "target's 5", "vocab_size=5"],
  ),
}

VERIFY = {
  "guesses without probabilities": (
    lambda: verify(tokens=(2,)),
    ["draft_tokens has shape (2,)", "[B, G]"],
  ),
  "a row of the target's too few": (
    lambda: verify(p=(1, 2, 5)),
    ["target_probs has shape (1, 2, 5)", "[1, 3, V]"],
  ),
  "a row of the draft's too many": (
    lambda: verify(q=(1, 3, 5)),
    ["draft_probs has shape (1, 3, 5)", "[1, 2, 5]"],
  ),
  "a draft of another width": (
    lambda: verify(q=(1, 2, 4)),
    ["draft_probs has shape (1, 2, 4)", "[1, 2, 5]"],
  ),
  "another batch of lengths": (
    lambda: verify(lengths=(2,)),
    ["draft_lengths has shape (2,)", "[1]"],
  ),
  "a lenience beyond 1": (
    lambda: verify(lenience=2.0),
    ["lenience is 2.0", "[0, 1]"],
  ),
  "another shape of what is near the best": (
    lambda: verify(near_best=jnp.ones((1, 3), bool)),
    ["near_best has shape (1, 3)", "[1, 2]"],
  ),
}

KINDS = {
  "no configuration": (
    lambda: speculate({"gamma": 3}),
    ["config is {'gamma': 3}", "SpeculativeConfig"],
  ),
  "sampling for the whole configuration": (
    lambda: speculate(sd.SamplingConfig()),
    ["config is SamplingConfig", "SpeculativeConfig"],
  ),
  "no drafter": (
    lambda: speculate(drafter=None),
    ["drafter is NoneType", "model_drafter(draft)", "gamma=0"],
  ),
  "a bare model for a drafter": (
    lambda: speculate(drafter=PAIR.draft),
    ["drafter is TableModel", "wrap", "model_drafter(draft)"],
  ),
  "a configuration for a target": (
    lambda: speculate(target=toy.T5_TARGET.config),
    ["target is T5Config", "DecoderModel"],
  ),
  "a drafter for a target": (
    lambda: speculate(target=sd.model_drafter(PAIR.draft)),
    ["target is ModelDrafter", "DecoderModel"],
  ),
  "a drafter of no model": (
    lambda: sd.model_drafter(toy.T5_DRAFT.config),
    ["model is T5Config", "DecoderModel"],
  ),
  "an n-gram drafter of a table": (
    lambda: sd.ngram_drafter(NGRAMS.draft_params),
    ["vocab_size is NgramTable", "target's vocabulary size"],
  ),
  "a table that is none to save": (
    lambda: sd.save_ngrams("table.npz", PAIR.draft_params),
    ["table is ArrayImpl", "NgramTable"],
  ),
}
NO_TABLES = {
  "a model's parameters for a table": (
    lambda: speculate(drafter=sd.ngram_drafter(5)),
    ["parameters are no NgramTable", "sd.count_ngrams", "draft_params"],
  ),
}


def _check(kind, wrong, parts):
  with pytest.raises(kind) as caught:
    wrong()
  message = str(caught.value)
  # The code's own words, not those of the check of signatures.
  assert type(caught.value) is kind
  for part in parts:
    assert part in message, message
  # A sentence, and no array spelled out.
  assert re.search(r"[.;]", message)
  assert len(message) < 400


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", CONFIGURATION | TABLES | CALLS | VERIFY)
def test_wrong_values(name):
  wrong, parts = (CONFIGURATION | TABLES | CALLS | VERIFY)[name]
  _check(ValueError, wrong, parts)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", KINDS | NO_TABLES)
def test_wrong_kinds(name):
  wrong, parts = (KINDS | NO_TABLES)[name]
  _check(TypeError, wrong, parts)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", [*CALLS, *KINDS])
def test_nothing_is_computed_before(name, monkeypatch):
  def compute(*_):
    raise AssertionError("a model was run")

  monkeypatch.setattr(toy.TableModel, "prefill", compute)
  with pytest.raises((ValueError, TypeError)):
    (CALLS | KINDS)[name][0]()


@pytest.mark.usefixtures("unchecked")
def test_the_baseline_refuses_the_same():
  with pytest.raises(ValueError, match="token id 9"):
    sd.autoregressive_generate(
      jax.random.key(0),
      np.array([[9, 0]]),
      model=PAIR.target,
      params=PAIR.target_params,
      config=sd.SpeculativeConfig(),
    )


def test_the_baseline_asks_for_no_drafter():
  output = speculate(
    dataclasses.replace(config(), gamma=0),
    inputs=jnp.asarray(INPUTS),
    drafter=None,
    draft_params=None,
  )
  assert output.tokens.shape == (2, 4)


def test_padding_alone_may_differ_if_said_so():
  # The draft is narrower, or wider: its laws are padded or cut.
  for draft in (toy.table_pair(4), WIDER):
    output = speculate(
      config(gamma=2),
      inputs=jnp.asarray(INPUTS),
      drafter=sd.model_drafter(draft.draft, vocab_size=5),
      draft_params=draft.draft_params,
    )
    assert np.all(output.tokens < 5)
