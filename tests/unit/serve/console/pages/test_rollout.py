"""A version for a share of keys on the page of its rule: what it says, wider, and back, each confirmed in place."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.rule_registry.directory import DirectoryRuleLog
from crossline.serve.approvals.values import KeptProof
from crossline.serve.console.pages.rules.rollout import consequence_of, rollout_of
from unit.serve.console.kit import Room

from .test_rules import DRAFT, keep, proof
from .working import seat, working

DAY_MS = 86_400_000


def taken_up(at: Room) -> None:
    """What a pipeline logs that goes on with the folder as it is."""
    config = read_pipeline_in_place(at.folder / "pipeline.yaml")
    log = DirectoryRuleLog(config.rules.path, config.name, config.streams, lambda: ["accounts", "cards"])
    at.clock.now_ms += 1_000
    log.start(at.clock.now_ms)
    log.take_up(log.poll(), {}, at.clock.now_ms)
    log.close()


def second(at: Room, share: str) -> str:
    """Version 2 of card_testing, for a share of keys, published by a proof; its text."""
    file = at.folder / "rules/card_testing.yaml"
    text = file.read_text().replace("version: 1", f"version: 2\n  share: {share}", 1)
    file.write_text(text)
    taken_up(at)
    caption = {**proof(text), "predicted": {"per_day": 10, "low": 8.0, "high": 12.0, "days": 2.0}}
    kept = at.parts.approvals
    kept.keep_proof(KeptProof("p", "ines.vale", at.clock.now_ms, caption))
    kept.ask("card_testing", 2, "card_testing.yaml", text, "ines.vale", at.clock.now_ms)
    kept.decide(1, "oda.lind", "", at.clock.now_ms, approved=True)
    return text


def alerts(at: Room) -> None:
    """What version 2 raised today: one for a key of its own, two as a shadow; and one of version 1."""
    config = read_pipeline_in_place(at.folder / "pipeline.yaml")
    sink = SqliteSink(Path(config.sinks[0].path), config.name)
    sink.open()
    whole = {
        "schema_version": 1, "rule_id": "card_testing", "rule_type": "velocity", "severity": "high", "score": 0,
        "action": "review", "key": {"account_id": "a1"}, "stream": "payments", "value": 5, "threshold": 5,
        "event_time": "2026-01-05T09:00:00.000Z", "ingest_time": "2026-01-05T09:00:00.000Z", "message": "m",
        "detected_at": None, "evidence": {"record_ids": []}, "corrects": None,
    }  # fmt: skip
    kinds = [("alert", 2), ("shadow", 2), ("shadow", 2), ("alert", 1)]
    made = [
        {**whole, "alert_id": f"0{n}", "record_id": f"r{n}", "kind": kind, "rule_version": version}
        for n, (kind, version) in enumerate(kinds)
    ]
    sink.deliver(Delivery(config.name, 7, alerts=made))
    sink.close()


def fields(page: str) -> dict[str, str]:
    """What the form that confirms an act sends."""
    form = re.search(r'<form class="stack" id="act".*?</form>', page, re.DOTALL)
    assert form is not None
    found = re.findall(r'name="(version|share|etag)" value="([^"]*)"', form[0])
    return {name: html.unescape(value) for name, value in found}


def test_it_is_watched_widened_and_rolled_back(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        second(at, "10%")
        alerts(at)
        vera, oda = seat(at, "vera.lux"), seat(at, "oda.lind")
        page = vera.get("/rules/card_testing").text
        assert "Version 2 decides about 10% of keys. Version 1 goes on for the others." in page
        assert "Watching: predicted 8 to 12 a day, 3 so far today." in page, "of all keys, and of this version alone"
        assert "Widen to 25%" not in page
        page = oda.get("/rules/card_testing").text
        assert "Widen to 25%" in page
        assert "Widen to 5%" not in page
        page = oda.get("/rules/card_testing?act=widen&share=25%25").text
        caption = "Version 2 decides about 25% of keys from now on (now 10%); those that it has stay its own."
        assert caption in page
        assert "Predicted for all keys: 8 to 12 a day. You can roll back; alerts already raised stay." in page
        form = fields(page)
        assert vera.act("/rules/card_testing/share", form).status_code == 403
        assert oda.act("/rules/card_testing/share", {**form, "etag": '"x"'}).status_code == 412
        assert oda.act("/rules/card_testing/share", {**form, "share": "250%"}).status_code == 422
        assert oda.act("/rules/card_testing/share", form).status_code == 303
        assert "share: 25%" in (at.folder / "rules/card_testing.yaml").read_text()
        taken_up(at)
        page = oda.get("/rules/card_testing?act=back").text
        assert "Version 1 decides about all keys again from now on. Version 2 is judged as a shadow" in page
        assert "Roll back to version 1</button>" in page
        assert oda.act("/rules/card_testing/rollback", fields(page)).status_code == 303
        assert "share: 0%" in (at.folder / "rules/card_testing.yaml").read_text()
        taken_up(at)
        page = oda.get("/rules/card_testing").text
        assert "Version 2 decides about 0% of keys. Version 1 goes on for the others." in page
        assert "Roll back to version 1" not in page
        audited = [each["route"] for each in at.audited() if each.get("outcome") == "begun"]
        acts = [each.partition("}/")[2] for each in audited if "rules" in each]
        assert acts == ["share", "share", "share", "rollback"]


def test_one_that_has_all_keys_goes_back_to_the_text_before_as_a_new_version(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        second(at, "100%")
        oda = seat(at, "oda.lind")
        page = oda.get("/rules/card_testing?act=back").text
        assert "The text of version 1 becomes a new version and replaces version 2 for all records" in page
        assert oda.act("/rules/card_testing/rollback", fields(page)).status_code == 303
        text = (at.folder / "rules/card_testing.yaml").read_text()
        assert "version: 3" in text
        assert "share" not in text


@pytest.mark.parametrize(("status", "wider"), [("active", ("50%", "100%")), ("shadow", ()), ("paused", ())])
def test_only_what_is_active_is_widened(status: str, wider: tuple[str, ...]) -> None:
    row = {"rule_id": "r", "version": 2, "status": status, "body": {"share": "25%"}, "judges": [], "tripped": None}
    assert rollout_of([row], row, None, "").wider == wider
    assert consequence_of([row], row, "widen", "100%", None).startswith("Version 2 decides for all records from now on")
    assert consequence_of([row], row, "back", "", None) == "", "there is none to go back to"


def test_who_approves_reads_for_which_keys_it_is(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        text = DRAFT.replace("severity:", "entity: account_id\nshare: 5%\nseverity:")
        keep(at, text)
        at.parts.approvals.ask("large_payment", 2, "large_payment.yaml", text, "ines.vale", at.clock.now_ms)
        page = seat(at, "oda.lind").get("/approvals/1?act=approve").text
        assert "Version 2 decides about 5% of keys from now on; version 1 goes on for the others." in page
