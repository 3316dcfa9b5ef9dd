import pytest

from specdec_jax.tasks import metrics

REASON = "needs the extra 'data': pip install -e '.[data]'"


def test_bleu_of_predictions_by_hand():
  pytest.importorskip("sacrebleu", reason=REASON)
  target = "the file is in the folder"
  assert metrics.bleu([target], [target])["bleu"] == pytest.approx(100)
  # Of 5 words, 5, 3, 1 and 0 of 5, 4, 3 and 2 n-grams: the last counts as a
  # half. One word is missing.
  prediction = "the file in the folder"
  precisions = (5 / 5) * (3 / 4) * (1 / 3) * (0.5 / 2)
  expected = 100 * precisions**0.25 * 2.718281828459045 ** (1 - 6 / 5)
  assert metrics.bleu([target], [prediction])["bleu"] == pytest.approx(expected)
  # The international tokenizer separates what is no letter.
  assert metrics.bleu(["a (b) c"], ["a ( b ) c"])["bleu"] == pytest.approx(100)


def test_bleu_is_of_the_whole_corpus():
  pytest.importorskip("sacrebleu", reason=REASON)
  targets = ["one two three four five", "six seven eight nine ten"]
  both = metrics.bleu(targets, [targets[0], "six six six six six"])["bleu"]
  precisions = (6 / 10) * (4 / 8) * (3 / 6) * (2 / 4)
  assert both == pytest.approx(100 * precisions**0.25)


def test_the_signature_says_how_bleu_scores():
  sacrebleu = pytest.importorskip("sacrebleu", reason=REASON)
  assert metrics.bleu_signature() == (
    "nrefs:1|case:mixed|eff:no|tok:intl|smooth:exp|version:"
    + sacrebleu.__version__
  )


def test_rouge_of_predictions_by_hand():
  pytest.importorskip("rouge_score", reason=REASON)
  # Three of four words, two of three pairs; and nothing at all.
  scores = metrics.rouge(
    ["the file is small", "not used"], ["the file is large", "never mind"]
  )
  assert scores == pytest.approx(
    {"rouge1": 75 / 2, "rouge2": 200 / 3 / 2, "rougeLsum": 75 / 2}
  )


def test_rouge_compares_sentences():
  pytest.importorskip("rouge_score", reason=REASON)
  target = "the file is small . it is new ."
  swapped = "it is new . the file is small ."
  scores = metrics.rouge([target], [swapped])
  # As one sentence, their longest common subsequence would be four words.
  assert scores["rougeLsum"] == pytest.approx(100)


def test_rouge_says_which_package_scores():
  pytest.importorskip("rouge_score", reason=REASON)
  assert "no stemming, rouge-score 0." in metrics.rouge_signature()


@pytest.mark.parametrize("metric", [metrics.bleu, metrics.rouge])
def test_each_target_has_a_prediction(metric):
  pytest.importorskip("sacrebleu", reason=REASON)
  pytest.importorskip("rouge_score", reason=REASON)
  with pytest.raises(ValueError, match="2 targets and 1 predictions"):
    metric(["a", "b"], ["a"])
  with pytest.raises(ValueError, match="0 targets"):
    metric([], [])


def test_counters_are_added_where_there_are_any():
  counted = metrics.with_counters(lambda targets, predictions: {"bleu": 3.0})
  aux = {
    "accepted": [3, 1],
    "examined": [4, 4],
    "emitted": [5, 7],
    "target_calls": [2, 2],
  }
  assert counted(["a", "b"], ["a", "b"], aux) == {
    "bleu": 3.0,
    "acceptance_rate": 0.5,
    "block_efficiency": 3.0,
  }
  assert counted(["a"], ["a"], {"scores": [-1.0]}) == {"bleu": 3.0}
  nothing_examined = aux | {"accepted": [0, 0], "examined": [0, 0]}
  assert counted(["a", "b"], ["a", "b"], nothing_examined) == {
    "bleu": 3.0,
    "block_efficiency": 3.0,
  }
