"""A request's output is its own, whatever its slot held and whoever is near."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax import continuous
from tests import toy

SLOTS, INPUT_LENGTH, WIDTH, GAMMA, EOS = 3, 6, 9, 3, 4
T5 = toy.Pair(
  toy.T5_TARGET,
  toy.t5_params(toy.T5_TARGET, 0),
  toy.T5_TARGET,
  toy.disturbed_params(toy.T5_TARGET, 0, 0.3),
)
TABLES = toy.table_pair(apart=0.7)


def _models(name):
  """What decodes, and its vocabulary's size."""
  if name == "t5":
    return T5.models, 48
  if name == "decoder only":
    return toy.table_pair(apart=0.7, prompted=True).models, 5
  if name == "bigrams":
    return toy.ngram_pair(seed=7).models, 5
  if name == "copies":
    copies = {"drafter": sd.prompt_lookup_drafter(5), "draft_params": None}
    return toy.table_pair(seed=4).models | copies, 5
  if name == "stops":
    drafter = sd.adaptive_drafter(TABLES.draft, stops=(1,), confidence=0.4)
    return TABLES.models | {"drafter": drafter}, 5
  return TABLES.models, 5


@dataclasses.dataclass(frozen=True)
class Asked:
  """A request."""

  key: jax.Array
  inputs: np.ndarray
  max_new_tokens: int
  temperature: float


def _requests(count, vocab_size, temperatures=(0.0, 1.0, 0.7)):
  padded = toy.inputs(count, INPUT_LENGTH, seed=5, vocab_size=vocab_size)
  return [
    Asked(
      jax.random.key(100 + i),
      row[row > 0],
      (WIDTH, 3)[i // 2 % 2],
      temperatures[i % len(temperatures)],
    )
    for i, row in enumerate(padded)
  ]


def _batch(models, *, slots=SLOTS, temperature=1.0, gamma=GAMMA, **options):
  return sd.ContinuousBatch(
    slots=slots,
    input_length=INPUT_LENGTH,
    config=toy.config(
      gamma=gamma,
      max_new_tokens=WIDTH,
      temperature=temperature,
      **{"eos_id": EOS, **options},
    ),
    **models,
  )


def _insert(batch, slot, each):
  batch.insert(
    slot,
    each.key,
    each.inputs,
    max_new_tokens=each.max_new_tokens,
    temperature=each.temperature,
  )


def _serve(batch, requests, *, seed=0):
  """Outputs of all requests, which go into whichever slots are free."""
  random = np.random.default_rng(seed)
  waiting = random.permutation(len(requests)).tolist()
  outputs, running, slots_used = {}, {}, {}
  while waiting or running:
    free = random.permutation(batch.free).tolist()
    # Not always all of them: then slots are empty for a while.
    for slot in free[: random.integers(0 if running else 1, len(free) + 1)]:
      if waiting:
        running[slot] = waiting.pop()
        slots_used.setdefault(slot, []).append(running[slot])
        _insert(batch, slot, requests[running[slot]])
        assert batch.lengths[slot] == 0
    for slot in batch.advance(int(random.integers(1, 5))):
      outputs[running.pop(slot)] = batch.output(slot)
    assert set(batch.free) == set(range(SLOTS)) - set(running)
  # Slots were refilled.
  assert max(map(len, slots_used.values())) > 1
  return [outputs[i] for i in range(len(requests))]


def _alone(models, each, *, gamma=GAMMA, padded=True, **options):
  inputs = each.inputs[None]
  if padded:
    inputs = np.pad(inputs, ((0, 0), (0, INPUT_LENGTH - inputs.shape[1])))
  return sd.speculative_generate(
    each.key[None],
    inputs,
    config=toy.config(
      gamma=gamma,
      max_new_tokens=each.max_new_tokens,
      temperature=each.temperature,
      eos_id=EOS,
      **options,
    ),
    **models,
  )


def _assert_same(output, alone, *, but=()):
  width = alone.tokens.shape[1]
  assert output.tokens.shape == (1, WIDTH)
  assert not np.any(output.tokens[:, width:])
  np.testing.assert_array_equal(output.tokens[:, :width], alone.tokens)
  np.testing.assert_array_equal(output.lengths, alone.lengths)
  np.testing.assert_allclose(
    output.log_probs, alone.log_probs, rtol=1e-4, atol=1e-4
  )
  for field in dataclasses.fields(output.stats):
    if field.name not in but:
      np.testing.assert_array_equal(
        getattr(output.stats, field.name), getattr(alone.stats, field.name)
      )


@pytest.mark.parametrize(
  "name",
  ["encoder and decoder", "decoder only", "bigrams", "copies", "stops", "t5"],
)
def test_a_request_is_its_own_run(name):
  models, vocab_size = _models(name)
  requests = _requests(12, vocab_size)
  outputs = _serve(_batch(models), requests)
  # How many guesses the target reads is the batch's choice, if it has one.
  but = ("scored_histogram",) if name in ("copies", "stops") else ()
  for i, (output, each) in enumerate(zip(outputs, requests, strict=True)):
    _assert_same(output, _alone(models, each, padded=i > 0), but=but)
  # Not all the same: some end with EOS, some do not, some guesses are kept.
  ended = [int(out.tokens[0, out.lengths[0] - 1]) == EOS for out in outputs]
  assert 0 < sum(ended) < len(ended)
  kept = [int(each.stats.accepted[0]) for each in outputs]
  assert 0 < sum(kept) < sum(int(each.stats.drafted[0]) for each in outputs)


def test_the_order_of_requests_does_not_matter():
  models, vocab_size = _models("encoder and decoder")
  requests = _requests(12, vocab_size)
  first, *others = (
    _serve(_batch(models), requests, seed=seed) for seed in range(3)
  )
  for outputs in others:
    for one, other in zip(first, outputs, strict=True):
      _assert_same(one, other)


@pytest.mark.parametrize("name", ["encoder and decoder", "t5"])
def test_greedy_requests_are_the_baseline_token_for_token(name):
  models, vocab_size = _models(name)
  requests = _requests(8, vocab_size, temperatures=(0.0,))
  plain = models | {"drafter": None, "draft_params": None}
  speculative, baseline = (
    _serve(_batch(each, temperature=0.0, gamma=gamma), requests, seed=gamma)
    for each, gamma in ((models, GAMMA), (plain, 0))
  )
  for one, other, each in zip(speculative, baseline, requests, strict=True):
    np.testing.assert_array_equal(one.tokens, other.tokens)
    alone = sd.autoregressive_generate(
      each.key[None],
      each.inputs[None],
      model=models["target"],
      params=models["target_params"],
      config=toy.config(
        max_new_tokens=each.max_new_tokens, temperature=0.0, eos_id=EOS
      ),
    )
    _assert_same(other, alone)


def test_block_verification_is_kept():
  models, vocab_size = _models("encoder and decoder")
  requests = _requests(6, vocab_size, temperatures=(1.0,))
  rule = {"verification": "block"}
  outputs = _serve(_batch(models, **rule), requests)
  for output, each in zip(outputs, requests, strict=True):
    _assert_same(output, _alone(models, each, **rule))


def test_it_stops_where_a_row_ends_or_rounds_are_enough():
  same = TABLES.same.models
  batch = _batch(same, temperature=0.0)
  assert batch.free == (0, 1, 2)
  batch.insert(1, jax.random.key(0), np.array([2]), max_new_tokens=1)
  # One round, of more that there might have been.
  assert batch.advance(50) == [1]
  assert batch.output(1).stats.target_calls.tolist() == [1]

  def calls(slot):
    return int(batch.output(slot).stats.target_calls[0])

  batch = _batch(same, temperature=0.0, gamma=0, eos_id=-1)
  batch.insert(0, jax.random.key(0), np.array([2]))
  batch.insert(2, jax.random.key(0), np.array([3]), max_new_tokens=3)
  assert batch.advance(2) == []
  assert batch.lengths.tolist() == [2, 0, 2]
  assert (calls(0), calls(2)) == (2, 2)
  assert batch.output(2).tokens[0, 2:].tolist() == [0] * (WIDTH - 2)
  # At the third the one ends, and the other does not go on.
  assert batch.advance(50) == [2]
  assert (calls(0), calls(2)) == (3, 3)
  assert batch.free == (1, 2)
  # What has ended is no event again, and stays as it is.
  assert batch.advance(1) == []
  assert (calls(0), calls(2)) == (4, 3)
  assert batch.output(2).lengths.tolist() == [3]
  # An empty batch has nothing to do.
  assert _batch(same).advance(3) == []


def _pointers(slots):
  return [
    leaf.unsafe_buffer_pointer()
    for leaf in jax.tree.leaves(slots)
    if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
  ]


def test_slots_are_written_in_place():
  batch = _batch(T5.models)
  before, places = batch._slots, _pointers(batch._slots)
  assert len(set(places)) == len(places)
  batch.insert(1, jax.random.key(0), np.array([5, 6]))
  assert all(leaf.is_deleted() for leaf in jax.tree.leaves(before))
  assert _pointers(batch._slots) == places
  before = batch._slots
  batch.advance(2)
  assert all(leaf.is_deleted() for leaf in jax.tree.leaves(before))
  assert _pointers(batch._slots) == places
  # The host's numbers are no view of what has been given away.
  lengths = batch.lengths
  assert lengths[1] > 0
  batch.advance(2)
  assert not np.array_equal(lengths, batch.lengths)


def test_programs_share_their_buffers_and_copy_no_cache():
  batch = _batch(T5.models)
  slots, run = batch._slots, batch._run
  request = dataclasses.replace(
    run,
    key=run.key[None],
    temperature=run.temperature[:1],
    budgets=run.budgets[:1],
  )
  inputs = jnp.ones((1, INPUT_LENGTH), jnp.int32)
  number = np.int32(1)
  cache = slots.state.target_cache.layers[0].self_attention.key
  copied = re.compile(
    rf"= f32\[{','.join(map(str, cache.shape))}\]\S* copy\(", re.M
  )
  for lowered in (
    continuous.insert.lower(request, slots, number, inputs),
    continuous.advance.lower(run, slots, number),
  ):
    # As it runs outside of the tests.
    compiled = lowered.compile({"xla_backend_optimization_level": "3"})
    assert compiled.memory_analysis().alias_size_in_bytes == batch.nbytes
    assert not copied.search(compiled.as_text())
  assert copied.search(f"\n %c = f32[{','.join(map(str, cache.shape))}] copy(")


def test_an_insertion_writes_its_row_alone():
  models, vocab_size = _models("t5")
  batch = _batch(models)
  first, second, third, fourth = _requests(4, vocab_size)
  for slot, each in enumerate((first, second, third)):
    _insert(batch, slot, each)
  while 1 not in batch.advance(1):
    pass
  before = jax.tree.map(_numbers, batch._slots)
  _insert(batch, 1, fourth)
  after = jax.tree.map(_numbers, batch._slots)
  fresh = _batch(models)
  _insert(fresh, 1, fourth)
  expected = jax.tree.map(_numbers, fresh._slots)
  jax.tree.map(
    lambda now, then: np.testing.assert_array_equal(now[[0, 2]], then[[0, 2]]),
    after,
    before,
  )
  jax.tree.map(
    lambda now, new: np.testing.assert_array_equal(now[1], new[1]),
    after,
    expected,
  )


def _numbers(leaf):
  if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
    leaf = jax.random.key_data(leaf)
  return np.array(leaf)


def _busy():
  batch = _batch(TABLES.models)
  batch.insert(0, jax.random.key(0), np.array([2]))
  return batch


GREEDY = {"temperature": 0.0}
REFUSED = {
  "no slots": (
    lambda: _batch(TABLES.models, slots=0),
    ["slots is 0", "at least 1"],
  ),
  "budgets of rows": (
    lambda: sd.ContinuousBatch(
      slots=2,
      input_length=4,
      config=toy.config(max_new_tokens=(3, 4)),
      **TABLES.models,
    ),
    ["max_new_tokens is (3, 4)", "one number"],
  ),
  "temperatures of rows": (
    lambda: _batch(TABLES.models, slots=2, temperature=(0.0, 1.0)),
    ["temperature is (0.0, 1.0)", "one number"],
  ),
  "several decodes": (
    lambda: _batch(TABLES.models, num_decodes=2),
    ["num_decodes is 2", "set it to 1"],
  ),
  "a draft of another vocabulary": (
    lambda: _batch(TABLES.models | {"drafter": sd.ngram_drafter(7)}),
    ["vocabulary has 7 entries"],
  ),
  "a slot that is busy": (
    lambda: _busy().insert(0, jax.random.key(0), np.array([2])),
    ["slot is 0", "free slots (1, 2)"],
  ),
  "a slot that is not there": (
    lambda: _busy().insert(3, jax.random.key(0), np.array([2])),
    ["slot is 3", "free slots (1, 2)"],
  ),
  "too long": (
    lambda: _busy().insert(1, jax.random.key(0), np.arange(7) % 5),
    ["inputs have 7 tokens", "input_length = 6"],
  ),
  "an id that is none": (
    lambda: _busy().insert(1, jax.random.key(0), np.array([2, 5])),
    ["token id 5", "ids 0 to 4"],
  ),
  "no ids": (
    lambda: _busy().insert(1, jax.random.key(0), np.array([0.5])),
    ["dtype float", "integers"],
  ),
  "two requests at once": (
    lambda: _busy().insert(1, jax.random.key(0), np.array([[2], [3]])),
    ["inputs have shape (2, 1)", "one request"],
  ),
  "a key for two": (
    lambda: _busy().insert(
      1, jax.random.split(jax.random.key(0)), np.array([2])
    ),
    ["one typed key"],
  ),
  "a key of another kind": (
    lambda: _busy().insert(1, jax.random.key(0, impl="rbg"), np.array([2])),
    ["key<fry>", "default kind"],
  ),
  "too many tokens": (
    lambda: _busy().insert(
      1, jax.random.key(0), np.array([2]), max_new_tokens=10
    ),
    ["max_new_tokens is 10", "room for 9"],
  ),
  "no token": (
    lambda: _busy().insert(
      1, jax.random.key(0), np.array([2]), max_new_tokens=0
    ),
    ["max_new_tokens is 0"],
  ),
  "a negative temperature": (
    lambda: _busy().insert(
      1, jax.random.key(0), np.array([2]), temperature=-1.0
    ),
    ["temperature is -1"],
  ),
  "sampling where all is greedy": (
    lambda: _batch(TABLES.models, **GREEDY).insert(
      1, jax.random.key(0), np.array([2]), temperature=0.5
    ),
    ["temperature is 0.5", "draws nothing", "positive temperature"],
  ),
  "no rounds": (
    lambda: _busy().advance(0),
    ["max_rounds is 0", "at least 1"],
  ),
  "the output of nothing": (
    lambda: _busy().output(1),
    ["slot is 1", "no request"],
  ),
  "the output of no slot": (
    lambda: _busy().output(-1),
    ["slot is -1", "slots 0 to 2"],
  ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
  do, (first, *others) = REFUSED[name]
  with pytest.raises(ValueError, match=re.escape(first)) as caught:
    do()
  for each in others:
    assert each in str(caught.value)


def test_what_was_refused_has_changed_nothing():
  batch = _busy()
  with pytest.raises(ValueError, match="token id 9"):
    batch.insert(1, jax.random.key(0), np.array([9]))
  assert batch.free == (1, 2)
  while batch.advance(1) != [0]:
    pass
  expected = _alone(
    TABLES.models, Asked(jax.random.key(0), np.array([2]), WIDTH, 1.0)
  )
  _assert_same(batch.output(0), expected)
