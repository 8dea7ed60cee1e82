"""An erasure from a checkpoint on a store: a folder that is reached by a URI, as one in HDFS would be."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from crossline.basics.errors import StateError
from crossline.erasure.holding import holding
from crossline.erasure.journal import FOLDER, Journal
from crossline.erasure.run import Erasure, erase
from crossline.erasure.subject import Key
from crossline.io.objects.file_stores import file_store
from crossline.io.objects.location import under
from crossline.io.outbox.sink import OutboxSink
from crossline.io.sinks.base import Delivery
from crossline.io.sinks.jsonl import JsonlSink
from crossline.runtime.snapshot.checkpoint_store import StoredCheckpoint
from crossline.settings.config import load_pipeline
from oracle.test_reshard import begun, lead, mixed
from unit.erasure.places.test_state_segments import COOLING, PERSON, SPREAD, texts_in
from unit.erasure.traces import files_with
from unit.lake.lake_kit import alert

PIPELINE = """\
schema_version: 1
name: payments
streams:
  payments:
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer, account: string?, owner: string?}
sources:
  payments: {kind: files, path: in/*.jsonl}
rules: {kind: directory, path: rules/}
sinks: [{kind: console}]
"""


def test_state_and_outboxes_on_a_store(tmp_path: Path) -> None:
    life = begun(tmp_path / "life", [COOLING, SPREAD], 2)
    lead(life, [("batch", (12, 1, None))], mixed(5, 12), stops=False)
    uri = (tmp_path / "store").as_uri()
    held = StoredCheckpoint(uri)
    shutil.copy(life.folder / "snapshot.json", held.folder / "snapshot.json")
    held.release()
    shutil.copytree(life.folder / "state", tmp_path / "store" / "state")
    outbox = OutboxSink(JsonlSink(tmp_path / "x", "p"), file_store(under(uri, "behind", "jsonl-1")))
    outbox.deliver(Delivery("payments", 0, alerts=[alert(1, key={"account": PERSON}), alert(2)]))
    config = load_pipeline(PIPELINE, "pipeline.yaml", str)
    config = replace(config, engine=config.engine.model_copy(update={"checkpoint": uri}))
    asked = Erasure((Key("account", PERSON), Key("owner", PERSON)))
    journal = Journal(tmp_path / FOLDER, "payments")
    running = StoredCheckpoint(uri)
    with (
        pytest.raises(StateError, match=r"held by another run.*needs it stopped"),
        holding(config, dry_run=False, while_running=False),
    ):
        pass
    with holding(config, dry_run=True, while_running=False) as beside:
        counted = erase(beside, journal, Erasure(asked.keys, dry_run=True), 0)
    running.release()
    assert counted["result"] == "found"
    with holding(config, dry_run=False, while_running=False) as stopped:
        receipt = erase(stopped, journal, asked, 0)
    assert receipt["result"] == "erased"
    states = {each["place"]: each["state"] for each in receipt["places"]}
    assert (states["state log"], states["outboxes of sinks"]) == ("erased", "erased")
    assert PERSON not in texts_in(tmp_path / "store" / "state")
    assert not files_with(tmp_path / "store" / "behind", PERSON)
    assert "earlier versions of objects" in {each["place"] for each in receipt["not_reached"]}
    with holding(config, dry_run=False, while_running=False) as again:
        assert erase(again, journal, asked, 0)["result"] == "nothing found"
