"""Random weights, and guesses that are kept at a chosen rate."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import specdec_jax as sd
from experiments import measure_full_size
from experiments.decoding import synthetic
from specdec_jax import t5

ALPHA, GAMMA = 0.7, 3
TINY = t5.T5Config(
  vocab_size=32,
  emb_dim=8,
  num_heads=1,
  num_encoder_layers=1,
  num_decoder_layers=1,
  head_dim=8,
  mlp_dim=16,
)


def config(new_tokens, gamma=GAMMA):
  return sd.SpeculativeConfig(
    gamma=gamma,
    max_new_tokens=new_tokens,
    eos_id=-1,
    sampling=sd.SamplingConfig(temperature=1.0),
  )


@pytest.fixture(scope="module")
def outputs():
  pair = synthetic.make_pair(
    t5.T5Model(TINY), t5.T5Model(TINY), alpha=ALPHA, key=jax.random.key(0)
  )
  # Room for sixteen full rounds: the first ones are cut by no budget.
  rows, tokens = 1024, 16 * (GAMMA + 1)
  keys = jax.random.split(jax.random.key(1), rows)
  inputs = np.ones((rows, 2), np.int32)
  return (
    pair.speculative(keys, inputs, config(tokens)),
    pair.baseline(keys, inputs, config(tokens)),
  )


def test_guesses_are_kept_at_the_rate(outputs):
  """Whole rounds are capped geometric (section 3.1), independent of others."""
  speculative, _ = outputs
  stats = jax.device_get(speculative.stats)
  kept = stats.accepted_histogram.sum(axis=0)
  wanted = ALPHA ** np.arange(GAMMA + 1)
  wanted[:-1] *= 1 - ALPHA
  # A row's last round may be cut, so it may only be shorter.
  rounds = kept.sum()
  assert len(stats.accepted) == 1024
  error = np.sqrt(wanted * (1 - wanted) / rounds)
  cut = len(stats.accepted) / rounds
  assert np.all(np.abs(kept / rounds - wanted) < 5 * error + cut)
  assert sd.acceptance_rate(stats) == pytest.approx(ALPHA, abs=0.01)


def test_the_law_is_the_targets(outputs):
  """The rule is the real one, so speculation is exact here too."""
  counts = []
  for output in outputs:
    tokens = np.asarray(output.tokens)
    assert set(np.unique(tokens)) == {synthetic.GUESS, synthetic.OTHER}
    assert np.all(np.asarray(output.lengths) == tokens.shape[1])
    counts.append(np.sum(tokens == synthetic.GUESS))
  number = tokens.size
  for count in counts:
    assert scipy.stats.binomtest(count, number, ALPHA).pvalue > 1e-4


def test_the_models_are_not_left_out():
  """What is said depends on what was computed, so it cannot be dropped."""
  model = synthetic.SyntheticModel(t5.T5Model(TINY))
  params = synthetic.random_params(model.model, jax.random.key(0))
  broken = jax.tree.map(lambda x: x * np.nan, params)
  for each, is_finite in ((params, True), (broken, False)):
    each = model.with_law(each, ALPHA)
    start = model.prefill(each, jnp.ones((1, 2), jnp.int32), 4)
    logits, _ = model.extend(
      each, start.token[:, None], start.position, start.cache
    )
    assert np.all(np.isfinite(logits)) == is_finite


def test_weights_are_held_as_loaded_ones_are():
  model = t5.T5Model(dataclasses.replace(TINY, dtype="bfloat16"))
  params = synthetic.random_params(model, jax.random.key(0))
  assert params["token_embedder"]["embedding"].dtype == "bfloat16"
  assert params["encoder"]["encoder_norm"]["scale"].dtype == "float32"
  leaves = jax.tree.leaves(params)
  assert synthetic.size_in_bytes(model) == sum(each.nbytes for each in leaves)


def test_bad_input_is_named():
  model = t5.T5Model(TINY)
  for alpha in (0.0, 1.1):
    with pytest.raises(ValueError, match=f"alpha is {alpha}"):
      synthetic.make_pair(model, model, alpha=alpha, key=jax.random.key(0))
  other = t5.T5Model(dataclasses.replace(TINY, vocab_size=64))
  with pytest.raises(ValueError, match="sizes of one family"):
    synthetic.make_pair(model, other, alpha=0.5, key=jax.random.key(0))


def test_sizes_are_measured_and_go_on(tmp_path, monkeypatch):
  monkeypatch.setitem(t5.CONFIGS, "tiny", TINY)
  options = {
    "target": "tiny",
    "output_dir": str(tmp_path),
    "input_length": 8,
    "new_tokens": 8,
    "texts": 2,
    "repeats": 1,
  }
  rows = [measure_full_size.Row("tiny", alpha, GAMMA) for alpha in (0.5, 1.0)]
  lines = measure_full_size.run(rows=rows, **options)
  assert [line["alpha"] for line in lines] == [0.5, 1.0]
  for line in lines:
    assert line["synthetic"] is True
    assert "SYNTHETIC" in line["pair"]
    assert line["tokens"] == 16
    assert line["target_parameters"] == line["draft_parameters"]
    assert line["speedup"]["median"] > 0
  assert lines[1]["kept"] == [0, 0, 0, 4]
  again = measure_full_size.run(rows=rows, **options)
  assert again == lines
  monkeypatch.setattr(measure_full_size, "_free_bytes", lambda: 1000)
  with pytest.raises(ValueError, match="GiB of memory are free"):
    measure_full_size.run(rows=rows, **options)
  with pytest.raises(ValueError, match="no T5 named 'huge'"):
    measure_full_size.run(
      rows=[measure_full_size.Row("huge", 0.5, 2)], **options
    )
