"""The state log: a pipeline that goes on after an erasure gives the same for all other keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crossline.basics import wire
from crossline.erasure.places.state_segments import StatePlace
from crossline.erasure.places.state_texts import fields_of, joined, key_parts, record_of, split, stream_of
from crossline.erasure.subject import Key, Subject
from crossline.runtime.state_log.state_log import Segment, StateLog, logs_in
from oracle.living import Life
from oracle.test_contexts import RULE as WAITING
from oracle.test_corrections import BUSY, IN_PANES
from oracle.test_corrections_keys import BUSY as OF_KEYS
from oracle.test_reshard import ABSENT, BOTH, COOLING, COUNT, FIGURES, begun, lead, mixed, reevaluated
from oracle.test_risk import RISKY, scored
from unit.erasure.traces import SALT

PERSON = "a1"
KEYS = (Key("account", PERSON), Key("owner", PERSON))
SPREAD = {**COUNT, "rule_id": "shared", "group_by": "device", "window": "30s", "emit": "every"}
IDS = {"payments": "id", "rates": "id"}


def lived(folder: Path, rules: list[dict[str, Any]], made: list[dict[str, Any]]) -> Life:
    life = begun(folder, rules, 2)
    lead(life, [("batch", (10, 1, None))] * 2, made[:20], stops=False)
    return life


def texts_in(root: Path) -> set[str]:
    """All texts of all segments, whole: keys, ids, values, and those in JSON."""
    found: set[str] = set()
    for within, numbers in logs_in(str(root)).items():
        for number in numbers:
            log = StateLog(f"{root}/{within}" if within else str(root), number)
            for segment in log.segments():
                for meta, arrays in log.content(segment):
                    found.add(repr(meta))
                    for name, offsets in arrays.items():
                        for data, ends in (("_bytes", "_offsets"), ("|text", "|ends")):
                            stem = name.removesuffix(ends)
                            if stem != name and f"{stem}{data}" in arrays:
                                texts = split(arrays[f"{stem}{data}"], offsets)
                                found |= {each.decode(errors="replace") for each in texts}
    return found


def plain(alert: dict[str, Any]) -> tuple[Any, ...]:
    """An alert without the ids of its evidence."""
    return (
        *(alert["alert_id"], alert["rule_id"], alert["record_id"], alert["value"], alert.get("outcome")),
        *(repr(alert["key"]), alert["evidence"]["count"], len(alert["evidence"]["record_ids"]), alert["window_start"]),
    )


def test_a_pipeline_goes_on_as_if_nothing_had_happened_for_all_other_keys(tmp_path: Path) -> None:
    again = [reevaluated(body, number) for number, body in enumerate([*BUSY[:2], OF_KEYS[0]])]
    panes = [{**body, "rule_id": f"p{n}", "version": 1} for n, body in enumerate((IN_PANES, FIGURES))]
    rules = [COOLING, ABSENT, BOTH, WAITING, SPREAD, RISKY, *scored(panes), *again]
    first = mixed(5, 20)
    later = [each for each in mixed(5, 60)[20:] if PERSON not in {each.get("account"), each.get("owner")}]
    made = [*first, *later[:16]]
    whole, other = (lived(tmp_path / name, rules, made) for name in ("whole", "other"))
    root = other.folder / "state"
    mine = Subject(KEYS, SALT)
    place = StatePlace(str(root), IDS)
    place.find(mine)
    theirs = {each["_id"] for each in first if PERSON in {each.get("account"), each.get("owner")}}
    assert mine.ids["payments"] | mine.ids.get("rates", set()) <= theirs
    mine.add("payments", theirs)
    found = place.find(mine)
    assert found.gone
    assert found.changed, "records of the person under a device"
    assert place.erase(mine) == found
    assert not place.find(mine).found
    assert PERSON not in texts_in(root)
    begin = len(whole.alerts)
    for life in (whole, other):
        life.start()
        lead(life, [("batch", (8, 1, None))] * 2, made[20:], stops=False)
    ours = [each for each in whole.alerts[begin:] if PERSON not in each["key"].values()]
    ours = [each for each in ours if each["record_id"] not in theirs]
    found_alerts = [each for each in other.alerts[begin:] if not each["record_id"].startswith("erased-")]
    assert sorted(map(repr, map(plain, found_alerts))) == sorted(map(repr, map(plain, ours)))
    shared = [each for each in other.alerts[begin:] if each["rule_id"] == "shared"]
    assert any(str(each).startswith("erased-") for one in shared for each in one["evidence"]["record_ids"])
    assert not any(each in theirs for one in other.alerts[begin:] for each in one["evidence"]["record_ids"])


def test_a_segment_of_several_batches_and_leftovers_of_a_kill(tmp_path: Path) -> None:
    life = lived(tmp_path, [COOLING, SPREAD], mixed(5, 20))
    root = tmp_path / "state"
    for number in range(2):
        log = StateLog(str(root), number)
        files = log.segments()
        blobs = [wire.encode(meta, arrays) for each in files for meta, arrays in log.content(each)]
        log.replace(Segment(files[0].first, files[-1].last), blobs)  # the merged file, and its inputs beside it
        (root / f"shard-{number:05d}" / f"{files[0].name}.77.tmp").write_bytes(b"account a1")
    mine = Subject(KEYS, SALT)
    StatePlace(str(root), IDS).erase(mine)
    assert PERSON not in texts_in(root)
    assert {path.suffix for path in root.rglob("*") if path.is_file()} == {".seg"}
    assert all(len(list(each.iterdir())) == 1 for each in root.iterdir())
    life.start()
    lead(life, [("batch", (4, 1, None))], mixed(5, 24)[20:], stops=False)


def test_texts_of_segments() -> None:
    assert split(*joined([b"a", b"", b"bc"])) == [b"a", b"", b"bc"]
    assert stream_of("payments+rates(account=owner)|event_time|account#0") == "payments"
    assert fields_of("payments|event_time|account,merchant#2") == ("account", "merchant")
    assert fields_of("payments|event_time|#2") == ()
    assert list(key_parts(b"2:a1,3:m10", 2)) == [(0, "a1"), (1, "m10")]
    assert list(key_parts(b"a1", 1)) == [(0, "a1")]
    assert list(key_parts(b"2:42", 1)) == [(0, "2:42"), (0, "42")]
    assert list(key_parts(b"9:a", 2)) == []
    assert record_of("t1", "payments") == ("", "payments", "t1")
    assert record_of("rates\x1et1", "payments") == ("rates\x1e", "rates", "t1")
    assert record_of("rule:c\x1eid\x1ft1", "payments") == ("rule:c\x1eid\x1f", "payments", "t1")
