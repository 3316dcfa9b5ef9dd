"""Imports point one way, and heavy packages are loaded where they are used."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "specdec_jax"

# Lower layers first: a module imports from those before it.
LAYERS = (
  "array_typing",
  "analysis",
  "partitioning",
  "keys",
  "config",
  "sampling",
  "base",
  "kv_cache",
  "statistics",
  "verification",
  "drafters",
  "acceptance",
  "speculative",
  "autoregressive",
  "continuous",
)
MODELS = ("t5", "lm")
# What a model package may know of the rest.
SEEN_BY_MODELS = ("array_typing", "base", "kv_cache")
# And of one another: decoder-only models are made of T5's layers.
SEEN_MODELS = {"t5": (), "lm": ("t5",)}
# Each may import a framework by design, and nothing imports it.
EDGES = ("tasks", "t5x_model")
FRAMEWORKS = ("seqio", "tensorflow", "t5x", "tensorflow_text", "torch")
STORAGE = ("orbax", "safetensors", "tensorstore")


def imported_names(source: str) -> set[str]:
  """Dotted names that `source` imports, inside functions too."""
  names = set()
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, ast.Import):
      names |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, "imports name the whole path"
      # `from a import b` may take the module a.b or a name in a.
      names |= {f"{node.module}.{alias.name}" for alias in node.names}
  return names


def roots(names: set[str]) -> set[str]:
  """The packages that dotted names belong to."""
  return {name.split(".")[0] for name in names}


def own_modules(names: set[str]) -> set[str]:
  """The parts of this package among them: "sampling", "t5" ..."""
  parts = (name.split(".") for name in names)
  return {part[1] for part in parts if part[0] == "specdec_jax" and part[1:]}


def files_of(module: str) -> list[pathlib.Path]:
  """The files of a top-level module or subpackage; none if there is none."""
  single = PACKAGE / f"{module}.py"
  if single.exists():
    return [single]
  return sorted((PACKAGE / module).rglob("*.py"))


def imports_of(module: str) -> set[str]:
  return set().union(*(imported_names(f.read_text()) for f in files_of(module)))


def top_level_modules() -> set[str]:
  return {
    path.stem
    for path in PACKAGE.iterdir()
    if path.suffix == ".py" or (path / "__init__.py").exists()
  } - {"__init__"}


def test_the_walk_sees_every_kind_of_import():
  source = (
    "import a.b as c\n"
    "from specdec_jax import t5\n"
    "def f():\n"
    "  from specdec_jax.sampling import sample\n"
  )
  names = imported_names(source)
  assert roots(names) == {"a", "specdec_jax"}
  assert own_modules(names) == {"t5", "sampling"}


def test_every_module_has_a_place():
  known = {*LAYERS, *MODELS, *EDGES, "training"}
  assert top_level_modules() <= known


@pytest.mark.parametrize("module", LAYERS)
def test_a_layer_imports_from_lower_layers_only(module):
  lower = set(LAYERS[: LAYERS.index(module)])
  assert files_of(module), f"specdec_jax/{module} is gone"
  assert own_modules(imports_of(module)) - {module} <= lower


@pytest.mark.parametrize("module", MODELS)
def test_a_model_never_sees_the_algorithm(module):
  assert files_of(module), f"specdec_jax/{module} is gone"
  seen = own_modules(imports_of(module)) - {module}
  assert seen <= {*SEEN_BY_MODELS, *SEEN_MODELS[module]}


def test_training_is_arrays_and_models_only():
  seen = own_modules(imports_of("training")) - {"training"}
  # What a draft learns is the law that decoding makes of logits.
  laws = {"config", "sampling"}
  assert seen <= {*SEEN_BY_MODELS, *MODELS, *laws, "partitioning"}


@pytest.mark.parametrize(
  "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT))
)
def test_a_file_imports_no_framework(path):
  names = roots(imported_names(path.read_text()))
  assert "gin" not in names
  assert "experiments" not in names
  if path.relative_to(PACKAGE).parts[0].removesuffix(".py") not in EDGES:
    assert not names & set(FRAMEWORKS)


@pytest.mark.parametrize("module", LAYERS)
def test_the_core_reads_no_files(module):
  assert not roots(imports_of(module)) & set(STORAGE)


def loaded_by(statement: str) -> set[str]:
  """Packages that a fresh interpreter has loaded after `statement`."""
  code = (
    f"{statement}\nimport sys\n"
    "print(*{name.split('.')[0] for name in sys.modules})"
  )
  run = subprocess.run(
    [sys.executable, "-c", code],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
  )
  return set(run.stdout.split())


def test_import_is_light():
  loaded = loaded_by("import specdec_jax")
  assert "jax" in loaded
  heavy = {*FRAMEWORKS, *STORAGE, "gin", "optax", "rich", "sentencepiece"}
  assert not loaded & heavy


def test_reading_text_loads_no_framework():
  loaded = loaded_by("from specdec_jax.tasks import metrics, parallel_text")
  assert "specdec_jax" in loaded
  assert not loaded & {*FRAMEWORKS, "gin", "sacrebleu", "rouge_score"}


@pytest.mark.parametrize("module", MODELS)
def test_importing_a_model_loads_no_framework(module):
  loaded = loaded_by(f"from specdec_jax import {module}")
  assert "flax" in loaded
  assert not loaded & {*FRAMEWORKS, "gin", "sentencepiece"}
