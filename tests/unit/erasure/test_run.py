"""A whole erasure: every file of the pipeline is searched; locks, kills, repeated and unfinished runs."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.basics.errors import StateError
from crossline.cli.main import run_command
from crossline.erasure.holding import holding
from crossline.erasure.journal import BEGINNING, FOLDER, Journal, digest_of, key_digest
from crossline.erasure.run import Erasure, erase
from crossline.erasure.subject import Key
from crossline.io.outbox.sink import OutboxSink
from crossline.io.sinks.base import Delivery
from crossline.io.sinks.jsonl import JsonlSink
from crossline.io.sqlite.sink import SqliteSink
from crossline.runtime.snapshot.checkpoint import claim
from crossline.serve.http.idempotency import _TABLE as ANSWERS
from crossline.serve.ledger.reports import check_ledger
from crossline.serve.ledger.sqlite import SqliteLedger
from crossline.serve.ownership import held as api_held
from oracle.test_reshard import begun, lead, mixed
from unit.erasure.places.test_state_segments import COOLING, SPREAD
from unit.erasure.traces import files_with
from unit.lake.lake_kit import SpooledPipeline, alert, payment
from unit.lake.test_side_logs import POLICY, SERVED
from unit.lake.test_time_travel import decision
from unit.serve.cases import casekit
from unit.serve.ledger import ledgerkit

PERSON = "acct-jo@example"
KEYS = (Key("account_id", PERSON), Key("account", PERSON))
IDS = ("p00003", "p00004")  # records of the person, of which one is only in the spool
SOURCES = ["in/0000.jsonl", "in/0001.jsonl"]  # they are not ours
SINKS = """sinks:
  - {kind: sqlite, path: out/store.db}
  - {kind: jsonl, path: out/alerts.jsonl}
  - {kind: webhook, url: "http://127.0.0.1:9/x", parked: ROOT/out/parked.jsonl, password_env: WEBHOOK_KEY}
"""


class Killed(BaseException):
    """The process ends here."""


def delivery(number: int) -> dict[str, Any]:
    """What a batch gave: an alert of the person and one of others, and a decision on each."""
    own = alert(number, key={"account_id": PERSON}, message=f"{PERSON} paid often")
    evidence = {"count": 2, "record_ids": ["p00001", f"p{number:05d}"]}
    decided = [{**decision(f"d{number}", "allow"), "record_id": f"p{number:05d}", "revision": 0}]
    return {"alerts": [own, alert(1, alert_id=f"other-{number}", evidence=evidence)], "decisions": decided}


def write(root: Path) -> SpooledPipeline:
    """A pipeline with something of the person at each place that is a file of its own."""
    made = SpooledPipeline(root)
    made.text = made.text.replace("sinks: [{kind: console}]\n", SINKS.replace("ROOT", str(root))) + SERVED
    made.text = made.text.replace("account_id: string\n", "account_id: string\n      account: string?\n")
    root.mkdir(exist_ok=True)
    (root / "pipeline.yaml").write_text(made.text)
    (root / "policy.yaml").write_text(POLICY)
    records = [payment(n) for n in range(3)]
    made.batch([*records, {**payment(3), "account_id": PERSON}], **delivery(3))
    made.write_all()
    made.batch([{**payment(4), "account_id": PERSON}], **delivery(4))  # the lake lacks it
    out = root / "out"
    sinks = [SqliteSink(out / "store.db", "pay-eu"), JsonlSink(out / "alerts.jsonl", "pay-eu")]
    for sink in (*sinks, OutboxSink(sinks[1], out / "checkpoint" / "behind" / "webhook-1")):
        if not isinstance(sink, OutboxSink):
            sink.open()
        sink.deliver(Delivery("pay-eu", 0, **delivery(3)))
        if not isinstance(sink, OutboxSink):
            sink.close()
    parked = {"schema_version": 1, "parked_at": "x", "why": "400", "attempts": 1, "message": delivery(3)["alerts"][0]}
    (out / "parked.jsonl").write_bytes(orjson.dumps(parked) + b"\n")
    (out / "decisions").mkdir()
    line = {**decision("d9", "allow"), "record_id": "p00003"}
    (out / "decisions" / "decisions-0000.jsonl").write_bytes(orjson.dumps(line) + b"\n")
    harness = casekit.Harness(out)
    harness.take(casekit.alert("x1", account=PERSON))
    harness.close()
    with ledgerkit.opening(partial(SqliteLedger, out / "serve" / "ledger.db", clock_ms=ledgerkit.Clock())) as opened:
        opened().answer([ledgerkit.entry("p00003")])
    with closing(sqlite3.connect(out / "serve" / "idempotency.db")) as connection:
        connection.execute(ANSWERS)
        body = orjson.dumps({**decision("d9", "allow"), "record_id": "p00003"})
        connection.execute("INSERT INTO answers VALUES ('k1', 'once', 'd', 'r', 1, 200, x'5b5d', ?)", (body,))
        connection.commit()
    lives = [{**each, "account": PERSON} if each.get("account") == "a1" else each for each in mixed(5, 12)]
    life = begun(root / "life", [COOLING, SPREAD], 2)
    lead(life, [("batch", (12, 1, None))], lives, stops=False)
    shutil.copytree(root / "life" / "state", out / "checkpoint" / "state")
    shutil.rmtree(root / "life")
    return made


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("written") / "pipeline"
    write(root)
    return root


@pytest.fixture
def root(written: Path) -> Path:
    """The pipeline, as it was written; where it stands, since the lake's files are known by their paths."""
    kept = written.with_name("kept")
    if kept.exists():
        shutil.rmtree(written)
        shutil.copytree(kept, written)
    else:
        shutil.copytree(written, kept)
    return written


def forget(root: Path, *keys: Key, between: Callable[[str], None] = lambda _: None, **how: Any) -> dict[str, Any]:
    config = SpooledPipeline(root, (root / "pipeline.yaml").read_text()).config
    with holding(config, dry_run=how.get("dry_run", False), while_running=how.get("while_running", False)) as held:
        asked = Erasure(keys or KEYS, between=between, **how)
        return erase(held, Journal(root / FOLDER, config.name), asked, 1_790_000_000_000)


def states(receipt: dict[str, Any]) -> dict[str, str]:
    return {each["place"]: each["state"] for each in receipt["places"]}


def test_no_file_of_the_pipeline_has_a_trace_but_those_that_are_named(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_with(root, PERSON, *IDS)
    assert {name.split("/")[1] for name in before if name.startswith("out/")} >= {
        *("alerts.jsonl", "checkpoint", "decisions", "lake", "parked.jsonl", "serve", "store.db")
    }, "not tested"
    command = ["forget", str(root / "pipeline.yaml")]
    assert run_command(command) == 2
    assert "expected FIELD=VALUE" in capsys.readouterr().err
    assert run_command([*command, "--key", "acount_id=x"]) == 2
    assert "which no stream declares: did you mean account_id" in capsys.readouterr().err
    keys = [text for each in KEYS for text in ("--key", f"{each.field}={each.value}")]
    assert run_command([*command, *keys, "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert "sink 1: SQLite store" in shown.out
    assert PERSON not in shown.out + shown.err
    assert files_with(root, PERSON, *IDS) == before, "a dry run changes nothing"
    assert run_command([*command, *keys, "--json"]) == 0
    receipt = json.loads(capsys.readouterr().out)
    assert receipt["result"] == "erased", receipt
    assert files_with(root, PERSON, *IDS) == SOURCES
    assert "files of stream payments" in {each["place"] for each in receipt["not_reached"]}
    erased = {place for place, state in states(receipt).items() if state == "erased"}
    assert erased == {
        *("state log", "outboxes of sinks", "sink 1: SQLite store", "sink 2: files of JSON lines"),
        *("sink 3: parked messages", "decisions on all records", "ledger of answers and receipts", "labels and cases"),
        *("lake table alerts", "lake table decisions", "lake table receipts", "lake table cases"),
        *("lake table records_payments", "file idempotency.db of the API"),
    }
    assert check_ledger(root / "out" / "serve" / "ledger.db").faults == []
    assert not (root / FOLDER / "pay-eu.pending").exists()
    check_repeated(root, receipt)


def check_repeated(root: Path, first: dict[str, Any]) -> None:
    """A repeated erasure finds nothing, and receipts are chained."""
    second = forget(root)
    assert (second["result"], second["total"]["gone"], second["total"]["changed"]) == ("nothing found", 0, 0)
    assert (first["previous"], second["previous"]) == (BEGINNING, first["digest"])
    lines = [json.loads(each) for each in (root / FOLDER / "pay-eu.jsonl").read_text().splitlines()]
    assert lines == [first, second]
    assert [digest_of(each) for each in lines] == [each["digest"] for each in lines]
    assert PERSON not in json.dumps(lines)
    salt = bytes.fromhex(first["salt"])
    assert first["keys"] == [{"field": each.field, "digest": key_digest(each, salt), "found": True} for each in KEYS]
    assert [each["found"] for each in second["keys"]] == [False, False]


def test_a_kill_after_any_step_is_finished_by_a_further_run(root: Path) -> None:
    for step in ("noted", "state log", "sink 1: SQLite store", "lake table alerts"):  # each time further on

        def end(at: str, step: str = step) -> None:
            if at == step:
                raise Killed

        with pytest.raises(Killed):
            forget(root, between=end)
        assert (root / FOLDER / "pay-eu.pending").stat().st_mode & 0o077 == 0
    journal = Journal(root / FOLDER, "pay-eu")
    unfinished = journal.unfinished()
    assert unfinished is not None
    assert set(IDS) <= unfinished.ids["payments"], "their places may be erased already"
    assert forget(root)["result"] == "erased"
    assert files_with(root, PERSON, *IDS) == SOURCES
    assert journal.unfinished() is None


def test_a_running_pipeline_is_refused_or_left_in_part(root: Path) -> None:
    mine = claim(str(root / "out" / "checkpoint"))
    try:
        with pytest.raises(StateError, match=r"held by another run .*needs it stopped.* the state log"):
            forget(root)
        receipt = forget(root, while_running=True)
    finally:
        mine.release()
    found = states(receipt)
    assert receipt["result"] == "incomplete"
    assert (found["state log"], found["outboxes of sinks"]) == ("left", "left")
    assert (found["sink 1: SQLite store"], found["lake table alerts"]) == ("erased", "erased")
    assert (root / FOLDER / "pay-eu.pending").exists(), "the rest needs the same pseudonyms"
    with api_held(root / "out" / "serve"), pytest.raises(StateError, match="in use by another API"):
        forget(root)
    assert forget(root)["result"] == "erased"
    assert files_with(root, PERSON, *IDS) == SOURCES


def test_an_unfinished_batch_is_finished_first(root: Path) -> None:
    offsets = root / "out" / "checkpoint" / "spark" / "offsets"
    offsets.mkdir()
    (offsets / "2").touch()
    with pytest.raises(StateError, match=r"batch 2 is not finished.* run crossline run PIPELINE --drain"):
        forget(root)
