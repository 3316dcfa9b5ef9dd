"""A cell's line, from times that are made up."""

import math

import numpy as np
import pytest

import specdec_jax as sd
from experiments.decoding import speed
from experiments.decoding.timing import Costs, Timing, Work
from specdec_jax.analysis import wall_time_improvement

FREE = Costs(
  target_prefill=0.0,
  target_step=2.0,
  target_verify=2.0,
  draft_prefill=0.0,
  draft_step=0.5,
  draft_first=0.5,
)
# A text of 9 tokens, its last round cut by EOS, and one of 3.
KEPT = np.array([[1, 1, 0, 2], [1, 1, 0, 0]])
STATS = sd.SpeculationStats(
  target_calls=np.array([4, 2]),
  drafted=np.array([12, 6]),
  examined=np.array([9, 3]),
  accepted=np.array([7, 1]),
  corrected=np.array([2, 2]),
  bonus=np.array([1, 0]),
  emitted=np.array([10, 3]),
  accepted_histogram=KEPT,
  scored_histogram=np.array([[0, 0, 0, 4], [0, 0, 0, 2]]),
)


def make_timing(
  costs=FREE, *, batches=((4,), (1,)), work=((10, 4), (3, 2)), lengths=(10, 3)
):
  """Two texts; what was measured is 1.25 times slower than its parts."""
  work = [Work(*each) for each in work]
  one = np.array(
    [c.baseline_calls * costs.target_step + costs.target_prefill for c in work]
  )
  other = np.array(
    [
      costs.target_prefill
      + costs.draft_prefill
      + c.rounds
      * (costs.target_verify + costs.draft_first + 2 * costs.draft_step)
      for c in work
    ]
  )
  return Timing(
    gamma=3,
    indices=list(batches),
    baseline_lengths=list(lengths),
    stats=STATS,
    same_tokens=True,
    baseline_seconds=np.stack([one, 2 * one]),
    speculative_seconds=1.25 * np.stack([other, 2 * other]),
    costs=[[costs] * len(work)] * 2,
    work=work,
  )


def terms_of(timing):
  terms = speed.error_terms(timing)
  # They multiply up, whatever they are.
  assert speed.theorem_3_8(timing) * math.prod(terms.values()) == (
    pytest.approx(np.median(timing.speedup), rel=1e-12)
  )
  # And all but the last lead to the prediction.
  assert np.median(timing.speedup) / terms["bookkeeping"] == pytest.approx(
    timing.predicted_speedup, rel=1e-12
  )
  return terms


def test_where_the_theorems_costs_hold_only_texts_and_bookkeeping_differ():
  timing = make_timing()
  assert speed.theorem_3_8(timing) == pytest.approx(
    wall_time_improvement(8 / 12, 3, 0.25)
  )
  terms = terms_of(timing)
  assert terms.pop("bookkeeping") == pytest.approx(1 / 1.25)
  # 13 tokens in six rounds.
  assert terms.pop("texts_end") * terms.pop("acceptance_not_iid") == (
    pytest.approx(13 / 6 / (1 + 2 / 3 + 4 / 9 + 8 / 27))
  )
  assert terms == pytest.approx(dict.fromkeys(terms, 1.0))


def test_each_cost_has_a_term_of_its_own():
  plain = terms_of(make_timing())

  def changed(**costs):
    terms = terms_of(make_timing(FREE._replace(**costs)))
    return {
      name: each / plain[name]
      for name, each in terms.items()
      if each != pytest.approx(plain[name])
    }

  # A round of 2 + 3 * 0.5 seconds, and what is added to it.
  assert changed(target_verify=3.0) == pytest.approx(
    {"verification": 3.5 / 4.5}
  )
  assert changed(draft_first=1.0) == pytest.approx(
    {"first_draft_call": 3.5 / 4}
  )
  # 13 target steps; 6 rounds and two texts.
  assert changed(draft_prefill=1.5) == pytest.approx({"draft_prefill": 21 / 24})
  assert changed(target_prefill=1.5) == pytest.approx(
    {"target_prefill": (29 / 24) / (26 / 21)}
  )


def test_rows_that_wait_have_a_term():
  alone = terms_of(make_timing())
  together = make_timing(batches=((4, 1),), work=((10, 4),))
  terms = terms_of(together)
  # The baseline's ten steps for 13 tokens, and four rounds in place of six.
  waiting = (20 / 14) / (26 / 21)
  assert terms["waiting_rows"] == pytest.approx(waiting)
  del terms["waiting_rows"], alone["waiting_rows"]
  assert terms == pytest.approx(alone)


def test_samples_of_other_lengths_are_compared_per_token():
  # The baseline's outputs are twice as long.
  timing = make_timing(work=((20, 4), (6, 2)), lengths=(20, 6))
  assert terms_of(timing) == pytest.approx(terms_of(make_timing()))


@pytest.fixture
def cell(pair):
  def make(timing, batch_size=1, temperature=0.0, kinds="xaxxb"):
    return speed.make_cell(
      timing,
      pair=pair,
      draft="near",
      task="texts",
      kinds=["", *kinds[1:]] if kinds else [""] * 5,
      config=sd.SpeculativeConfig(
        gamma=3,
        max_new_tokens=12,
        sampling=sd.SamplingConfig(temperature),
      ),
      batch_size=batch_size,
      seed=0,
      length_bounds=(4, 8, 64),
    )

  return make


def test_a_cell_says_what_was_counted(cell):
  line = cell(make_timing())
  assert line["examples"] == 2
  assert line["tokens"] == line["baseline_tokens"] == 13
  assert line["kept"] == [2, 2, 0, 2]
  assert line["alpha_hat"]["mean"] == pytest.approx(8 / 12)
  assert line["block_efficiency"]["mean"] == pytest.approx(13 / 6)
  assert line["equal_to_baseline"] is True
  assert line["speedup"]["median"] == pytest.approx(26 / 21 / 1.25)
  assert line["speedup_over_texts"]["mean"] == pytest.approx(26 / 21 / 1.25)
  assert line["predicted"]["median"] == pytest.approx(26 / 21)
  assert line["cost_ratio"] == 0.25
  assert line["verification_ratio"] == 1
  assert line["milliseconds_per_token"]["baseline"] == pytest.approx(
    {"min": 2000, "median": 3000, "max": 4000}
  )


def test_groups_have_their_own_texts(cell):
  line = cell(make_timing())
  # Text 4 comes first, of kind b and ten tokens.
  assert set(line["by_origin"]) == {"a", "b"}
  assert set(line["by_length"]) == {"1-4", "9-12"}
  of_b = line["by_origin"]["b"]
  assert of_b == line["by_length"]["9-12"]
  assert of_b["tokens"] == 10
  assert of_b["kept"] == [1, 1, 0, 2]
  assert of_b["alpha_hat"]["mean"] == pytest.approx(7 / 9)
  assert of_b["predicted"] == pytest.approx(20 / 14)
  assert of_b["speedup"]["median"] == pytest.approx(20 / 14 / 1.25)
  assert cell(make_timing(), kinds="")["by_origin"] == {}


def test_samples_are_in_the_groups_of_their_own_lengths(cell):
  timing = make_timing(work=((3, 4), (10, 2)), lengths=(3, 10))
  line = cell(timing, temperature=1.0)
  assert line["equal_to_baseline"] is None
  short, long = line["by_length"]["1-4"], line["by_length"]["9-12"]
  assert (short["examples"], short["baseline_examples"]) == (1, 1)
  assert (short["tokens"], short["baseline_tokens"]) == (3, 3)
  assert short["predicted"] == pytest.approx((6 / 3) / (7 / 3))
  assert long["predicted"] == pytest.approx((20 / 10) / (14 / 10))


def test_texts_of_one_batch_have_no_times_of_their_own(cell):
  line = cell(make_timing(batches=((4, 1),), work=((10, 4),)), batch_size=4)
  of_b = line["by_origin"]["b"]
  assert of_b["alpha_hat"]["mean"] == pytest.approx(7 / 9)
  assert of_b["speedup"] is of_b["predicted"] is None
  # One batch has no interval over batches.
  assert line["speedup_over_texts"]["low"] is None
