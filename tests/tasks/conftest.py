import pytest

from experiments.paths import REPOSITORY


@pytest.fixture(scope="session")
def vocabulary() -> str:
  return str(REPOSITORY / "experiments/assets/ende_demo/sentencepiece.model")
