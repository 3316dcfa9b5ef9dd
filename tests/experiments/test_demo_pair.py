"""The pair that is shipped, on a few of the sentences beside it."""

import json

from experiments import exactness


def test_greedy_speculation_is_the_baseline(tmp_path):
  code = exactness.main(
    [
      "--gin_file=exactness.gin",
      "--gin.Task.limit=4",
      "--gin.exactness.gammas=[5]",
      "--gin.exactness.batch_sizes=[3]",
      "--gin.exactness.max_new_tokens=40",
      f"--output_dir={tmp_path}",
    ]
  )
  assert code == 0
  result = json.loads((tmp_path / exactness.RESULT).read_text())
  assert result["pair"] == "ende_demo"
  assert result["texts"] == 4
  assert result["tokens"] > 40  # Sentences, not four ends.
