"""A draft reads what it wrote itself, as it was when it wrote."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from experiments.training.data_mixture import Fractions, MixedBatches
from experiments.training.on_policy import OnPolicyStep
from specdec_jax.training.batching import Batches, Batching
from specdec_jax.training.step import Metrics, TrainState
from tests import toy

KEY = jax.random.key(4)
GREEDY = sd.SamplingConfig(temperature=0.0)
# Its two tables give other greedy texts.
TABLES = [
  jnp.asarray(toy.random_table(toy.TableModel(9), seed)) for seed in (0, 1)
]
OTHER = 8
"""What corpus targets consist of."""


def mixture(fractions, *, prompted=False, widths=(4, 6)):
  pairs = [
    ([2 + (i + j) % 6 for j in range(1 + i % 3)], [OTHER] * (2 + i % 2))
    for i in range(12)
  ]
  pairs += [([3, 4, 5, 6, 2, 7][: 3 + i % 4], [OTHER] * 4) for i in range(6)]
  if prompted:
    widths = (8, 12)
  settings = Batching(12, widths=widths, joined=prompted)
  kinds = [kind for kind in ("corpus", "draft") if getattr(fractions, kind)]
  return MixedBatches(
    fractions, {kind: Batches(pairs, settings) for kind in kinds}
  )


class Recorder:
  """A train step whose parameters become those of the next table."""

  def __init__(self):
    self.seen = {}

  def __call__(self, state, inputs, targets, key):
    number = int(state.step)
    self.seen[number] = np.asarray(targets)
    params = TABLES[(number + 1) % 2]
    state = TrainState(params, None, state.step + 1)
    return state, Metrics(*[jnp.zeros(())] * 3)


def play(batches, steps, *, first=0, **options):
  """Runs steps; returns each one's targets."""
  recorder = Recorder()
  arguments = {
    "model": toy.TableModel(9),
    "batches": batches,
    "sampling": GREEDY,
    "key": KEY,
    "steps": steps,
    "every": 4,
    "joined": False,
    "place": jnp.asarray,
  }
  train_step = OnPolicyStep(recorder, **{**arguments, **options})
  state = TrainState(TABLES[first % 2], None, jnp.int32(first))
  for number in range(first, steps):
    state, _ = train_step(state, *batches[number], KEY)
  return recorder.seen


def greedy(params, inputs, width):
  output = sd.autoregressive_generate(
    jax.random.key(9),
    inputs,
    model=toy.TableModel(9),
    params=params,
    config=sd.SpeculativeConfig(max_new_tokens=width, sampling=GREEDY),
  )
  return np.asarray(output.tokens)


def test_it_reads_what_the_draft_of_that_time_wrote():
  batches = mixture(Fractions(corpus=0.25, target=0.0, draft=0.75))
  seen = play(batches, 10)
  kinds = [batches.kind(number) for number in range(10)]
  assert set(kinds) == {"corpus", "draft"}
  for number, kind in enumerate(kinds):
    inputs, targets = batches[number]
    if kind == "corpus":
      np.testing.assert_array_equal(seen[number], targets)
      continue
    # It wrote at the first of these steps since a multiple of four.
    window = range(number // 4 * 4, number + 1)
    wrote = next(each for each in window if kinds[each] == "draft")
    wanted = greedy(TABLES[wrote % 2], inputs, inputs.shape[1])
    np.testing.assert_array_equal(seen[number], wanted)
  # The two tables would have written different things.
  draft = kinds.index("draft")
  inputs = batches[draft].inputs
  texts = [greedy(each, inputs, inputs.shape[1]) for each in TABLES]
  assert (texts[0] != texts[1]).any()


def test_a_run_that_goes_on_from_a_multiple_reads_the_same():
  batches = mixture(Fractions(corpus=0.0, target=0.0, draft=1.0))
  sampling = sd.SamplingConfig()
  whole = play(batches, 10, sampling=sampling)
  rest = play(batches, 10, first=4, sampling=sampling)
  assert set(rest) == set(range(4, 10))
  for number, targets in rest.items():
    np.testing.assert_array_equal(targets, whole[number])


def test_samples_differ_between_steps_and_rows():
  pairs = [([3, 1], [OTHER, OTHER])] * 12
  batches = MixedBatches(
    Fractions(target=0.0, draft=1.0),
    {"draft": Batches(pairs, Batching(24, widths=(6,)))},
  )
  seen = play(batches, 4, sampling=sd.SamplingConfig())
  rows = [tuple(row) for targets in seen.values() for row in targets.tolist()]
  assert len(rows) == 16
  assert len(set(rows)) > 8


@pytest.mark.parametrize("every", [1, 3])
def test_a_prompts_continuation_follows_it(every):
  model = toy.TableModel(9, prompted=True)
  batches = mixture(Fractions(target=0.0, draft=1.0), prompted=True)
  seen = play(batches, 3, model=model, joined=True, every=every)
  for number, targets in seen.items():
    inputs = batches[number].inputs
    width = inputs.shape[1]
    wrote = number // every * every
    output = sd.autoregressive_generate(
      KEY,
      inputs,
      model=model,
      params=TABLES[wrote % 2],
      config=sd.SpeculativeConfig(max_new_tokens=width, sampling=GREEDY),
    )
    for row, prompt in enumerate(inputs):
      size = int((prompt > 0).sum())
      assert not targets[row, :size].any()
      wanted = np.asarray(output.tokens)[row, : width - size]
      np.testing.assert_array_equal(targets[row, size:], wanted)
