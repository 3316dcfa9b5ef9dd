"""A tiny pair's model card, each figure of it found in another way too."""

import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest

import specdec_jax as sd
from experiments import evaluate, gin_cli, measure_alpha
from experiments.decoding.task import Task
from experiments.records import Records
from experiments.training import data as training_data
from experiments.training import evaluation as training_evaluation
from specdec_jax import lm
from specdec_jax.t5.vocabulary import SentencePieceVocabulary
from specdec_jax.training.step import token_logits
from tests.experiments import tiny_pair

TEXTS = tiny_pair.TEXTS
ORIGINS = ("man:pages/ls", "help:office/a", "man:pages/cat")
ROWS = [(text, TEXTS[-1 - i], ORIGINS[i % 3]) for i, text in enumerate(TEXTS)]
VALIDATION = ROWS[:7]
LOGITS = jax.jit(token_logits, static_argnums=0)


@pytest.fixture(scope="module")
def folder(pair_folder, tmp_path_factory):
  """The test split, the validation split, and a language model."""
  folder = tmp_path_factory.mktemp("text")
  for name, rows in (("test", ROWS), ("validation", VALIDATION)):
    text = "".join("\t".join(row) + "\n" for row in rows)
    (folder / f"{name}.tsv").write_text(text)
  shutil.copy(pair_folder / "sentencepiece.model", folder)
  vocabulary = SentencePieceVocabulary(folder / "sentencepiece.model")
  model = lm.LMModel(
    lm.LMConfig(
      vocab_size=vocabulary.vocab_size,
      emb_dim=16,
      num_heads=2,
      num_layers=1,
      head_dim=8,
      mlp_dim=16,
    )
  )
  params = model.init(jax.random.key(2))
  lm.save(folder / "lm", model, params)
  noise = model.init(jax.random.key(3))
  params = jax.tree.map(lambda x, n: x + 0.1 * n, params, noise)
  lm.save(folder / "lm_draft", model, params)
  return folder


def files(folder, **changes):
  fields = {
    "vocabulary": str(folder / "sentencepiece.model"),
    "validation": str(folder / "validation.tsv"),
    "test": str(folder / "test.tsv"),
  }
  return training_data.TextFiles(**{**fields, **changes})


def lengths(references, outputs):
  """Stands for a metric: other outputs, or references, score otherwise."""
  return {
    "bleu": float(
      sum(
        len(a) + 0.01 * len(b) for a, b in zip(outputs, references, strict=True)
      )
    )
  }


@pytest.fixture(autouse=True)
def metric_by_hand(monkeypatch):
  # Any package that is there.
  monkeypatch.setitem(
    training_evaluation._METRICS, "bleu", ("json", lengths, lambda: "by hand")
  )


def run(pairs, folder, output_dir, **changes):
  arguments = {
    "pairs": pairs,
    "data": files(folder),
    "task": "tiny",
    "output_dir": str(output_dir),
    "metric": "bleu",
    "max_input_length": 32,
    "max_new_tokens": 8,
    "temperatures": (0.0,),
    "gamma": 3,
    "min_tokens": 1000,
    "batch_size": 4,
  }
  return evaluate.run(**{**arguments, **changes})


def results(report):
  """What a report says, but for when and where."""
  return {
    name: value
    for name, value in report.items()
    if name not in ("environment", "command")
  }


@pytest.fixture(scope="module")
def own_draft(pair_config):
  """The target as its own draft."""
  return dataclasses.replace(
    pair_config, name="itself", draft=pair_config.target
  )


@pytest.fixture(scope="module")
def whole(pair_config, own_draft, folder, tmp_path_factory):
  """A run without an interruption: its folder, report, and appended batches."""
  output_dir = tmp_path_factory.mktemp("whole")
  with pytest.MonkeyPatch.context() as patch:
    patch.setitem(
      training_evaluation._METRICS, "bleu", ("json", lengths, lambda: "by hand")
    )
    appended = counted(patch)
    report = run((pair_config, own_draft), folder, output_dir)
  return output_dir, report, len(appended)


def counted(patch, most=None):
  """Lets `most` batches be appended, and fails then."""
  append, appended = Records.append, []

  def counting(self, batch):
    if len(appended) == most:
      raise KeyboardInterrupt
    append(self, batch)
    appended.append(self.path)

  patch.setattr(Records, "append", counting)
  return appended


def encoded(vocabulary, rows, column):
  ids = np.zeros((len(rows), 32), np.int32)
  for row, each in zip(ids, rows, strict=True):
    tokens = vocabulary.encode(each[column])
    row[: len(tokens)] = tokens
  return ids


def test_loss_and_accuracy_are_those_of_the_validation_split(whole, pair):
  _, report, _ = whole
  inputs = encoded(pair.vocabulary, VALIDATION, 0)
  targets = encoded(pair.vocabulary, VALIDATION, 1)
  for model, params, found in zip(
    (pair.target, pair.draft, pair.target),
    (pair.target_params, pair.draft_params, pair.target_params),
    report["models"],
    strict=True,
  ):
    logits = np.asarray(LOGITS(model, params, inputs, targets), np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    chosen = np.take_along_axis(log_probs, targets[..., None], 2)[..., 0]
    counts = targets > 0
    hits = (logits.argmax(-1) == targets)[counts]
    assert found["loss"] == pytest.approx(-chosen[counts].mean(), rel=1e-4)
    assert found["accuracy"] == pytest.approx(hits.mean())
    assert found["parameters"] == sum(x.size for x in jax.tree.leaves(params))
  assert report["validation"]["texts"] == len(VALIDATION)
  assert report["validation"]["tokens"] == counts.sum()
  assert report["models"][0]["loss"] != report["models"][1]["loss"]


def test_greedy_outputs_are_scored_by_origin_and_over_all(whole, pair):
  _, report, _ = whole
  references = [row[1] for row in ROWS]
  kinds = np.array([row[2].split(":")[0] for row in ROWS])
  for model, params, found in (
    (pair.target, pair.target_params, report["models"][0]),
    (pair.draft, pair.draft_params, report["models"][1]),
  ):
    output = sd.autoregressive_generate(
      jax.random.key(0),
      encoded(pair.vocabulary, ROWS, 0),
      model=model,
      params=params,
      config=sd.SpeculativeConfig(
        max_new_tokens=8, sampling=sd.SamplingConfig(temperature=0.0)
      ),
    )
    outputs = list(map(pair.vocabulary.decode, output.tokens.tolist()))
    generated = np.asarray(output.lengths)
    finished = (np.asarray(output.tokens) == 1).any(axis=1)

    def expected(
      chosen, outputs=outputs, generated=generated, finished=finished
    ):
      chosen = np.flatnonzero(chosen)
      return {
        "score": pytest.approx(
          lengths([references[i] for i in chosen], [outputs[i] for i in chosen])
        ),
        "output_tokens": generated[chosen].sum(),
        "unfinished": (~finished)[chosen].sum(),
      }

    scores = found["scores"]
    assert scores["all"] == expected(kinds != "")
    assert scores["by_origin"].keys() == {"help", "man"}
    for kind, each in scores["by_origin"].items():
      assert each == expected(kinds == kind)
  assert report["models"][0]["scores"] != report["models"][1]["scores"]
  counts = report["test"]
  assert (counts["texts"], counts["left_out"]) == (10, 0)
  tokens = [len(pair.vocabulary.encode(each)) for each in references]
  assert counts["tokens"] == sum(tokens)
  assert counts["by_origin"] == {
    kind: {
      "texts": sum(kinds == kind),
      "tokens": np.sum(tokens, where=kinds == kind),
    }
    for kind in ("help", "man")
  }


def test_alpha_is_what_measure_alpha_says(whole, pair_config, tmp_path):
  _, report, _ = whole
  path = tmp_path / "sources.txt"
  path.write_text("".join(f"{row[0]}\n" for row in ROWS))
  (wanted,) = measure_alpha.run(
    drafts={"tiny": pair_config},
    task=Task("texts", str(path)),
    output_dir=str(tmp_path / "alpha"),
    max_input_length=32,
    max_new_tokens=8,
    temperatures=(0.0,),
    gamma=3,
    batch_size=4,
  )
  target, draft, itself = report["models"]
  assert target["alpha"] is None
  (found,) = draft["alpha"]
  assert found["tokens"] == wanted["tokens"]
  for name in ("alpha", "alpha_hat"):
    assert found[name] == pytest.approx(wanted[name])
    assert 0 < found[name]["mean"] < 1
  assert itself["alpha"][0]["alpha"]["mean"] == 1


def test_the_card_has_the_figures(whole):
  output_dir, report, _ = whole
  with open(output_dir / evaluate.REPORT) as file:
    assert json.load(file) == json.loads(json.dumps(report))
  lines = (output_dir / evaluate.CARD).read_text().splitlines()
  target, draft, _ = report["models"]
  alpha = draft["alpha"][0]["alpha"]
  (line,) = [each for each in lines if each.startswith("| tiny draft |")]
  assert f"| {draft['parameters']:,} | {draft['loss']:.3f} |" in line
  assert f"| {alpha['mean']:.3f} ({alpha['low']:.3f}" in line
  (line,) = [each for each in lines if each.startswith("| man | 7 |")]
  score = target["scores"]["by_origin"]["man"]["score"]["bleu"]
  assert f" | {score:.1f} | " in line
  assert any("by hand" in each for each in lines)


def test_an_interrupted_run_does_nothing_twice(
  whole, pair_config, own_draft, folder, tmp_path, monkeypatch
):
  output_dir, report, batches = whole
  total = 0
  for _ in range(batches):
    with pytest.MonkeyPatch.context() as patch:
      appended = counted(patch, most=4)
      try:
        found = run((pair_config, own_draft), folder, tmp_path)
      except KeyboardInterrupt:
        found = None
    total += len(appended)
    if found is not None:
      break
  assert total == batches > 12
  assert results(found) == results(report)
  for path in output_dir.rglob("*.jsonl"):
    other = tmp_path / path.relative_to(output_dir)
    assert other.read_text() == path.read_text()
  with pytest.raises(ValueError, match="max_new_tokens was 8 and is 9"):
    run((pair_config,), folder, tmp_path, max_new_tokens=9)


def test_half_a_batch_is_decoded_again(
  whole, pair_config, own_draft, folder, tmp_path
):
  output_dir, report, _ = whole
  shutil.copytree(output_dir, tmp_path, dirs_exist_ok=True)
  path = tmp_path / "target" / "outputs.jsonl"
  lines = path.read_text().splitlines(keepends=True)
  path.write_text("".join(lines[:5]) + lines[5][:9])
  found = run((pair_config, own_draft), folder, tmp_path)
  assert results(found) == results(report)
  assert path.read_text() == "".join(lines)


def test_a_target_alone(pair_config, folder, tmp_path):
  alone = dataclasses.replace(pair_config, draft=None)
  report = run((alone,), folder, tmp_path, metric=None, test_examples=3)
  (model,) = report["models"]
  assert (model["role"], model["scores"], model["alpha"]) == (
    "target",
    None,
    None,
  )
  assert report["test"]["texts"] == 3
  assert not (tmp_path / "target" / "outputs.jsonl").exists()


def test_a_language_model(folder, tmp_path, pair_config):
  pair = dataclasses.replace(
    pair_config, target=str(folder / "lm"), draft=str(folder / "lm_draft")
  )
  arguments = {
    "data": files(folder, only_source=True),
    "metric": None,
    "prompt_tokens": 3,
    "temperatures": (1.0,),
    "min_tokens": 40,
  }
  report = run((pair,), folder, tmp_path, **arguments)
  models = pair.load()
  targets = encoded(models.vocabulary, VALIDATION, 0)
  logits = LOGITS(
    models.target, models.target_params, np.zeros_like(targets), targets
  )
  log_probs = np.asarray(jax.nn.log_softmax(logits))
  chosen = np.take_along_axis(log_probs, targets[..., None], 2)[..., 0]
  target, draft = report["models"]
  assert target["loss"] == pytest.approx(-chosen[targets > 0].mean(), rel=1e-4)
  assert draft["alpha"][0]["tokens"] >= 40
  assert "BLEU" not in (tmp_path / evaluate.CARD).read_text()


def test_the_gin_file_evaluates(pair_folder, folder, tmp_path):
  report = gin_cli.main(
    evaluate.run,
    name="evaluate",
    configurables=evaluate.CONFIGURABLES,
    argv=[
      "--gin_file=evaluate.gin",
      f"--gin.PairConfig.target='{pair_folder}/target'",
      f"--gin.PairConfig.draft='{pair_folder}/draft'",
      f"--gin.VOCABULARY='{pair_folder}/sentencepiece.model'",
      f"--gin.TextFiles.validation='{folder}/validation.tsv'",
      f"--gin.TextFiles.test='{folder}/test.tsv'",
      "--gin.SOURCES=('help',)",
      "--gin.METRIC=None",
      "--gin.evaluate.pairs=(@PairConfig(), @wide/PairConfig())",
      "--gin.wide/PairConfig.name='wide'",
      f"--gin.wide/PairConfig.draft='{pair_folder}/target'",
      # As in the other tests, so that no other program is compiled.
      "--gin.evaluate.max_new_tokens=8",
      "--gin.evaluate.batch_size=4",
      "--gin.evaluate.input_length_multiple=32",
      "--gin.evaluate.gamma=3",
      "--gin.evaluate.temperatures=(0.0,)",
      f"--output_dir={tmp_path}",
    ],
  )
  assert report["test"]["by_origin"].keys() == {"help"}
  assert [each["pair"] for each in report["models"][1:]] == [
    "ende_demo",
    "wide",
  ]
  assert report["models"][2]["alpha"][0]["alpha"]["mean"] == 1


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"metric": "ter"}, "evaluate.metric is 'ter'; there are bleu, rouge"),
    ({"batch_size": 0}, "batch_size is 0; it must be an integer, at least 1"),
    ({"test_examples": 0}, "test_examples is 0; it must be an integer"),
    ({"gamma": 0}, "gamma is 0; drafting needs"),
    ({"prompt_tokens": 3}, "prompt_tokens is 3, but .* is no language model"),
    (
      {"max_input_length": 1},
      "None of the 7 texts of the validation split has at most 1 tokens",
    ),
  ],
)
def test_what_cannot_be_is_refused(
  pair_config, folder, tmp_path, changes, message
):
  with pytest.raises(ValueError, match=message):
    run((pair_config,), folder, tmp_path / "out", **changes)
  assert not (tmp_path / "out").exists()


def test_a_missing_package_is_told(pair_config, folder, tmp_path, monkeypatch):
  monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
  with pytest.raises(ModuleNotFoundError, match=r"pip install -e '\.\[data\]'"):
    run((pair_config,), folder, tmp_path / "out")


@pytest.mark.parametrize(
  ("changes", "error", "message"),
  [
    ({"test": "no.tsv"}, FileNotFoundError, "no parallel text at 'no.tsv'"),
    ({"test": ()}, ValueError, "TextFiles.test names no file; give one"),
    (
      {"origins": ("man", "hlep")},
      ValueError,
      r"origins names 'hlep', which no row of .*\.tsv has; there are help, man",
    ),
    ({"only_source": True}, ValueError, "Example 0 of the validation split"),
  ],
)
def test_texts_that_cannot_be_are_refused(
  pair_config, folder, tmp_path, changes, error, message
):
  with pytest.raises(error, match=message):
    run((pair_config,), folder, tmp_path / "out", data=files(folder, **changes))
  assert not (tmp_path / "out").exists()


def test_another_vocabulary_is_refused(pair_config, folder, tmp_path):
  other = tmp_path / "other.model"
  texts = [each.upper() for each in TEXTS]
  size = tiny_pair.train_vocabulary(other, texts)
  data = files(folder, vocabulary=str(other))
  with pytest.raises(
    ValueError, match=rf"TextFiles\.vocabulary is {other} \({size} ids\), but"
  ):
    run((pair_config,), folder, tmp_path / "out", data=data)
  assert not (tmp_path / "out").exists()


def test_pairs_have_one_target_and_each_a_name(
  pair_config, own_draft, folder, tmp_path
):
  def refused(pairs, message, error=ValueError):
    with pytest.raises(error, match=message):
      run(pairs, folder, tmp_path / "out")

  refused((), "evaluate.pairs is empty")
  other = dataclasses.replace(own_draft, target=pair_config.draft)
  refused((pair_config, other), r"PairConfig\.target is '.*target' in one of")
  refused((pair_config, pair_config), "PairConfig.name is 'tiny'")
  path = dataclasses.replace(pair_config, name="a/b")
  refused((path,), "'a/b'.*without a slash")
  table = dataclasses.replace(pair_config, draft="bigram.npz")
  refused((table,), "bigram.npz in evaluate.pairs, an n-gram table")
  # Found before the first pair is evaluated.
  missing = dataclasses.replace(own_draft, draft="/no/such")
  refused((pair_config, missing), "/no/such", FileNotFoundError)
  assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
  ("metric", "only_source", "message"),
  [
    ("bleu", True, "evaluate.metric is 'bleu', but .* is a language model"),
    (None, False, "Texts of the validation split have sources, but .*lm"),
  ],
)
def test_a_language_model_needs_texts_alone(
  pair_config, folder, tmp_path, metric, only_source, message
):
  alone = dataclasses.replace(
    pair_config, target=str(folder / "lm"), draft=None
  )
  with pytest.raises(ValueError, match=message):
    run(
      (alone,),
      folder,
      tmp_path / "out",
      metric=metric,
      data=files(folder, only_source=only_source),
      prompt_tokens=3,
    )
