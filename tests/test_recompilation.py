"""One trace per shape, nothing compiled after it, nothing fetched inside."""

import contextlib
import dataclasses
from typing import ClassVar

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax import continuous, speculative
from specdec_jax.drafters import NgramModel
from tests import toy

_COMPILATION = "/jax/core/compile/backend_compile_duration"
_compilations = []


def _listen(event, duration, **_):
  del duration
  _compilations.append(event)


jax.monitoring.register_event_duration_secs_listener(_listen)


@contextlib.contextmanager
def compilations():
  """A list that grows by an entry for each program compiled meanwhile."""
  before = len(_compilations)
  found = []
  yield found
  found += [each for each in _compilations[before:] if each == _COMPILATION]


class Counting:
  """Counts how often Python runs a model's functions."""

  calls: ClassVar[list] = []

  def prefill(self, *args):
    self.calls.append("prefill")
    return super().prefill(*args)

  def extend(self, *args):
    self.calls.append("extend")
    return super().extend(*args)


@dataclasses.dataclass(frozen=True)
class CountingModel(Counting, toy.TableModel):
  """A table that counts."""


@dataclasses.dataclass(frozen=True)
class CountingNgrams(Counting, NgramModel):
  """n-grams that count."""


def _pair(kind):
  """Models that are new objects, and equal to those of the last call."""
  if kind == "bigrams":
    return dataclasses.replace(
      toy.ngram_pair(), target=CountingModel(5), draft=CountingNgrams(5)
    )
  return dataclasses.replace(
    toy.table_pair(), target=CountingModel(5), draft=CountingModel(5, 2)
  )


OPTIONS = {"gamma": 3, "max_new_tokens": (8, 8, 5), "temperature": 1.0}
INPUTS = np.array([[1, 2, 0], [2, 0, 0], [3, 1, 4]], np.int32)


@pytest.fixture(params=["model", "bigrams"])
def kind(request):
  """What drafts."""
  return request.param


@pytest.fixture
def warm(kind):
  """A pair whose program is compiled."""
  pair = _pair(kind)
  jax.block_until_ready(pair.speculative(INPUTS, **OPTIONS))
  return pair


CHANGES = {
  "inputs": ({"inputs": INPUTS[::-1] + 1}, {}),
  "key": ({"key": 5}, {}),
  "temperature": ({}, {"temperature": 0.5}),
  "temperature of each row": ({}, {"temperature": (0.0, 2.0, 0.3)}),
  "budgets below the largest": ({}, {"max_new_tokens": (1, 8, 3)}),
  "one budget for all": ({}, {"max_new_tokens": 8}),
  "configuration by keyword": (
    {},
    {"eos_id": 1, "top_p": 1.0, "top_k": 0, "lenience": 1},
  ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_new_values_compile_and_trace_nothing(kind, warm, name):
  del warm
  arguments, options = CHANGES[name]
  pair = _pair(kind)  # And a drafter that is made anew.
  arguments = {"inputs": INPUTS, **arguments}
  arguments["inputs"] = jnp.asarray(arguments["inputs"])
  arguments["key"] = jax.random.key(arguments.get("key", 0))
  traced = len(CountingModel.calls)
  with compilations() as found:
    jax.block_until_ready(
      pair.speculative(**arguments, **{**OPTIONS, **options})
    )
  assert CountingModel.calls[traced:] == []
  assert found == []


def test_new_parameters_compile_nothing(warm):
  key = jax.random.key(0)
  warm = dataclasses.replace(
    warm,
    target_params=warm.target_params[::-1],
    draft_params=jax.tree.map(lambda x: x[::-1], warm.draft_params),
  )
  inputs = jnp.asarray(INPUTS)
  with compilations() as found:
    jax.block_until_ready(warm.speculative(inputs, key=key, **OPTIONS))
  assert found == []


@pytest.mark.parametrize(
  "change",
  [{"gamma": 2}, {"max_new_tokens": 9}, {"lenience": 0.5}],
  ids=lambda change: next(iter(change)),
)
def test_what_shapes_the_program_does_compile(warm, change):
  # The measure can tell: these are other programs.
  traced = len(CountingModel.calls)
  with compilations() as found:
    warm.speculative(INPUTS, **{**OPTIONS, **change})
  assert CountingModel.calls[traced:]
  assert found


def test_a_model_is_traced_a_few_times_whatever_the_length(warm):
  counts = []
  for length in (6, 60):
    traced = len(CountingModel.calls)
    run, inputs = _prepare(warm, max_new_tokens=length)
    jax.eval_shape(speculative._generate, run, inputs)
    counts.append(CountingModel.calls[traced:])
  assert counts[0] == counts[1]
  # Of the two models; extend in the draft's first call, its scan, the score.
  assert counts[0].count("prefill") == 2
  assert counts[0].count("extend") == 3


def _prepare(pair, **options):
  return speculative.prepare(
    jax.random.key(0),
    jnp.asarray(INPUTS),
    config=toy.config(**{**OPTIONS, **options}),
    **pair.models,
  )


def test_nothing_is_transferred_while_it_decodes(warm):
  run, inputs = jax.device_put(_prepare(warm))
  with jax.transfer_guard("disallow"):
    with pytest.raises(Exception, match=r"[Dd]isallowed host-to-device"):
      jnp.sin(np.ones(3, np.float32))  # The guard is awake.
    output = jax.block_until_ready(speculative._generate(run, inputs))
  assert np.all(output.lengths > 0)


def test_a_call_with_inputs_on_the_device_transfers_them_no_more(warm):
  inputs, key = jnp.asarray(INPUTS), jax.random.key(0)
  config = toy.config(**OPTIONS)
  arguments = {**warm.models, "config": config}
  sd.speculative_generate(key, inputs, **arguments)
  # What the call puts on the device (budgets, temperatures) it does by name.
  with jax.transfer_guard("disallow"):
    jax.block_until_ready(sd.speculative_generate(key, inputs, **arguments))


def _slots(kind):
  """Slots that have had a request, and so have all of their programs."""
  batch = sd.ContinuousBatch(
    slots=3,
    input_length=4,
    config=toy.config(gamma=3, max_new_tokens=8, temperature=1.0),
    **_pair(kind).models,
  )
  _play(batch, [np.array([2])])
  return batch


def _play(batch, requests, **options):
  for i, inputs in enumerate(requests):
    batch.insert(batch.free[-1], jax.random.key(i), inputs, **options)
    for slot in batch.advance(1 + i):
      batch.output(slot)


REQUESTS = [np.array([2, 3]), np.array([1, 4, 4, 2]), np.array([3])]


def test_requests_that_come_and_go_compile_nothing(kind):
  batch = _slots(kind)
  traced = len(CountingModel.calls)
  with compilations() as found:
    _play(batch, REQUESTS[:1])
    _play(batch, REQUESTS[1:2], temperature=0.0, max_new_tokens=2)
    # Other slots of the same models.
    _play(_slots(kind), REQUESTS)
  assert CountingModel.calls[traced:] == []
  assert found == []


def test_rounds_of_slots_transfer_nothing():
  batch = _slots("model")
  for slot, inputs in enumerate(REQUESTS):
    batch.insert(slot, jax.random.key(slot), inputs)
  rounds = jax.device_put(np.int32(5))
  run, slots = jax.device_put((batch._run, batch._slots))
  with jax.transfer_guard("disallow"):
    _, progress = jax.block_until_ready(continuous.advance(run, slots, rounds))
  assert np.all(progress.lengths > 0)


def _primitives(jaxpr):
  for equation in jaxpr.eqns:
    yield equation.primitive.name
    for inner in jax.extend.core.jaxprs_in_params(equation.params):
      yield from _primitives(inner)


def test_the_program_calls_nothing_on_the_host(warm):
  run, inputs = _prepare(warm)
  names = set(
    _primitives(jax.make_jaxpr(speculative._generate)(run, inputs).jaxpr)
  )
  assert {"while", "scan", "random_bits"} <= names  # Seen to the bottom.
  assert not {
    name
    for name in names
    if "callback" in name or name in ("infeed", "outfeed")
  }
