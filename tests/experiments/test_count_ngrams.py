"""Tables of a training text, and a pair that drafts from one of them."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import specdec_jax as sd
from experiments import count_ngrams
from experiments.decoding.batching import make_batches
from tests.experiments.tiny_pair import TEXTS, save_zeros

ROWS = list(zip(TEXTS, reversed(TEXTS), strict=True))


def main(pair_folder, folder, *bindings):
  (folder / "train.tsv").write_text(
    "".join(f"{source}\t{target}\tman:a\n" for source, target in ROWS)
    + "one of\tanother kind\tgame:b\n"
  )
  return count_ngrams.main(
    [
      "--gin_file=count_ngrams.gin",
      f"--gin.CORPORA='{folder}'",
      f"--gin.VOCABULARY='{pair_folder}/sentencepiece.model'",
      "--gin.TRAIN=('train.tsv',)",
      "--gin.ORIGINS=('man',)",
      f"--output_dir={folder / 'out'}",
      *bindings,
    ]
  )


@pytest.fixture(scope="module")
def counted(pair_folder, tmp_path_factory):
  folder = tmp_path_factory.mktemp("text")
  return folder, main(pair_folder, folder)


def test_the_targets_of_the_training_text_are_counted(
  counted, pair, pair_folder
):
  folder, result = counted
  texts = [pair.vocabulary.encode(target) for _, target in ROWS]
  assert all(text[-1] == 1 for text in texts)
  for order, name in enumerate(("unigram", "bigram"), start=1):
    table = sd.load_ngrams(folder / "out" / f"{name}.npz")
    expected = sd.count_ngrams(
      texts, vocab_size=pair.vocabulary.vocab_size, order=order
    )
    jax.tree.map(np.testing.assert_array_equal, table, expected)
  assert (result["texts"], result["tokens"]) == (10, sum(map(len, texts)))
  with open(folder / "out" / count_ngrams.RESULT) as file:
    assert json.load(file) == json.loads(json.dumps(result))
  with pytest.raises(FileExistsError, match=r"gram\.npz is there.*overwrite"):
    main(pair_folder, folder)
  again = main(
    pair_folder,
    folder,
    "--gin.count_ngrams.overwrite=True",
    "--gin.count_ngrams.vocab_size=70",
  )
  assert again["examples"] == result["examples"]
  assert sd.load_ngrams(folder / "out" / "bigram.npz").vocab_size == 70
  with pytest.raises(ValueError, match="vocab_size is 5; it must be"):
    main(
      pair_folder,
      folder,
      "--gin.count_ngrams.overwrite=True",
      "--gin.count_ngrams.vocab_size=5",
    )


def test_a_table_drafts_for_a_target(counted, pair_config, tmp_path):
  """Also for a target with more padding than the table has words."""
  folder, _ = counted
  path = folder / "out" / "unigram.npz"
  models = dataclasses.replace(pair_config, draft=str(path)).load()
  encoded = [models.vocabulary.encode(each) for each in TEXTS]
  (batch,) = make_batches(encoded, range(4), batch_size=4, length_multiple=32)
  config = sd.SpeculativeConfig(
    gamma=3, max_new_tokens=12, sampling=sd.SamplingConfig(temperature=0.0)
  )
  keys = jax.random.split(jax.random.key(0), 4)
  output = models.speculative(keys, batch.inputs, config)
  baseline = models.baseline(keys, batch.inputs, config)
  np.testing.assert_array_equal(output.tokens, baseline.tokens)
  assert np.sum(output.stats.drafted) > 0
  wide = save_zeros(tmp_path / "wide", vocab_size=96)
  models = dataclasses.replace(
    pair_config, target=str(wide), draft=str(path)
  ).load()
  assert models.drafter.vocab_size == models.target.vocab_size == 96
  assert models.draft.vocab_size < 96


def test_a_table_that_does_not_fit_is_refused(pair_config, tmp_path):
  def draft(path, **changes):
    return dataclasses.replace(pair_config, draft=str(path), **changes)

  with pytest.raises(FileNotFoundError, match="experiments.count_ngrams"):
    draft(tmp_path / "none.npz").load()
  with pytest.raises(ValueError, match="draft_config is 't5_small', but the"):
    draft("bigram.npz", draft_config="t5_small")
  path = tmp_path / "other.npz"
  sd.save_ngrams(path, sd.count_ngrams([[2, 1]], vocab_size=5))
  with pytest.raises(ValueError, match=r"but the model .*other\.npz has emb"):
    draft(path).load()
  path.write_bytes(b"no table")
  with pytest.raises(ValueError, match=r"other\.npz holds no n-gram table"):
    draft(path).load()
