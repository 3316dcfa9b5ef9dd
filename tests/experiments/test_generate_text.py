"""What a model wrote is its own, and is all there after an interruption."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import specdec_jax as sd
from experiments import generate_text, gin_cli
from experiments.records import Records
from experiments.training import data as training_data
from experiments.training import text as training_text
from specdec_jax import lm, t5
from specdec_jax.t5.vocabulary import SentencePieceVocabulary
from tests.experiments import tiny_pair

GREEDY = sd.SamplingConfig(temperature=0.0)
SAMPLED = sd.SamplingConfig(temperature=1.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A pair, a language model, and a text of ten rows."""
  folder = tiny_pair.make_pair(tmp_path_factory.mktemp("pair"))
  (folder / "text.tsv").write_text(
    "".join(f"{each}\t{each}\tx:y\n" for each in tiny_pair.TEXTS)
  )
  size = SentencePieceVocabulary(folder / "sentencepiece.model").vocab_size
  model = lm.LMModel(
    lm.LMConfig(
      vocab_size=size,
      emb_dim=16,
      num_heads=2,
      num_layers=1,
      head_dim=8,
      mlp_dim=16,
    )
  )
  lm.save(folder / "lm", model, model.init(jax.random.key(2)))
  return folder


def files(folder):
  return training_data.TextFiles(
    train=str(folder / "text.tsv"),
    validation=str(folder / "text.tsv"),
    vocabulary=str(folder / "sentencepiece.model"),
  )


def write(folder, output_dir, **changes):
  arguments = {
    "model": str(folder / "target"),
    "data": files(folder),
    "output_dir": str(output_dir),
    "sampling": GREEDY,
    "max_input_length": 32,
    "max_new_tokens": 24,
    "batch_size": 4,
  }
  path = generate_text.run(**{**arguments, **changes})
  return training_text.read_generated(str(path))


def records(output_dir):
  with open(output_dir / generate_text.OUTPUTS) as file:
    return list(map(json.loads, file))


def test_greedy_text_is_the_models_own(folder, tmp_path):
  pairs = write(folder, tmp_path)
  vocabulary = SentencePieceVocabulary(folder / "sentencepiece.model")
  model, params = t5.load(None, folder / "target")
  texts = sorted(map(vocabulary.encode, tiny_pair.TEXTS), key=len)
  inputs = np.zeros((len(texts), 32), np.int32)
  for row, ids in zip(inputs, texts, strict=True):
    row[: len(ids)] = ids
  output = sd.autoregressive_generate(
    jax.random.key(0),
    inputs,
    model=model,
    params=params,
    config=sd.SpeculativeConfig(max_new_tokens=24, sampling=GREEDY),
  )
  wanted = [
    (ids, tokens[:length])
    for ids, tokens, length in zip(
      texts, output.tokens.tolist(), output.lengths.tolist(), strict=True
    )
  ]
  # Those that came to no end are left out.
  finished = [each for each in wanted if each[1][-1] == 1]
  assert pairs == finished
  found = records(tmp_path)
  assert [each["ids"] for each in found] == [ids for _, ids in wanted]


def test_samples_are_independent_and_follow_from_seed_and_source(
  folder, tmp_path
):
  options = {"sampling": SAMPLED, "samples": 3, "limit": 4}
  write(folder, tmp_path / "one", **options)
  one = records(tmp_path / "one")
  assert len(one) == 12
  texts = {}
  for each in one:
    texts.setdefault(each["source"], set()).add(tuple(each["ids"]))
  assert len(texts) == 4
  assert sum(map(len, texts.values())) > 8
  # Neither batches nor the number of samples matter.
  write(folder, tmp_path / "two", **{**options, "samples": 1, "batch_size": 3})
  firsts = {each["source"]: each["ids"] for each in one if each["sample"] == 0}
  two = records(tmp_path / "two")
  assert {each["source"]: each["ids"] for each in two} == firsts
  write(folder, tmp_path / "three", **{**options, "seed": 1})
  assert records(tmp_path / "three") != one


def test_a_draft_writes_too(folder, tmp_path):
  options = {"sampling": SAMPLED}
  write(folder, tmp_path / "target", **options)
  write(folder, tmp_path / "draft", model=str(folder / "draft"), **options)
  assert records(tmp_path / "target") != records(tmp_path / "draft")


def test_an_interrupted_run_keeps_its_batches(folder, tmp_path, monkeypatch):
  options = {"sampling": SAMPLED, "samples": 2}
  whole = write(folder, tmp_path / "whole", **options)
  append = Records.append

  def failing(self, batch):
    if len(self.done) == 12:
      # Half of a batch has reached the disk.
      append(self, batch[:2])
      raise KeyboardInterrupt
    append(self, batch)

  monkeypatch.setattr(Records, "append", failing)
  with pytest.raises(KeyboardInterrupt):
    write(folder, tmp_path / "halves", **options)
  monkeypatch.undo()
  assert not (tmp_path / "halves" / generate_text.GENERATED).exists()
  assert len(records(tmp_path / "halves")) == 14
  decoded = []
  real = generate_text._write

  def counting(batch, *rest):
    decoded.append(batch.size)
    return real(batch, *rest)

  monkeypatch.setattr(generate_text, "_write", counting)
  assert write(folder, tmp_path / "halves", **options) == whole
  assert decoded == [4, 4]
  assert records(tmp_path / "halves") == records(tmp_path / "whole")
  # And a finished run decodes nothing.
  write(folder, tmp_path / "halves", **options)
  assert decoded == [4, 4]
  with pytest.raises(ValueError, match=r"sampling.temperature was 1\.0"):
    write(folder, tmp_path / "halves", samples=1)


def test_a_language_model_goes_on_with_prompts(folder, tmp_path):
  pairs = write(
    folder,
    tmp_path,
    model=str(folder / "lm"),
    data=dataclasses.replace(files(folder), only_source=True),
    sampling=SAMPLED,
    samples=4,
    prompt_tokens=3,
    max_new_tokens=64,
  )
  vocabulary = SentencePieceVocabulary(folder / "sentencepiece.model")
  texts = [vocabulary.encode(each) for each in tiny_pair.TEXTS]
  prompts = [ids[:3] for ids in texts if len(ids) > 4]
  assert 0 < len(prompts) < len(texts)
  found = records(tmp_path)
  assert len(found) == 4 * len(prompts)
  assert pairs == [
    (prompts[each["source"]], each["ids"])
    for each in found
    if each["ids"][-1] == 1
  ]
  assert pairs


def test_the_gin_file_writes(folder, tmp_path):
  path = gin_cli.main(
    generate_text.run,
    name="generate_text",
    configurables=generate_text.CONFIGURABLES,
    argv=[
      "--gin_file=distill/demo_text.gin",
      f"--gin.DATA='{folder}/text.tsv'",
      f"--gin.MODEL='{folder}/target'",
      f"--gin.TextFiles.vocabulary='{folder}/sentencepiece.model'",
      "--gin.SOURCES=()",
      "--gin.TEMPERATURE=1.0",
      "--gin.SAMPLES=2",
      "--gin.generate_text.max_new_tokens=8",
      f"--output_dir={tmp_path}",
    ],
  )
  assert training_text.read_generated(str(path)) is not None
  assert len(records(tmp_path)) == 20


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"samples": 0}, "samples is 0; it must be an integer"),
    ({"samples": 2}, "temperature is 0: all outputs of a source would be"),
    (
      {"sampling": sd.SamplingConfig(temperature=(0.5, 1.0))},
      r"temperature is \(0\.5, 1\.0\); give one number",
    ),
    ({"prompt_tokens": 3}, "prompt_tokens is 3, but .* is no language model"),
    ({"model": "lm"}, "prompt_tokens is None, and the model is a language"),
    (
      {"model": "lm", "prompt_tokens": 30},
      "prompt_tokens is 30, and no text has so many",
    ),
  ],
)
def test_what_cannot_be_is_refused(folder, tmp_path, changes, message):
  if "model" in changes:
    changes = {**changes, "model": str(folder / changes["model"])}
  with pytest.raises(ValueError, match=message):
    write(folder, tmp_path / "out", **changes)
  assert not (tmp_path / "out").exists()
