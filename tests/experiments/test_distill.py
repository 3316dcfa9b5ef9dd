"""A draft comes nearer to its target, whatever it reads and measures by."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import specdec_jax as sd
from experiments import (
  distill,
  generate_text,
  gin_cli,
  self_draft,
  share_encoder,
)
from experiments.training import loop as training_loop
from experiments.training.data_mixture import Fractions
from specdec_jax import lm, t5
from specdec_jax.t5.vocabulary import SentencePieceVocabulary
from specdec_jax.training.distillation import Divergence
from specdec_jax.training.optimizer import OptimizerConfig
from tests.experiments import tiny_training
from tests.experiments.tiny_training import curve, files, lm_config, t5_config

SAMPLED = sd.SamplingConfig(temperature=1.0)
GREEDY = sd.SamplingConfig(temperature=0.0)
ALL_KINDS = Fractions(corpus=0.2, target=0.3, draft=0.5)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
  """A text, its vocabulary, a trained target and what that wrote."""
  folder = tiny_training.make_text(tmp_path_factory.mktemp("text"))
  target = tiny_training.run(folder, folder / "run", steps=60)
  target.rename(folder / "target")
  for name, sampling in (("greedy", GREEDY), ("sampled", SAMPLED)):
    generate_text.run(
      model=str(folder / "target"),
      data=files(folder),
      output_dir=str(folder / name),
      sampling=sampling,
      limit=24,
      max_input_length=64,
      input_length_multiple=64,
      max_new_tokens=16,
      batch_size=24,
    )
  return folder


def written(text, name):
  path = str(text / name / generate_text.GENERATED)
  return files(text, train=path, validation=path)


def run(text, output_dir, *, steps=40, name="sampled", **changes):
  """Distils; arguments override those of `distill.run`."""
  sampling = {"greedy": GREEDY, "sampled": SAMPLED}[name]
  path = str(text / name / generate_text.GENERATED)
  arguments = {
    "target": str(text / "target"),
    "model": t5_config(text, emb_dim=8),
    "data": files(text, validation=path),
    "target_text": written(text, name),
    "divergence": Divergence("forward_kl", sampling),
    "optimizer": OptimizerConfig(0.03, warmup_steps=2, decay_steps=2),
    "loop": training_loop.LoopConfig(
      steps, log_every=2, evaluate_every=4, checkpoint_every=4
    ),
    "output_dir": str(output_dir),
    "write_every": 4,
    "tokens_per_batch": 128,
    "widths": (64,),
  }
  return distill.run(**{**arguments, **changes})


def test_it_learns_from_all_it_reads_and_its_alpha_is_the_papers(
  text, tmp_path
):
  path = run(text, tmp_path, fractions=ALL_KINDS)
  acceptance = curve(tmp_path, "validation_acceptance")
  divergence = curve(tmp_path, "validation_divergence")
  assert acceptance[40] > acceptance[4] + 0.05
  assert divergence[40] < 0.8 * divergence[4]
  draft, draft_params = t5.load(None, path)
  assert draft.config.dropout_rate == 0.0
  rows, tokens = written(text, "sampled").load("train", max_tokens=64), []
  inputs = np.zeros((len(rows), 64), np.int32)
  tokens = np.zeros((len(rows), 64), np.int32)
  for row, (source, ids) in enumerate(rows):
    inputs[row, : len(source)] = source
    tokens[row, : len(ids)] = ids
  target, target_params = t5.load(None, text / "target")
  betas = sd.acceptance_probabilities(
    inputs,
    tokens,
    target=target,
    target_params=target_params,
    drafter=sd.model_drafter(draft),
    draft_params=draft_params,
    sampling=SAMPLED,
  )
  alpha = sd.mean_acceptance(betas, np.array([len(ids) for _, ids in rows]))
  # The draft was saved as bfloat16.
  assert acceptance[40] == pytest.approx(alpha, abs=0.02)


@pytest.mark.parametrize("kind", ["jsd", "alpha", "hybrid"])
def test_other_divergences_fall_too(text, tmp_path, kind):
  run(
    text,
    tmp_path,
    name="greedy",
    divergence=Divergence(kind, GREEDY),
    fractions=Fractions(target=0.5, draft=0.5),
  )
  divergence = curve(tmp_path, "validation_divergence")
  assert divergence[40] < 0.9 * divergence[4]
  acceptance = curve(tmp_path, "validation_acceptance")
  assert acceptance[40] > acceptance[4]


def test_a_run_that_was_stopped_ends_as_one_that_was_not(
  text, tmp_path, monkeypatch
):
  whole = run(text, tmp_path / "whole", steps=12, fractions=ALL_KINDS)
  wrapped = distill.OnPolicyStep.__call__

  def failing(self, state, *rest):
    if int(state.step) == 10:
      raise KeyboardInterrupt
    return wrapped(self, state, *rest)

  monkeypatch.setattr(distill.OnPolicyStep, "__call__", failing)
  with pytest.raises(KeyboardInterrupt):
    run(text, tmp_path / "halves", steps=12, fractions=ALL_KINDS)
  monkeypatch.undo()
  halves = run(text, tmp_path / "halves", steps=12, fractions=ALL_KINDS)
  assert curve(tmp_path / "halves") == curve(tmp_path / "whole")
  for a, b in zip(
    *(jax.tree.leaves(t5.load(None, each)[1]) for each in (whole, halves)),
    strict=True,
  ):
    np.testing.assert_array_equal(a, b)
  with pytest.raises(ValueError, match=r"divergence\.kind was 'forward_kl'"):
    run(
      text,
      tmp_path / "halves",
      steps=12,
      fractions=ALL_KINDS,
      divergence=Divergence("jsd", SAMPLED),
    )


def test_it_starts_from_a_draft_and_its_shape(text, tmp_path):
  first = run(text, tmp_path / "first")
  path = run(text, tmp_path / "second", steps=4, model=None, initial=str(first))
  assert t5.load(None, path)[0].config.emb_dim == 8
  reached = curve(tmp_path / "first", "validation_divergence")
  again = curve(tmp_path / "second", "validation_divergence")
  assert again[4] < reached[12]


def test_a_language_model_reads_what_it_wrote(text, tmp_path):
  model = lm_config(text)
  network = lm.LMModel(model)
  lm.save(text / "lm_target", network, network.init(jax.random.key(3)))
  run(
    text,
    tmp_path,
    steps=12,
    model=model,
    target=str(text / "lm_target"),
    data=files(text, only_source=True),
    target_text=None,
    fractions=Fractions(target=0.0, draft=1.0),
  )
  divergence = curve(tmp_path, "validation_divergence")
  assert divergence[12] < divergence[4]


def test_the_gin_file_distils(text, tmp_path):
  generated = text / "sampled" / generate_text.GENERATED
  vocabulary = text / "sentencepiece.model"
  path = run(text, tmp_path / "draft", steps=4)
  flags = {
    "DATA": f"'{text}/text.tsv.gz'",
    "TARGET_TEXT": f"'{generated}'",
    "VALIDATION": f"'{generated}'",
    "TARGET": f"'{text}/target'",
    "INITIAL": f"'{path}'",
    "VOCABULARY": f"'{vocabulary}'",
    "SOURCES": "()",
    "TEMPERATURE": "1.0",
    "LoopConfig.steps": "4",
    "LoopConfig.checkpoint_every": "2",
    "OptimizerConfig.warmup_steps": "1",
    "OptimizerConfig.decay_steps": "1",
    "distill.widths": "(64,)",
    "distill.tokens_per_batch": "128",
    "distill.write_every": "2",
  }
  saved = gin_cli.main(
    distill.run,
    name="distill",
    configurables=distill.CONFIGURABLES,
    argv=[
      "--gin_file=distill/demo_draft.gin",
      f"--output_dir={tmp_path}/out",
      *(f"--gin.{key}={value}" for key, value in flags.items()),
    ],
  )
  assert t5.load(None, saved)[0].config.emb_dim == 8
  manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
  assert manifest["divergence"]["sampling"]["temperature"] == 1.0
  assert manifest["fractions"] == {"corpus": 0.0, "target": 0.5, "draft": 0.5}


def test_what_does_not_fit_is_refused(text, tmp_path):
  def refused(error, message, **changes):
    with pytest.raises(error, match=message):
      run(text, tmp_path / "out", **changes)
    assert not (tmp_path / "out").exists()

  refused(
    ValueError,
    r"Fractions\.target is 1\.0, and target_text is None",
    target_text=None,
  )
  refused(
    ValueError,
    r"checkpoint_every is 4, no multiple of write_every = 3",
    write_every=3,
    fractions=ALL_KINDS,
  )
  refused(ValueError, "write_every is 0", write_every=0)
  refused(ValueError, "model and initial are both None", model=None)
  size = SentencePieceVocabulary(text / "sentencepiece.model").vocab_size
  refused(
    ValueError,
    rf"has {size} logits, the draft {size + 2}",
    model=t5_config(text, vocab_size=size + 2),
  )
  refused(FileNotFoundError, "/no/such", target="/no/such")
  refused(
    ValueError,
    "both must have the target's",
    target_text=files(text, vocabulary="other.model"),
  )


def test_a_draft_learns_with_its_targets_encoder(text, tmp_path):
  own = run(text, tmp_path / "own", steps=8)
  shared = share_encoder.run(
    draft=str(own),
    target=str(text / "target"),
    data=files(text),
    output_dir=str(tmp_path / "shared"),
    max_tokens=64,
  )
  result = json.loads((tmp_path / "shared" / share_encoder.RESULT).read_text())
  assert 0 < result["explained"] < 1
  start = t5.load(None, shared)[0].config
  larger = dataclasses.replace(start, emb_dim=12, num_decoder_layers=2)
  output_dir = tmp_path / "run"
  path = run(text, output_dir, model=larger, initial=str(shared))
  model, params = t5.load(None, path)
  assert model.config == dataclasses.replace(larger, dropout_rate=0.0)
  assert model.shares_encoder
  assert "encoder" not in params
  acceptance = curve(output_dir, "validation_acceptance")
  assert acceptance[40] > acceptance[4] + 0.05
  with pytest.raises(
    FileExistsError, match=r"shared/model is there.*overwrite"
  ):
    share_encoder.run(
      draft=str(own),
      target=str(text / "target"),
      data=files(text),
      output_dir=str(tmp_path / "shared"),
    )
  with pytest.raises(ValueError, match=r"Fractions\.draft is 0\.5, but the"):
    run(text, tmp_path / "new", model=larger, fractions=ALL_KINDS)


def test_a_draft_begins_as_layers_of_its_target(text, tmp_path):
  layers = gin_cli.main(
    self_draft.run,
    name="self_draft",
    configurables=(),
    argv=[
      "--gin_file=self_draft.gin",
      f"--gin.self_draft.target='{text}/target'",
      "--gin.self_draft.layers=(0,)",
      f"--output_dir={tmp_path}/layers",
    ],
  )
  target, params = t5.load(None, text / "target")
  draft, draft_params = t5.load(None, layers)
  assert draft == t5.self_draft(target, params, (0,))[0]
  for name in ("token_embedder", "decoder"):
    jax.tree.map(
      np.testing.assert_array_equal, draft_params[name], params[name]
    )
  # It knows what the target knows, which has no other layer.
  run(text, tmp_path / "run", steps=4, model=None, initial=str(layers))
  run(text, tmp_path / "new", steps=4)
  known, new = (
    curve(tmp_path / name, "validation_acceptance")[4]
    for name in ("run", "new")
  )
  assert known > 0.8 > 0.5 > new
  with pytest.raises(FileExistsError, match=r"layers/model is there"):
    self_draft.run(
      target=str(text / "target"),
      layers=(0,),
      output_dir=str(tmp_path / "layers"),
    )
  with pytest.raises(ValueError, match=r"layers is \(1,\)"):
    self_draft.run(
      target=str(text / "target"),
      layers=(1,),
      output_dir=str(tmp_path / "others"),
    )
