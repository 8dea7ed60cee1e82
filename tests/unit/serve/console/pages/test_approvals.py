"""What waits for a second person, on the pages: set to decide more, published by itself, asked for in a folder."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from crossline.rule_registry.content import read_pipeline_in_place
from crossline.rule_registry.directory import DirectoryRuleLog
from crossline.settings.sources import RulesDirectory
from unit.serve.console.kit import Room
from unit.serve.http.kit import project

from .test_rules import DRAFT, keep
from .working import seat, working


@pytest.fixture(params=["required", "proven"])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Room]:
    config = read_pipeline_in_place(project(tmp_path / "first") / "pipeline.yaml")
    rules = {"kind": "directory", "path": str(tmp_path / "project/rules"), "review": request.param}
    config = replace(config, rules=RulesDirectory.model_validate(rules))
    with working(tmp_path, config=config) as room:
        room.user("mira.stone", "approver")
        yield room


def taken_up(at: Room) -> list[tuple[str, int | None, str | None, str | None]]:
    """What a pipeline that looks now logs."""
    config = at.parts.deps.config
    proven = config.rules.review == "proven"
    names = ["accounts", "cards"]
    log = DirectoryRuleLog(config.rules.path, config.name, config.streams, lambda: names, review=True, proven=proven)
    log.start(at.clock.now_ms)
    changes = log.poll()
    events = [] if changes is None else log.take_up(changes, {}, at.clock.now_ms)[1]
    log.close()
    return [(each.event, each.version, each.who, each.approved_by) for each in events]


def fields(page: str, action: str) -> dict[str, str]:
    """What a form of the page sends."""
    form = re.search(rf'<form[^>]*action="{action}".*?</form>', page, re.DOTALL)
    assert form is not None
    found = re.findall(r'name="(\w+)" value="([^"]*)"', form[0])
    return {name: html.unescape(value) for name, value in found if name != "token"}


def test_a_draft_in_a_reviewed_folder_goes_live_by_a_second_person(at: Room) -> None:
    ines, oda = seat(at, "ines.vale"), seat(at, "oda.lind")
    proof_id = keep(at, DRAFT)
    assert ines.act("/rules/ask", {"base": "1", "rule_id": "large_payment", "text": DRAFT}).status_code == 303
    assert "Approve…" in oda.get("/approvals/1").text
    assert oda.act("/approvals/1/approve", {"proof_id": proof_id}).status_code == 303
    assert taken_up(at) == [("published", 2, "ines.vale", "oda.lind")]
    assert "ines.vale, approved by oda.lind" in oda.get("/rules/large_payment").text


def test_what_is_set_to_decide_more_waits_and_says_so(at: Room) -> None:
    oda, mira, vera = seat(at, "oda.lind"), seat(at, "mira.stone"), seat(at, "vera.lux")
    form = fields(oda.get("/rules/spending?act=active").text, "/rules/spending/status")
    assert oda.act("/rules/spending/status", form).status_code == 303
    caption = "Version 1 of spending is to be active once a second person approves of it, under Approvals: it waits"
    assert caption in oda.get("/rules/spending/1").text
    assert taken_up(at) == [("waiting", 1, "oda.lind", None)]
    page = oda.get("/rules/spending").text
    assert "version 1, by oda.lind, waits for a second person" in page
    page = oda.get("/approvals").text
    assert "You published it: a second person approves." in page
    assert 'class="n">1<' in page  # of the rail
    assert "needs the scope rules:approve, which vera.lux has not" in vera.get("/approvals").text
    form = {"rule_id": "spending", "version": "1", "etag": "*"}
    assert oda.act("/approvals/versions", form).status_code == 409
    assert vera.act("/approvals/versions", form).status_code == 403
    address = "/approvals?rule_id=spending&version=1"
    if at.parts.deps.config.rules.review == "proven":
        assert "There is no proof of its text" in mira.get(address).text
        assert mira.act("/approvals/versions", form).status_code == 409
        keep(at, (at.folder / "rules/spending.yaml").read_text())
    sent = fields(mira.get(address).text, "/approvals/versions")
    assert mira.act("/approvals/versions", {**sent, "etag": '"other"'}).status_code == 412
    assert mira.act("/approvals/versions", sent).headers["location"] == "/rules/spending"
    assert taken_up(at) == [("status_changed", 1, "oda.lind", "mira.stone")]
    assert "Nothing waits." in mira.get("/approvals").text
    assert "waits for a second person" not in mira.get("/rules/spending").text


def test_going_back_to_an_unapproved_text_waits(at: Room) -> None:
    ines, oda = seat(at, "ines.vale"), seat(at, "oda.lind")
    proof_id = keep(at, DRAFT)
    ines.act("/rules/ask", {"base": "1", "rule_id": "large_payment", "text": DRAFT})
    oda.act("/approvals/1/approve", {"proof_id": proof_id})
    taken_up(at)
    assert oda.act("/rules/large_payment/rollback", {"version": "1"}).status_code == 303
    caption = oda.get("/rules/large_payment").text
    assert "goes back to the text of version 1, as version 3, once a second person approves of it" in caption
    assert taken_up(at) == [("waiting", 3, "oda.lind", None)]
