import struct

import pytest
from tensorboardX.proto import event_pb2

from experiments.training.metrics import MetricsLog
from tests.experiments.tiny_training import lines

MANIFEST = {"seed": 0}


def events(folder) -> list[event_pb2.Event]:
  """All events, in the order in which TensorBoard reads the files."""
  found = []
  for path in sorted((folder / "tensorboard").iterdir()):
    data, position = path.read_bytes(), 0
    while position < len(data):
      # Length, its checksum, the event, its checksum.
      (size,) = struct.unpack_from("<Q", data, position)
      start = position + 12
      found.append(event_pb2.Event.FromString(data[start : start + size]))
      position = start + size + 4
  return found


def scalars(folder) -> list[tuple[int, str, float]]:
  return [
    (event.step, value.tag, value.simple_value)
    for event in events(folder)
    for value in event.summary.value
  ]


def test_lines_are_events_too(tmp_path):
  with MetricsLog(str(tmp_path), MANIFEST) as log:
    log.go_on_from(0)
    log.write(2, loss=3.5, tokens=8)
    log.write(2, validation_loss=4.0)
    # On the disk at once, whatever happens next.
    assert scalars(tmp_path) == [
      (2, "train/loss", 3.5),
      (2, "train/tokens", 8.0),
      (2, "validation/loss", 4.0),
    ]
  assert lines(tmp_path) == [
    {"step": 2, "loss": 3.5, "tokens": 8},
    {"step": 2, "validation_loss": 4.0},
  ]


def test_steps_that_are_done_again_are_dropped(tmp_path):
  with MetricsLog(str(tmp_path), MANIFEST) as log:
    log.go_on_from(0)
    for step in (2, 4, 6):
      log.write(step, loss=float(step))
  with open(tmp_path / "metrics.jsonl", "a") as file:
    file.write('{"step": 8')
  with MetricsLog(str(tmp_path), MANIFEST) as log:
    log.go_on_from(4)
    assert lines(tmp_path) == [
      {"step": 2, "loss": 2.0},
      {"step": 4, "loss": 4.0},
    ]
    log.write(6, loss=7.0)
  assert [line["loss"] for line in lines(tmp_path)] == [2.0, 4.0, 7.0]
  (restart,) = [
    event
    for event in events(tmp_path)
    if event.session_log.status == event_pb2.SessionLog.START
  ]
  # TensorBoard drops what it has read of this step and those after it.
  assert restart.step == 5


def test_another_run_is_refused(tmp_path):
  with MetricsLog(str(tmp_path), MANIFEST) as log:
    log.go_on_from(0)
    log.write(1, loss=1.0)
  with pytest.raises(ValueError, match="seed was 0 and is 1"):
    MetricsLog(str(tmp_path), {"seed": 1})
  MetricsLog(str(tmp_path), {"seed": 1}, resume=False).go_on_from(0)
  assert lines(tmp_path) == []
  assert scalars(tmp_path) == []


def test_tensorboard_reads_it(tmp_path):
  accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator"
  )
  for start, value in ((0, 1.0), (2, 9.0)):
    with MetricsLog(str(tmp_path), MANIFEST) as log:
      log.go_on_from(start)
      for step in (start + 1, start + 2, start + 3):
        log.write(step, loss=value * step)
  found = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
  found.Reload()
  assert [(each.step, each.value) for each in found.Scalars("train/loss")] == [
    (1, 1.0),
    (2, 2.0),
    (3, 27.0),
    (4, 36.0),
    (5, 45.0),
  ]
