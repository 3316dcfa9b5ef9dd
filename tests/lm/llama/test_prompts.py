import numpy as np
import pytest

from specdec_jax.lm import llama
from tests.lm.llama import tiny

CONFIG = tiny.TARGET.config


def test_rows_are_filled_up_on_the_right():
  padded = llama.pad_prompts([[1, 5, 0], np.array([1]), [7, 8]], CONFIG)
  assert padded.dtype == np.int32
  assert padded.tolist() == [[1, 5, 0], [1, 1, 1], [7, 8, 1]]


@pytest.mark.parametrize(
  ("prompts", "match"),
  [
    ([], "prompts are empty"),
    ([[1, 2], []], r"prompts\[1\] has shape \(0,\).* BOS alone, \[1\]"),
    ([[1, 2.5]], r"prompts\[0\] .*float64; give token ids"),
    ([[[1, 2]]], r"prompts\[0\] has shape \(1, 2\)"),
    ([[1, 48]], "holds token ids 1 to 48, and the vocabulary has 0 to 47"),
    ([[-1, 3]], "holds token ids -1 to 3"),
    ([[1, 3], [1, 4, 1]], r"prompts\[1\] ends with 1, the pad id"),
    ([[1, 1]], "cannot be told"),
  ],
)
def test_what_cannot_be_told_apart_is_refused(prompts, match, unchecked):
  with pytest.raises(ValueError, match=match):
    llama.pad_prompts(prompts, CONFIG)
