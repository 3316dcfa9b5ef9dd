"""Buckets of distances, spelled out and against the formula in exact form."""

import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.t5 import relative_bias


def bucket(distance, *, bidirectional=False):
  return relative_bias.bucket(
    np.asarray(distance),
    bidirectional=bidirectional,
    num_buckets=32,
    max_distance=128,
  ).tolist()


# Where each of the decoder's 16 logarithmic buckets begins.
DECODER_EDGES = [
  16,
  19,
  21,
  24,
  27,
  31,
  35,
  40,
  46,
  52,
  59,
  67,
  77,
  87,
  99,
  113,
]
# Where each of the encoder's 8 logarithmic buckets begins.
ENCODER_EDGES = [8, 12, 16, 23, 32, 46, 64, 91]


def test_decoder_buckets_are_exact_below_16():
  assert bucket(-np.arange(16)) == list(range(16))


def test_decoder_buckets_by_the_logarithm():
  for index, edge in enumerate(DECODER_EDGES):
    assert bucket([1 - edge, -edge]) == [15 + index, 16 + index]


@pytest.mark.parametrize("distance", [113, 127, 128, 129, 10_000])
def test_far_past_is_one_bucket(distance):
  assert bucket([-distance]) == [31]


def test_future_of_the_decoder_is_bucket_0():
  assert bucket([1, 5, 1000]) == [0, 0, 0]


def test_encoder_buckets():
  past = bucket(-np.arange(200), bidirectional=True)
  future = bucket(np.arange(1, 200), bidirectional=True)
  assert past[:8] == list(range(8))
  assert future == [16 + each for each in past[1:]]
  for index, edge in enumerate(ENCODER_EDGES):
    assert past[edge - 1 : edge + 1] == [7 + index, 8 + index]
  assert max(past) == 15


@pytest.mark.parametrize("width", [1, 4])
def test_a_step_sees_the_rows_of_the_full_bias(width):
  """At any position, the last of the buffer included."""
  length = 140
  table = jnp.asarray(np.random.default_rng(0).normal(size=(3, 32)), "f4")
  full = relative_bias.full_bias(
    table, length, bidirectional=False, max_distance=128
  )[0]
  seen = np.tril(np.ones((length, length), bool))
  expected = np.where(seen, full, relative_bias.MASKED)
  line = relative_bias.line_of_biases(table, length, max_distance=128)
  positions = np.int32([0, 1, 15, 16, 127, 128, 129, length - width])
  biases = relative_bias.step_bias(
    jnp.broadcast_to(line, (len(positions), *line.shape)),
    jnp.asarray(positions),
    width,
  )
  for row, position in enumerate(positions):
    np.testing.assert_array_equal(
      biases[row], expected[:, position : position + width]
    )
