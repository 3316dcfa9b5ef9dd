import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import types

import pytest

from experiments import compile_tpu, memory
from experiments.ahead_of_time import chips, page
from experiments.decoding.random_pair import RandomModel
from experiments.paper.published import TABLES_2_AND_4
from experiments.paths import REPOSITORY
from specdec_jax import t5
from tests.experiments.tiny_pair import SIZES

TINY = t5.T5Config(vocab_size=64, **SIZES)


@pytest.fixture(autouse=True)
def sizes(monkeypatch):
  monkeypatch.setitem(t5.CONFIGS, "tiny", TINY)
  other = t5.T5Config(vocab_size=32, **SIZES)
  monkeypatch.setitem(t5.CONFIGS, "other", other)


@pytest.fixture
def compiler(monkeypatch):
  """No compiler is asked; a slice holds a program if it has enough chips.

  Returns what was asked for, and how many chips a program needs.
  """
  asked, needed = [], {}

  def cell(chip, topology, target, name, draft, settings):
    asked.append((chip.name, topology, name))
    count = chips.count(topology)
    fits = count >= needed.get((chip.name, name), 1)
    movement = {"copied": 0, "fetched": 3, "written_back": 4, "updated": 48}
    return settings | {
      "chip": chip.name,
      "topology": topology,
      "chips": count,
      "draft": name,
      "gamma": settings["gamma"] if draft else 0,
      "hbm": chip.memory,
      "parameter_bytes": 22 * 10**9 + bool(draft),
      "memory": {
        "arguments": 22 * 10**9,
        "outputs": 0,
        "temporaries": 5 * 10**8,
        "aliased": 0,
        "code": 0,
        "total": 225 * 10**8,
      }
      if fits
      else None,
      "error": None if fits else "Too large by far.",
      "loop": {
        "collectives": {"all-reduce": 76, "all-to-all": 2},
        "in_inner_loops": {},
        "in_draft": {},
      }
      if fits
      else None,
      "caches": {"target": movement} | ({"draft": movement} if draft else {})
      if fits
      else None,
      "seconds": None,
      "estimates": compile_tpu.estimates(
        chip,
        target,
        draft,
        chips=count,
        batch_size=1,
        input_length=8,
        output_length=8,
        replicate_draft=True,
      ),
      "fits": fits,
    }

  monkeypatch.setattr(compile_tpu, "_cell", cell)
  monkeypatch.setattr(chips, "check_compiler", lambda: "0.0")
  return asked, needed


def settings(tmp_path):
  return {
    "target": "tiny",
    "drafts": ("tiny",),
    "chips": ("v4", "v5e"),
    "output_dir": str(tmp_path),
    "input_length": 8,
    "output_length": 8,
    "gamma": 2,
  }


def test_the_smallest_slice_is_sought(compiler, tmp_path):
  asked, needed = compiler
  needed["v5e", "tiny"] = 4
  lines = compile_tpu.run(**settings(tmp_path))
  assert asked == [
    ("v4", "1x1x1", None),
    ("v4", "1x1x1", "tiny"),
    ("v5e", "1x1", None),
    ("v5e", "1x1", "tiny"),
    ("v5e", "2x2", "tiny"),
  ]
  assert [each["fits"] for each in lines] == [True, True, True, False, True]
  text = (tmp_path / "compile_tpu.md").read_text()
  assert "the smallest that holds every program is 1x1x1, 1 chip." in text
  assert "every program is 2x2, 4 chips" in text
  assert "v5e 1x1: Too large by far. (with tiny)" in text
  assert (
    "| v5e | 1x1 | with tiny | 22.00 | – | – | – | – | – | 16.00 | no |"
    in (text)
  )
  assert (
    "| v5e | 2x2 | with tiny | 76 | 0 | 0 | 2 | 0 | 48 + 48 | 0 + 0 | 3 + 3"
    " | 4 + 4 |"
  ) in text
  # Both have two heads on a chip here, so their caches look the same.
  assert "| v4 | 1x1x1 | with tiny | 76 | 0 | 0 | 2 | 0 | 48 together" in text


def test_what_no_slice_holds_is_named(compiler, tmp_path):
  _, needed = compiler
  needed["v4", None] = 1000
  compile_tpu.run(**settings(tmp_path) | {"chips": ("v4",)})
  text = (tmp_path / "compile_tpu.md").read_text()
  assert "v4: no slice tried holds plain." in text


def test_a_second_run_compiles_what_is_missing(compiler, tmp_path):
  asked, _ = compiler
  first = settings(tmp_path)
  compile_tpu.run(**first | {"chips": ("v5e",)})
  del asked[:]
  lines = compile_tpu.run(**first)
  assert asked == [("v4", "1x1x1", None), ("v4", "1x1x1", "tiny")]
  assert [each["chip"] for each in lines] == ["v4", "v4", "v5e", "v5e"]
  del asked[:]
  compile_tpu.run(**first, least_chips=4)
  assert [each[:2] for each in asked] == [("v4", "2x2x1")] * 2 + [
    ("v5e", "2x2")
  ] * 2
  with pytest.raises(ValueError, match="gamma was 2 and is 3"):
    compile_tpu.run(**first | {"gamma": 3})


def test_the_configuration_is_of_the_papers_pairs(
  compiler, tmp_path, monkeypatch
):
  asked, needed = compiler
  for size in ("small", "base", "large", "xxl"):
    # Of the same name: tracing the largest takes long.
    monkeypatch.setitem(t5.CONFIGS, f"t5_1_1_{size}", TINY)
  for name in (None, "t5_1_1_small", "t5_1_1_base", "t5_1_1_large"):
    needed["v5e", name] = 4
  lines = compile_tpu.main(
    ["--gin_file=compile_tpu.gin", f"--output_dir={tmp_path}"]
  )
  assert len(asked) == 4 * 4 + 4
  assert {each["chip"] for each in lines} == {"v4", "v5e", "v5p", "v6e"}
  assert lines[0]["target"] == "t5_1_1_xxl"
  text = (tmp_path / "compile_tpu.md").read_text()
  # Each of the paper's twelve rows, on each slice that holds the pair.
  assert text.count("| EnDe | t5_1_1_") == text.count("| CNN/DM | t5_1_1_")
  assert text.count("| EnDe | t5_1_1_") == 4 * 6
  assert "| EnDe | t5_1_1_small | 0 | 7 | 0.75 | 0.02 |" in text


def test_estimates_are_of_the_papers_rows():
  sizes = {
    "chips": 1,
    "batch_size": 1,
    "input_length": 512,
    "output_length": 128,
    "replicate_draft": True,
  }
  target, draft = (
    RandomModel(name, "bfloat16") for name in ("t5_1_1_xxl", "t5_1_1_base")
  )
  found = compile_tpu.estimates(chips.CHIPS["v4"], target, draft, **sizes)
  rows = [row for row in TABLES_2_AND_4 if row.draft == "base"]
  assert [page.published("t5_1_1_base", each) for each in found] == rows
  for each in found:
    # 0.25 GB of weights over 11.2 GB.
    assert 0.020 < each["cost_ratio"] < 0.025
  assert compile_tpu.estimates(chips.CHIPS["v4"], target, None, **sizes) == []
  assert compile_tpu.estimates(chips.CHIPS["v4"], draft, draft, **sizes) == []


def test_memory_is_added_up_and_compared():
  analysis = types.SimpleNamespace(
    argument_size_in_bytes=100,
    output_size_in_bytes=30,
    temp_size_in_bytes=50,
    alias_size_in_bytes=20,
    generated_code_size_in_bytes=5,
  )
  compiled = types.SimpleNamespace(memory_analysis=lambda: analysis)
  needed = memory.of_program(compiled)
  # What outputs share with arguments is there once.
  assert needed["total"] == 100 + 30 + 50 + 5 - 20
  assert compile_tpu.fits(needed, 165)
  assert not compile_tpu.fits(needed, 164)


WRONG = {
  "a chip that is none": ({"chips": ("v4", "v9")}, "no chip named 'v9'"),
  "a size that is none": ({"drafts": ("huge",)}, "no T5 named 'huge'"),
  "another vocabulary": (
    {"drafts": ("other",)},
    "vocabulary of 64 entries.* other one of 32",
  ),
  "nothing drafted": ({"gamma": 0}, "gamma is 0"),
  "no output": ({"output_length": 0}, "output_length is 0"),
  "float16": ({"dtype": "float16"}, "dtype is float16"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused_before_anything_is_compiled(
  compiler, tmp_path, name
):
  change, message = WRONG[name]
  new = {"output_dir": str(tmp_path / "new")}
  with pytest.raises(ValueError, match=message):
    compile_tpu.run(**settings(tmp_path) | new | change)
  assert not (tmp_path / "new").exists()


def test_without_libtpu_it_says_what_to_install(tmp_path, monkeypatch):
  def version(name):
    raise importlib.metadata.PackageNotFoundError(name)

  monkeypatch.setattr(importlib.metadata, "version", version)
  with pytest.raises(ImportError, match=r"experiments,tpu.* needs no TPU"):
    compile_tpu.run(**settings(tmp_path))


PROGRAM = """
import dataclasses, json, sys
import jax
from experiments import compile_tpu
from experiments.ahead_of_time import chips, programs
from experiments.decoding.random_pair import RandomModel
from specdec_jax import partitioning, t5
import specdec_jax as sd

tiny = t5.T5Config(
  vocab_size=256, emb_dim=128, num_heads=8, head_dim=16, mlp_dim=256,
  num_encoder_layers=1, num_decoder_layers=2,
  mlp_activations=("gelu", "linear"), logits_via_embedding=False,
)
t5.CONFIGS["tiny"] = tiny
# Its heads cannot be cut into four.
t5.CONFIGS["narrow"] = dataclasses.replace(tiny, num_heads=6)
compile_tpu.run(
  target="tiny", drafts=("narrow",), chips=("v5e",), output_dir=sys.argv[1],
  least_chips=4, input_length=16, output_length=16, gamma=4,
)
chip = chips.CHIPS["v5e"]
lowered = programs.lower(
  RandomModel("tiny", "bfloat16"), None,
  config=sd.SpeculativeConfig(gamma=0, max_new_tokens=4),
  mesh=partitioning.make_mesh(data=1, devices=chips.devices(chip, "1x1")),
  batch_size=1, input_length=4,
)
# Kernels are multiplied as they are.
assert "dot_general" in lowered.as_text()
assert "transpose %arg" not in lowered.as_text()
"""


@pytest.mark.skipif(
  importlib.util.find_spec("libtpu") is None,
  reason="libtpu, which compiles for TPUs, is not installed",
)
def test_a_small_pair_is_compiled_for_a_slice(tmp_path):
  environment = {
    name: value
    for name, value in os.environ.items()
    if name != "JAX_DISABLE_MOST_OPTIMIZATIONS"
  }
  run = subprocess.run(
    [sys.executable, "-c", PROGRAM, str(tmp_path)],
    cwd=REPOSITORY,
    env=environment | {"PYTHONPATH": str(REPOSITORY), "JAX_PLATFORMS": "cpu"},
    capture_output=True,
    text=True,
    check=False,
  )
  assert run.returncode == 0, run.stdout + run.stderr
  lines = (tmp_path / "cells.jsonl").read_text().splitlines()
  plain, speculative = map(json.loads, lines)
  for cell in (plain, speculative):
    assert cell["chips"] == 4
    assert cell["fits"]
    assert cell["memory"]["arguments"] > cell["parameter_bytes"] > 0
    # Of two layers, three blocks each; the embedding, and the logits.
    assert cell["loop"]["collectives"]["all-reduce"] >= 7
    for caches in cell["caches"].values():
      assert caches["copied"] == 0
    assert cell["caches"]["target"]["updated"] == 4
  assert speculative["loop"]["in_draft"] == {}
  # Of its first call, and of those in a loop.
  assert speculative["caches"]["draft"]["updated"] == 8
