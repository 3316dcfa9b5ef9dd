import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd


def test_configs_that_say_the_same_are_equal_and_hash_alike():
  plain = sd.SpeculativeConfig(
    gamma=3,
    max_new_tokens=(4, 5),
    sampling=sd.SamplingConfig((0.5, 1.0), top_k=2, top_p=0.5),
  )
  for make in (list, np.array, jnp.array):
    other = sd.SpeculativeConfig(
      gamma=np.int64(3),
      max_new_tokens=make([4, 5]),
      sampling=sd.SamplingConfig(
        make([0.5, 1.0]), top_k=np.int32(2), top_p=np.float32(0.5)
      ),
      eos_id=np.int32(1),
    )
    assert other == plain
    assert hash(other) == hash(plain)


def test_an_integer_is_a_temperature():
  assert sd.SamplingConfig(1) == sd.SamplingConfig(1.0)
  assert isinstance(sd.SamplingConfig(1).temperature, float)


def test_no_eos_has_two_spellings():
  one, other = (
    sd.SpeculativeConfig(eos_id=None),
    sd.SpeculativeConfig(eos_id=-1),
  )
  assert one == other


@pytest.mark.parametrize(
  ("temperature", "greedy"),
  [(0.0, True), (1e-4, True), (1.1e-4, False), ((0, 1), False), ((0, 0), True)],
)
def test_greedy_means_every_row(temperature, greedy):
  assert sd.SamplingConfig(temperature).greedy == greedy


def test_width_is_the_largest_budget():
  assert sd.SpeculativeConfig(max_new_tokens=7).width == 7
  assert sd.SpeculativeConfig(max_new_tokens=(3, 9, 1)).width == 9


def test_configs_are_frozen():
  with pytest.raises(dataclasses.FrozenInstanceError):
    sd.SpeculativeConfig().gamma = 3
  with pytest.raises(dataclasses.FrozenInstanceError):
    sd.SamplingConfig().top_k = 3
