import pytest

from experiments.ahead_of_time import chips, roofline
from experiments.decoding.random_pair import RandomModel
from specdec_jax import t5

TINY = t5.T5Config(
  vocab_size=100,
  emb_dim=8,
  num_heads=2,
  num_encoder_layers=3,
  num_decoder_layers=2,
  head_dim=4,
  mlp_dim=16,
  mlp_activations=("gelu", "linear"),
  logits_via_embedding=False,
)


@pytest.fixture(autouse=True)
def size(monkeypatch):
  monkeypatch.setitem(t5.CONFIGS, "tiny", TINY)


SHAPE = {"batch_size": 1, "input_length": 5, "cache_length": 7}


def test_a_call_by_hand():
  call = roofline.decoder_call(
    RandomModel("tiny", "bfloat16"), tokens=1, **SHAPE
  )
  # Of a layer: query, key, value and out of self-attention, query and out of
  # cross-attention, three matrices of the feed-forward block.
  layer = 4 * 8 * 8 + 2 * 8 * 8 + 3 * 8 * 16
  matrices = 2 * layer + 8 * 100
  norms = 2 * 3 * 8 + 8
  # Keys and values of 7 slots and of 5 inputs, in bfloat16; biases of 2 heads
  # in float32; the mask.
  cache = 2 * 2 * 8 * (7 + 5) * 2 + 2 * 14 * 4 + 5
  assert call.bytes == 2 * matrices + 4 * norms + 2 * 8 + cache
  attention = 2 * 2 * 8 * (7 + 5)
  assert call.operations == 2 * (matrices + attention)


def test_operations_grow_with_tokens_and_bytes_hardly():
  model = RandomModel("tiny", "bfloat16")
  one = roofline.decoder_call(model, tokens=1, **SHAPE)
  eight = roofline.decoder_call(model, tokens=8, **SHAPE)
  assert eight.operations == 8 * one.operations
  assert eight.bytes == one.bytes + 7 * 8 * 2


def test_the_longer_of_two_times():
  chip = chips.CHIPS["v4"]
  reads = roofline.Call(bytes=12 * 10**9, operations=1)
  assert roofline.milliseconds(reads, chip) == pytest.approx(10.0)
  assert roofline.milliseconds(reads, chip, 4) == pytest.approx(2.5)
  computes = roofline.Call(bytes=1, operations=275 * 10**9)
  assert roofline.milliseconds(computes, chip) == pytest.approx(1.0)


def test_an_estimate_is_of_the_ratios():
  pair = RandomModel("tiny", "bfloat16"), RandomModel("tiny", "bfloat16")
  found = roofline.estimate(
    *pair, chips.CHIPS["v5e"], alpha=0.5, gamma=1, **SHAPE
  )
  assert found.cost_ratio == 1
  assert found.verification_ratio == pytest.approx(
    found.verify_ms / found.target_ms
  )
  # 1.5 tokens for a draft call and a verification.
  assert found.speedup == pytest.approx(1.5 / (1 + found.verification_ratio))
  cut = roofline.estimate(
    *pair, chips.CHIPS["v5e"], alpha=0.5, gamma=1, target_parts=4, **SHAPE
  )
  assert cut.cost_ratio == pytest.approx(4)


def test_xxl_on_the_papers_chip():
  """5.6e9 parameters of the decoder at 1.2 TB/s take 9.3 ms."""
  found = roofline.estimate(
    RandomModel("t5_1_1_xxl", "bfloat16"),
    RandomModel("t5_1_1_small", "bfloat16"),
    chips.CHIPS["v4"],
    alpha=0.75,
    gamma=7,
    batch_size=1,
    input_length=512,
    cache_length=136,
  )
  assert 9.2 < found.target_ms < 9.8
  assert 0.005 < found.cost_ratio < 0.01
  assert found.verification_ratio == pytest.approx(1, abs=0.001)


def test_chips():
  assert chips.count("2x2x1") == 4
  with pytest.raises(ValueError, match="no chip named 'v9'.* v4, v5e, v5p"):
    chips.get_chip("v9")
  for wrong in ("", "2x", "0x1", "two"):
    with pytest.raises(ValueError, match="not of the form"):
      chips.count(wrong)
  for chip in chips.CHIPS.values():
    counts = [chips.count(each) for each in chip.slices]
    assert counts == sorted(counts)
    assert counts[0] == 1
