"""alpha of a tiny target's drafts, measured apart from the script."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from experiments import gin_cli, measure_alpha
from experiments.decoding.pair import Pair, PairConfig
from experiments.decoding.task import Task
from experiments.records import Records
from specdec_jax.training.step import token_logits
from tests.enumeration import standardise
from tests.experiments.tiny_pair import TEXTS

LOGITS = jax.jit(token_logits, static_argnums=0)


def measure(pair_config, task, output_dir, **changes):
  arguments = {
    "drafts": {"near": pair_config},
    "task": task,
    "output_dir": str(output_dir),
    "max_input_length": 32,
    "max_new_tokens": 12,
    "gamma": 3,
    "min_tokens": 200,
    "batch_size": 4,
  }
  return measure_alpha.run(**{**arguments, **changes})


def read(path):
  with open(path) as file:
    return list(map(json.loads, file))


def counts(output_dir, temperature, draft="near", lenience="1"):
  name = f"temperature_{temperature}_lenience_{lenience}"
  return read(output_dir / "drafts" / draft / name / measure_alpha.COUNTS)


def text(output_dir, temperature):
  name = f"temperature_{temperature}"
  return read(output_dir / "target" / name / measure_alpha.TEXT)


def by_temperature(cells):
  return {each["temperature"]: each for each in cells}


def found_in(cells):
  """What cells say, but for when and where."""
  return [
    {
      name: value
      for name, value in each.items()
      if name not in ("environment", "command", "min_tokens")
    }
    for each in cells
  ]


def test_greedy_alpha_is_the_agreement_under_the_targets_text(
  pair_config, pair, task, tmp_path
):
  result = measure(pair_config, task, tmp_path, temperatures=(0.0,))
  inputs = np.zeros((10, 32), np.int32)
  for row, each in zip(inputs, task.read(), strict=True):
    ids = pair.vocabulary.encode(each.text)
    row[: len(ids)] = ids
  output = pair.baseline(
    jax.random.key(0),
    inputs,
    sd.SpeculativeConfig(
      max_new_tokens=12, sampling=sd.SamplingConfig(temperature=0.0)
    ),
  )
  logits = LOGITS(pair.draft, pair.draft_params, inputs, output.tokens)
  counts = np.arange(12) < np.asarray(output.lengths)[:, None]
  tokens = int(counts.sum())
  agreed = int(np.sum(counts & (np.argmax(logits, -1) == output.tokens)))
  found = by_temperature(result)[0.0]
  assert found["tokens"] == tokens
  assert found["alpha"]["mean"] == pytest.approx(agreed / tokens)
  assert 0 < agreed < tokens
  # There is one round over the texts, and that is said.
  assert found["texts"] == 10
  assert found["enough_tokens"] == (tokens >= 200)


def test_sampled_alpha_is_the_mean_of_the_shared_mass(
  pair_config, task, tmp_path, capsys
):
  result = measure(pair_config, task, tmp_path, temperatures=(0.0, 1.0))
  found = by_temperature(result)[1.0]
  assert found["tokens"] >= 200
  assert found["enough_tokens"]
  rows = counts(tmp_path, 1)
  assert found["texts"] == len(rows)
  # Texts come round again, in order, until there is enough.
  assert [each["index"] for each in rows] == [i % 10 for i in range(len(rows))]
  assert [each["sample"] for each in rows] == [
    i // 10 for i in range(len(rows))
  ]
  shared = sum(each["shared"] for each in rows)
  assert found["alpha"]["mean"] == pytest.approx(shared / found["tokens"])
  assert found["alpha"]["low"] < found["alpha"]["mean"] < 1
  examined = sum(each["examined"] for each in rows)
  accepted = sum(each["accepted"] for each in rows)
  assert found["alpha_hat"]["mean"] == pytest.approx(accepted / examined)
  # Two estimates of one thing, from samples of their own.
  spread = found["alpha_hat"]["high"] - found["alpha_hat"]["low"]
  difference = found["alpha"]["mean"] - found["alpha_hat"]["mean"]
  assert abs(difference) < 1.5 * spread
  assert read(tmp_path / measure_alpha.CELLS) == result
  assert [(each["draft"], each["lenience"]) for each in result] == [
    ("near", 1.0)
  ] * 2
  # Both drafted from what the target wrote.
  assert [len(each["ids"]) for each in text(tmp_path, 1)] == [
    each["tokens"] for each in rows
  ]
  shown = capsys.readouterr().out
  assert "LOSSY" not in shown
  assert f"{found['alpha']['mean']:.3f}" in shown
  assert f"{found['alpha_hat']['mean']:.3f}" in shown


def test_a_texts_shared_mass_is_that_of_both_laws(
  pair_config, pair, task, tmp_path, monkeypatch
):
  outputs = []
  real = type(pair).baseline

  def watched(self, keys, inputs, config):
    output = real(self, keys, inputs, config)
    outputs.append((np.asarray(inputs), output))
    return output

  monkeypatch.setattr(type(pair), "baseline", watched)
  sampling = {"top_k": 20, "top_p": 0.9}
  measure(
    pair_config, task, tmp_path, temperatures=(0.7,), min_tokens=30, **sampling
  )
  config = sd.SamplingConfig(0.7, **sampling)
  row = counts(tmp_path, 0.7)[1]
  inputs, output = outputs[0]
  length = int(output.lengths[1])
  assert row["tokens"] == length
  p, q = (
    standardise(
      np.asarray(
        LOGITS(model, params, inputs[1:2], output.tokens[1:2, :length])
      ),
      config,
    )
    for model, params in (
      (pair.target, pair.target_params),
      (pair.draft, pair.draft_params),
    )
  )
  assert row["shared"] == pytest.approx(np.minimum(p, q).sum(), abs=1e-3)


def test_an_interrupted_measurement_goes_on(
  pair_config, task, tmp_path, monkeypatch
):
  options = {"temperatures": (0.0, 1.0), "min_tokens": 180}
  whole = measure(pair_config, task, tmp_path / "whole", **options)
  paths = [
    path.relative_to(tmp_path / "whole")
    for path in (tmp_path / "whole").rglob("*.jsonl")
  ]
  assert len(paths) == 5
  append = Records.append

  def interrupt(most):
    """The batch after `most` others is half written."""
    count = 0

    def failing(self, batch):
      nonlocal count
      if count == most:
        append(self, batch[:1])
        raise KeyboardInterrupt
      append(self, batch)
      count += 1

    monkeypatch.setattr(Records, "append", failing)
    with pytest.raises(KeyboardInterrupt):
      measure(pair_config, task, tmp_path / "halves", **options)
    monkeypatch.undo()

  interrupt(1)  # While the target writes,
  assert len(text(tmp_path / "halves", 0)) == 5
  interrupt(3)  # and while its texts are drafted for.
  assert len(text(tmp_path / "halves", 0)) == 10
  assert len(counts(tmp_path / "halves", 0)) == 5
  halves = measure(pair_config, task, tmp_path / "halves", **options)
  assert found_in(halves) == found_in(whole)
  for path in paths:
    if path.name != measure_alpha.CELLS:
      halved = (tmp_path / "halves" / path).read_text()
      assert halved == (tmp_path / "whole" / path).read_text()
  # More tokens are added to those that are there, fewer are taken of them.
  more = measure(
    pair_config, task, tmp_path / "halves", **{**options, "min_tokens": 300}
  )
  before = counts(tmp_path / "whole", 1)
  assert counts(tmp_path / "halves", 1)[: len(before)] == before
  assert by_temperature(more)[1.0]["tokens"] >= 300
  again = measure(pair_config, task, tmp_path / "halves", **options)
  assert found_in(again) == found_in(whole)
  with pytest.raises(ValueError, match="seed was 0 and is 1"):
    measure(pair_config, task, tmp_path / "halves", **options, seed=1)


@pytest.fixture(scope="module")
def bigram(pair, tmp_path_factory):
  """A table of the tiny pair's texts."""
  path = tmp_path_factory.mktemp("ngrams") / "bigram.npz"
  texts = [pair.vocabulary.encode(each) for each in TEXTS]
  sd.save_ngrams(
    path, sd.count_ngrams(texts, vocab_size=pair.vocabulary.vocab_size)
  )
  return path


def test_drafts_and_leniences_share_what_the_target_wrote(
  pair_config, bigram, task, tmp_path, monkeypatch, capsys
):
  options = {"temperatures": (1.0,), "min_tokens": 60}
  exact = measure(pair_config, task, tmp_path, **options)
  written = text(tmp_path, 1)
  # The target writes nothing more, and cells that are there stay.
  monkeypatch.setattr(Pair, "baseline", None)
  drafts = {
    "near": pair_config,
    "bigram": dataclasses.replace(pair_config, draft=str(bigram)),
  }
  cells = measure(
    pair_config,
    task,
    tmp_path,
    drafts=drafts,
    leniences=(1.0, 0.3),
    **options,
  )
  assert text(tmp_path, 1) == written
  assert read(tmp_path / measure_alpha.CELLS) == cells
  assert [(each["draft"], each["lenience"]) for each in cells] == [
    ("near", 1.0),
    ("near", 0.3),
    ("bigram", 1.0),
    ("bigram", 0.3),
  ]
  assert found_in(cells[:1]) == found_in(exact)
  assert len({each["tokens"] for each in cells}) == 1
  for strict, lenient in (cells[:2], cells[2:]):
    for name in ("alpha", "alpha_hat"):
      assert 0 < strict[name]["mean"] < lenient[name]["mean"] <= 1 + 1e-6
  assert "LOSSY: lenience 0.3." in capsys.readouterr().out
  # The bigram's beta by hand: its law after each token of the target's.
  models = drafts["bigram"].load()
  ids = written[0]["ids"]
  inputs, tokens = np.zeros((1, 32), np.int32), np.zeros((1, 12), np.int32)
  encoded = models.vocabulary.encode(TEXTS[0])
  inputs[0, : len(encoded)], tokens[0, : len(ids)] = encoded, ids
  logits = LOGITS(models.target, models.target_params, inputs, tokens)
  p = standardise(np.asarray(logits)[0, : len(ids)], sd.SamplingConfig())
  q = models.draft_params.laws(jnp.array([[0, *ids[:-1]]]))[0]
  expected = np.sum(sd.analysis.shared_mass(p, q, 0.3))
  (row, *_) = counts(tmp_path, 1, "bigram", "0.3")
  assert row["shared"] == pytest.approx(expected, abs=1e-3)


def test_alpha_alone_decodes_nothing(pair_config, task, tmp_path, monkeypatch):
  monkeypatch.setattr(Pair, "speculative", None)
  (found,) = measure(
    pair_config, task, tmp_path, temperatures=(0.0,), decode=False
  )
  assert 0 < found["alpha"]["mean"] < 1
  assert found["alpha_hat"] is found["block_efficiency"] is None


def test_alpha_of_the_targets_own_layers(pair_config, task, tmp_path):
  (found,) = measure(
    pair_config,
    task,
    tmp_path,
    drafts={
      "itself": dataclasses.replace(
        pair_config, draft=None, self_draft_layers=(0,)
      )
    },
    temperatures=(1.0,),
    decode=False,
  )
  # It has one layer.
  assert found["alpha"]["mean"] == pytest.approx(1, abs=1e-5)


def test_the_gin_file_measures(pair_folder, task, tmp_path):
  result = gin_cli.main(
    measure_alpha.run,
    name="measure_alpha",
    configurables=(PairConfig, Task),
    argv=[
      "--gin_file=measure_alpha.gin",
      f"--gin.PairConfig.target='{pair_folder}/target'",
      f"--gin.PairConfig.draft='{pair_folder}/draft'",
      f"--gin.PairConfig.vocabulary='{pair_folder}/sentencepiece.model'",
      f"--gin.Task.path='{task.path}'",
      "--gin.Task.column=None",
      "--gin.measure_alpha.max_new_tokens=4",
      "--gin.measure_alpha.min_tokens=20",
      f"--output_dir={tmp_path}",
    ],
  )
  assert set(by_temperature(result)) == {0.0, 1.0}


def test_the_gin_file_of_the_paper_names_its_drafts(
  pair_folder, task, tmp_path
):
  with pytest.raises(FileNotFoundError, match=r"none\.npz; .*count_ngrams"):
    measure_alpha.main(
      [
        "--gin_file=measure_alpha_ende.gin",
        f"--gin.PairConfig.target='{pair_folder}/target'",
        f"--gin.PairConfig.vocabulary='{pair_folder}/sentencepiece.model'",
        f"--gin.unigram/PairConfig.draft='{tmp_path}/none.npz'",
        f"--gin.Task.path='{task.path}'",
        "--gin.Task.column=None",
        "--gin.Task.origin=None",
        "--gin.Task.kinds=()",
        f"--output_dir={tmp_path}",
      ]
    )


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"gamma": 0}, "gamma is 0; drafting needs"),
    ({"leniences": ()}, r"leniences is \(\); give one or more"),
    ({"leniences": (1, 1.0)}, r"leniences is \(1\.0, 1\.0\)"),
    ({"leniences": (1.5,)}, "lenience is 1.5; it must lie in"),
    ({"drafts": {}}, "measure_alpha.drafts is empty; give a PairConfig"),
    ({"temperatures": ()}, r"temperatures is \(\); give one or more"),
    ({"temperatures": (1.0, 1.0)}, r"temperatures is \(1\.0, 1\.0\)"),
    ({"min_tokens": 0}, "min_tokens is 0; it must be an integer"),
    ({"prompt_tokens": 4}, "prompt_tokens is 4, but .* is no language model"),
  ],
)
def test_what_cannot_be_is_refused(
  pair_config, task, tmp_path, changes, message
):
  with pytest.raises(ValueError, match=message):
    measure(pair_config, task, tmp_path, **changes)
  assert not list(tmp_path.rglob("*.jsonl"))
