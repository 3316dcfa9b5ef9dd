"""The algorithm on a pair of Llamas: nothing of it knows the difference."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.lm import llama
from specdec_jax.lm.llama import LlamaModel
from tests.lm import tiny as lm_tiny
from tests.lm.llama import tiny
from tests.test_recompilation import compilations

LENGTHS = (3, 1, 17, 6)
PROMPTS = tiny.prompts(LENGTHS)
INPUTS = llama.pad_prompts(PROMPTS, tiny.TARGET.config)
BUDGET = 9
KEYS = jax.random.split(jax.random.key(3), len(LENGTHS))
TEMPERATURES = (0.0, 1.0, 0.7, 1.5)
PAIR = tiny.pair(prefill_chunk=5)
GREEDY = {"temperature": 0.0, "max_new_tokens": 12, "eos_id": -1}


def _decode(rows=range(4), inputs=INPUTS, pair=PAIR, **options):
  rows = np.array(rows)
  return pair.speculative(
    inputs[rows],
    **{
      "key": KEYS[rows],
      "gamma": 3,
      "temperature": tuple(np.array(TEMPERATURES)[rows]),
      "max_new_tokens": BUDGET,
      "eos_id": 4,
      **options,
    },
  )


@pytest.fixture(scope="module")
def together():
  return _decode()


def _assert_rows(output, other, rows):
  """Equal in every field; a sum over another batch may round otherwise."""
  for field in dataclasses.fields(output):
    one = getattr(output, field.name)
    two = jax.tree.map(
      lambda x: np.asarray(x)[np.array(rows)], getattr(other, field.name)
    )
    if field.name == "log_probs":
      np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)
    else:
      jax.tree.map(np.testing.assert_array_equal, one, two)


def test_models_are_decoder_models():
  assert isinstance(tiny.TARGET, sd.DecoderModel)


def test_a_row_is_its_own_run(together):
  for row in range(4):
    _assert_rows(_decode([row]), together, [row])


def test_neither_order_nor_padding_nor_chunks_matter(together):
  _assert_rows(_decode([3, 1, 0, 2]), together, [3, 1, 0, 2])
  wider = np.pad(INPUTS, ((0, 0), (0, 6)), constant_values=tiny.BOS)
  _assert_rows(_decode(inputs=wider), together, range(4))
  _assert_rows(_decode(pair=tiny.pair()), together, range(4))
  # What was compared is not all the same, and some guesses were kept.
  assert len({tuple(row) for row in together.tokens.tolist()}) == 4
  histogram = np.sum(together.stats.accepted_histogram, axis=0)
  assert histogram[0] > 0
  assert np.any(histogram[1:] > 0)


@pytest.mark.parametrize("gamma", [1, 2, 4, 7])
def test_greedy_is_the_argmax_token_for_token(gamma):
  output = _decode(gamma=gamma, **GREEDY)
  baseline = PAIR.baseline(INPUTS, **GREEDY)
  np.testing.assert_array_equal(output.tokens, baseline.tokens)
  # The logits over what was written have their maxima there.
  tokens = np.asarray(output.tokens)
  read = llama.pad_prompts(
    [
      [*prompt, *new]
      for prompt, new in zip(PROMPTS, tokens.tolist(), strict=True)
    ],
    dataclasses.replace(tiny.TARGET.config, pad_id=0),
  )
  logits = lm_tiny.at(
    lm_tiny.decode(PAIR.target, PAIR.target_params, read),
    np.array(LENGTHS) - 1,
    12,
  )
  np.testing.assert_array_equal(np.argmax(logits, axis=-1), tokens)
  # Guesses were kept and rejected.
  assert 0 < sd.acceptance_rate(output.stats) < 1


def test_a_draft_that_is_the_target_is_always_right():
  budgets = (10, 11, 12, 13)
  output = _decode(
    pair=PAIR.same, max_new_tokens=budgets, temperature=1.0, eos_id=-1
  )
  np.testing.assert_array_equal(output.lengths, budgets)
  assert sd.acceptance_rate(output.stats) == 1
  np.testing.assert_array_equal(
    output.stats.target_calls, -(-np.array(budgets) // 4)
  )


def test_a_draft_of_another_shape_drafts_too():
  config = dataclasses.replace(
    tiny.TARGET.config,
    emb_dim=8,
    num_heads=2,
    num_key_value_heads=1,
    head_dim=4,
    vocab_size=44,
    logits_via_embedding=True,
    rope_scaling=None,
  )
  draft = LlamaModel(config, prefill_chunk=7)
  output = sd.speculative_generate(
    jax.random.key(0),
    INPUTS,
    target=PAIR.target,
    target_params=PAIR.target_params,
    drafter=sd.model_drafter(draft, vocab_size=tiny.VOCAB),
    draft_params=lm_tiny.params(draft, 7),
    config=sd.SpeculativeConfig(
      max_new_tokens=12, eos_id=-1, sampling=sd.SamplingConfig(0.0)
    ),
  )
  np.testing.assert_array_equal(
    output.tokens, PAIR.baseline(INPUTS, **GREEDY).tokens
  )


def test_copied_guesses_end_where_a_prompt_does():
  # The last token stands in front of the prompt's end, and nowhere else.
  prompt = [1, 9, 8, 7, 7]
  inputs = llama.pad_prompts([prompt, [1] * 9 + [3]], tiny.TARGET.config)
  prefill = jax.jit(LlamaModel.prefill, static_argnums=(0, 3))(
    PAIR.target, PAIR.target_params, inputs, 8
  )

  def num_guesses(**options):
    drafter = sd.prompt_lookup_drafter(tiny.VOCAB, **options)
    draft, _ = drafter.draft(
      None,
      sd.Context(
        jnp.pad(prefill.token[:, None], ((0, 0), (0, 7))),
        jnp.ones(2, jnp.int32),
        prefill.position,
      ),
      drafter.prefill(None, jnp.asarray(inputs), 8, prefill),
      KEYS[:2],
      sd.Sampler(jnp.ones(2), 0, 1.0, False),
      4,
    )
    return int(draft.lengths[0])

  assert num_guesses(pad_id=tiny.BOS) == 1
  assert num_guesses() == 4  # Padding, which no target writes.


def test_other_prompts_compile_nothing():
  key = jax.random.key(0)
  jax.block_until_ready(_decode(inputs=jnp.asarray(INPUTS), key=key))
  others = llama.pad_prompts(
    tiny.prompts((17, 2, 2, 9), seed=9), tiny.TARGET.config
  )
  others = jnp.asarray(others)
  pair = tiny.pair(prefill_chunk=5)  # Models that are made anew.
  with compilations() as found:
    jax.block_until_ready(
      pair.speculative(
        others,
        key=key,
        gamma=3,
        temperature=(1.0, 0.2, 0.0, 0.5),
        max_new_tokens=BUDGET,
        eos_id=4,
      )
    )
  assert found == []
