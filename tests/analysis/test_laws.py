import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import specdec_jax as sd
from specdec_jax import analysis
from tests import toy
from tests.enumeration import standardise

THIRDS, OTHER_THIRDS = np.array([1, 2]) / 3, np.array([2, 1]) / 3

weights = st.lists(st.integers(0, 20), min_size=4, max_size=4).filter(any)
laws = weights.map(lambda each: np.array(each) / sum(each))
leniences = st.floats(0, 1)
exampled = settings(deadline=None, max_examples=25, derandomize=True)


@exampled
@given(laws, laws)
def test_definition_3_2_and_lemma_3_3(p, q):
  middle = (p + q) / 2
  found = analysis.lk_divergence(p, q)
  assert found == pytest.approx(np.abs(p - middle).sum(), abs=1e-15)
  assert found == pytest.approx(np.abs(q - middle).sum(), abs=1e-15)
  assert found == pytest.approx(1 - np.minimum(p, q).sum(), abs=1e-15)


@exampled
@given(laws, laws)
def test_corollary_3_4(p, q):
  found = analysis.lk_divergence(p, q)
  assert found == analysis.lk_divergence(q, p)
  assert 0 <= found <= 1 + 1e-15
  assert (found == 0) == np.array_equal(p, q)
  is_disjoint = not np.any((p > 0) & (q > 0))
  assert (found > 1 - 1e-6) == is_disjoint


@exampled
@given(laws, laws)
def test_theorem_3_5(p, q):
  """beta, by the rule: what was drawn is kept with chance min(1, p / q)."""
  beta = sum(
    drawn * min(1.0, own / drawn)
    for own, drawn in zip(p, q, strict=True)
    if drawn
  )
  assert analysis.shared_mass(p, q) == pytest.approx(beta, abs=1e-15)
  assert analysis.shared_mass(p, q) == pytest.approx(
    1 - analysis.lk_divergence(p, q), abs=1e-15
  )
  # Appendix A.2: rejection sampling that tries once is kept 1 / max(p / q).
  if np.all(q > 0):
    assert analysis.shared_mass(p, q) >= 1 / np.max(p / q) - 1e-15


@exampled
@given(laws, laws, leniences, leniences)
def test_lenience_keeps_more(p, q, one, other):
  """Appendix A.5: compared with l q in the place of q."""
  strict, loose = max(one, other), min(one, other)
  beta = sum(
    drawn * (1.0 if loose * drawn <= own else own / (loose * drawn))
    for own, drawn in zip(p, q, strict=True)
    if drawn and own
  )
  assert analysis.shared_mass(p, q, loose) == pytest.approx(beta, abs=1e-12)
  assert (
    analysis.shared_mass(p, q, strict)
    <= analysis.shared_mass(p, q, loose) + 1e-15
  )
  assert analysis.shared_mass(p, q, 0) == pytest.approx(q[p > 0].sum())
  assert analysis.shared_mass(p, q, 1) == analysis.shared_mass(p, q)


def test_lenience_is_min_of_p_over_l_and_q():
  p, q = [0.1, 0.3, 0.6, 0.0], [0.4, 0.4, 0.1, 0.1]
  # 0.2 + 0.4 + 0.1 + 0, and at 1: 0.1 + 0.3 + 0.1.
  found = analysis.shared_mass([p, p], q, [0.5, 1.0])
  assert found == pytest.approx([0.7, 0.5])
  assert isinstance(analysis.shared_mass(p, q), float)
  assert isinstance(analysis.lk_divergence(p, q), float)
  assert analysis.lk_divergence([[p], [q]], [p, q]).shape == (2, 2)


def all_drafts(p, q, gamma):
  """Ratios and weights of all drafts of two chains, [V + 1, V] tables.

  Row 0 is the law of the first word, row 1 + w that of a word after w.
  """
  ratios, weights = [], []
  for draft in itertools.product(range(p.shape[1]), repeat=gamma):
    rows = (0, *(1 + word for word in draft[:-1]))
    drawn = q[rows, draft] if gamma else np.ones(0)
    weight = float(np.prod(drawn))
    if weight:
      ratios.append(p[rows, draft] / drawn if gamma else drawn)
      weights.append(weight)
  return np.array(ratios).reshape(len(ratios), gamma), np.array(weights)


def block_length(p, q, gamma):
  """The mean length by the rule itself, over all drafts and all outcomes."""
  mean = 0.0
  for draft in itertools.product(range(p.shape[1]), repeat=gamma):
    rows = (0, *(1 + word for word in draft))
    weight = math.prod(q[row, x] for row, x in zip(rows, draft, strict=False))
    if not weight:
      continue
    held, passes = 1.0, []
    for i in range(1, gamma + 1):
      row, word = rows[i - 1], draft[i - 1]
      held = min(1.0, held * p[row, word] / q[row, word])
      if i == gamma:
        passes.append(held)
        continue
      left = np.maximum(held * p[rows[i]] - q[rows[i]], 0).sum()
      is_certain = left + 1 - held <= 0
      passes.append(1.0 if is_certain else left / (left + 1 - held))
    # The last place that passes counts, whatever those before it did.
    beyond = 1.0
    for i in range(gamma, 0, -1):
      mean += weight * beyond * passes[i - 1] * i
      beyond *= 1 - passes[i - 1]
  return 1 + mean


def token_length(p, q, gamma):
  """The same for Algorithm 1."""
  mean = 0.0
  for draft in itertools.product(range(p.shape[1]), repeat=gamma):
    rows = (0, *(1 + word for word in draft))
    weight = math.prod(q[row, x] for row, x in zip(rows, draft, strict=False))
    if not weight:
      continue
    chances = [
      min(1.0, p[row, x] / q[row, x])
      for row, x in zip(rows, draft, strict=False)
    ]
    for n in range(gamma + 1):
      stops = 1.0 if n == gamma else 1 - chances[n]
      mean += weight * math.prod(chances[:n]) * stops * n
  return 1 + mean


def chains(seed, zeros=0.0):
  model = toy.TableModel(3, order=1)
  return tuple(
    np.roll(
      standardise(
        toy.random_table(model, 2 * seed + i, zeros=zeros)[0],
        sd.SamplingConfig(),
      ),
      1,  # The row of "before the first one" is the last one there.
      axis=0,
    )
    for i in range(2)
  )


@pytest.mark.parametrize("gamma", [0, 1, 2, 3])
@pytest.mark.parametrize("zeros", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_lengths_are_those_of_all_outcomes(seed, zeros, gamma):
  p, q = chains(seed, zeros)
  drafts = all_drafts(p, q, gamma)
  block = analysis.block_verification_length(*drafts)
  token = analysis.token_verification_length(*drafts)
  assert block == pytest.approx(block_length(p, q, gamma))
  assert token == pytest.approx(token_length(p, q, gamma))
  if gamma < 2:
    assert block == pytest.approx(token)
  if gamma == 1:
    assert token == pytest.approx(1 + analysis.shared_mass(p[0], q[0]))
  # No rule sees more than the laws of whole drafts.
  ratios, weights = drafts
  whole = np.minimum(1, np.cumprod(ratios, axis=1)).sum(axis=1)
  most = 1 + np.average(whole, weights=weights)
  assert token - 1e-12 <= block <= most + 1e-12


def test_block_verification_keeps_more_than_token_verification():
  """The example of 10/9, 11/9 and, for whole drafts, 12/9 guesses."""
  p, q = (np.tile(law, (3, 1)) for law in (THIRDS, OTHER_THIRDS))
  drafts = all_drafts(p, q, 2)
  assert analysis.token_verification_length(*drafts) == pytest.approx(
    1 + 10 / 9
  )
  assert analysis.block_verification_length(*drafts) == pytest.approx(
    1 + 11 / 9
  )


def test_token_verification_of_independent_places_is_equation_1():
  p, q = (np.tile(law, (3, 1)) for law in (THIRDS, OTHER_THIRDS))
  alpha = analysis.shared_mass(THIRDS, OTHER_THIRDS)
  for gamma in range(4):
    assert analysis.token_verification_length(
      *all_drafts(p, q, gamma)
    ) == pytest.approx(analysis.expected_tokens(alpha, gamma))


def test_a_sample_counts_all_drafts_alike():
  ratios = np.array([[0.5, 4.0], [2.0, 0.25]])
  # 0.5 + 0.5 and 1 + 0.25; in blocks 0.5 + 1 and 1 + 0.25.
  assert analysis.token_verification_length(ratios) == 1 + 2.25 / 2
  assert analysis.block_verification_length(ratios) == 1 + 2.75 / 2
  assert (
    analysis.block_verification_length(ratios, [3, 1]) == 1 + (4.5 + 1.25) / 4
  )
  # At temperature 0 a guess holds or does not, and both rules are the same.
  greedy = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
  assert analysis.token_verification_length(greedy) == 2
  assert analysis.block_verification_length(greedy) == 2


@pytest.mark.parametrize("name", ["shared_mass", "lk_divergence"])
def test_what_is_no_law_is_refused(name):
  function = getattr(analysis, name)
  with pytest.raises(ValueError, match=r"target_probs is -0.5; it must lie in"):
    function([-0.5, 1.5], THIRDS)
  with pytest.raises(ValueError, match=r"draft_probs sums to 0.9; each law"):
    function([THIRDS, THIRDS], [THIRDS, [0.4, 0.5]])
  for p, q in [([1.0], THIRDS), (THIRDS, np.ones((2, 1))), (1.0, 1.0)]:
    with pytest.raises(ValueError, match=r"both must be \[..., V\], with the"):
      function(p, q)


def test_what_is_out_of_range_is_refused(unchecked):
  for lenience in (-0.1, 1.1, math.nan):
    with pytest.raises(
      ValueError, match=f"lenience is {lenience}; it must lie"
    ):
      analysis.shared_mass(THIRDS, THIRDS, lenience)
  for function in (
    analysis.token_verification_length,
    analysis.block_verification_length,
  ):
    with pytest.raises(
      ValueError, match="ratios is -1.0; it must be 0 or more"
    ):
      function(np.array([[-1.0]]))
    with pytest.raises(ValueError, match="ratios is inf; it must be 0 or more"):
      function(np.array([[np.inf]]))
    for shape in ((0, 2), (3,)):
      with pytest.raises(ValueError, match=r"ratios has shape .* \[N, G\]"):
        function(np.zeros(shape))
    for weights in ([1.0], [0.0, 0.0], [[1.0, 1.0]]):
      with pytest.raises(ValueError, match="for each of the 2 drafts"):
        function(np.ones((2, 2)), weights)
    with pytest.raises(ValueError, match="weights is -1.0; it must be 0 or"):
      function(np.ones((2, 2)), [2.0, -1.0])
