import json

import pytest

from experiments.records import MANIFEST, Records, write_json

MANIFEST_OF = {"pair": {"name": "a"}, "seed": 0}


def test_any_cut_is_mended(tmp_path):
  values = [{"text": "ä\n"}, {"text": "b"}, {"text": "c"}]
  records = Records(tmp_path, "r.jsonl", MANIFEST_OF)
  records.append(values[:2])
  records.append(values[2:])
  whole = records.path.read_bytes()
  for cut in range(len(whole) + 1):
    records.path.write_bytes(whole[:cut])
    again = Records(tmp_path, "r.jsonl", MANIFEST_OF)
    assert len(again.done) == whole[:cut].count(b"\n")
    again.append(values[len(again.done) :])
    assert records.path.read_bytes() == whole


def test_keep_drops_the_rest(tmp_path):
  records = Records(tmp_path, "r.jsonl", MANIFEST_OF)
  records.append([{"i": i} for i in range(5)])
  records.keep(2)
  records.append([{"i": 7}])
  assert records.done == [{"i": 0}, {"i": 1}, {"i": 7}]
  assert Records(tmp_path, "r.jsonl", MANIFEST_OF).done == records.done


def test_another_run_is_refused_by_its_differences(tmp_path):
  Records(tmp_path, "r.jsonl", MANIFEST_OF).append([{"i": 0}])
  other = {"pair": {"name": "b"}, "seed": 0}
  with pytest.raises(ValueError, match=r"pair\.name was 'a' and is 'b'") as e:
    Records(tmp_path, "r.jsonl", other)
  assert "seed" not in str(e.value)
  assert Records(tmp_path, "r.jsonl", MANIFEST_OF).done == [{"i": 0}]
  assert Records(tmp_path, "r.jsonl", other, resume=False).done == []
  assert Records(tmp_path, "r.jsonl", other).done == []


def test_damage_is_named(tmp_path):
  records = Records(tmp_path, "r.jsonl", MANIFEST_OF)
  records.path.write_bytes(b'{"i": 0}\n{"i": \n{"i": 2}\n')
  with pytest.raises(ValueError, match=r"r\.jsonl:2 is damaged"):
    Records(tmp_path, "r.jsonl", MANIFEST_OF)
  (tmp_path / MANIFEST).unlink()
  with pytest.raises(ValueError, match=r"r\.jsonl has no manifest\.json"):
    Records(tmp_path, "r.jsonl", MANIFEST_OF)
  (tmp_path / MANIFEST).write_text("{")
  with pytest.raises(ValueError, match=r"manifest\.json is damaged"):
    Records(tmp_path, "r.jsonl", MANIFEST_OF)


def test_json_is_whole_or_not_there(tmp_path):
  path = tmp_path / "a.json"
  write_json(path, {"a": 1})
  with pytest.raises(ValueError, match="JSON"):
    write_json(path, {"a": float("nan")})
  assert json.loads(path.read_text()) == {"a": 1}
