"""Suppressions: each has an end and a reason, and says what it hid and the fraud among it."""

from __future__ import annotations

import re
from pathlib import Path

from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.intake.facts import AlertFacts
from crossline.serve.cases.intake.linking import keep_alert
from crossline.serve.cases.suppressions.counts import count_hidden

from .working import seat, working


def hide(file: CaseFile, number: int, *records: str) -> None:
    """Alerts that a suppression hid."""
    with file.transaction():
        for each in records:
            caption = ("spending", 1, 1, f"{each} <b>", 1_767_604_000_000)
            facts = AlertFacts(f"alert of {each}", "payments", each, *caption, key={}, ties=())
            keep_alert(file, facts, number)
            count_hidden(file, facts, number)


def test_one_is_made_hides_and_says_what_fraud_it_hid(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        ines, desk = seat(at, "ines.vale"), at.parts.deps.desk
        assert desk is not None
        assert "Nothing is suppressed." in ines.get("/suppressions").text
        form = {"rule": ["spending", "card_testing"], "field": "account_id", "value": "a3", "reason": "a tester"}
        for wrong in ({"until": ""}, {"until": "2026-01-06T08:00", "reason": " "}, {"until": "2020-01-01T00:00"}):
            refused = ines.act("/suppressions", {**form, **wrong})
            assert refused.status_code == 422, wrong
            assert 'value="a3"' in refused.text
        assert ines.act("/suppressions", {**form, "until": "2026-01-06T08:00"}).status_code == 303
        page = ines.get("/suppressions").text
        assert "spending, card_testing, account_id a3" in page
        assert at.parts.deps.cases is not None
        label = {"is_fraud": True, "known_at": "2026-01-05T09:00:00.000Z", "reason": "chargeback"}
        at.parts.deps.cases.put_label("payments", "p1", label, "olga.ops", None)
        hide(desk.file, 1, "p1", "p2", "p3")
        page = ines.get("/suppressions").text
        assert re.search(r'<td class="num">3</td><td class="num"><a class="c-high lk" [^>]*><b>1</b>', page)
        assert "p1 &lt;b&gt;" in ines.get("/suppressions?of=1").text
        etag = re.search(r'name="etag" value="([^"]+)"', page)
        assert etag is not None
        gone = {"etag": etag[1].replace("&#34;", '"')}
        assert seat(at, "vera.lux").act("/suppressions/1/end", gone).status_code == 403
        assert ines.act("/suppressions/1/end", {"etag": '"other"'}).status_code == 412
        assert ines.act("/suppressions/1/end", gone).status_code == 303
        assert "ended by ines.vale" in ines.get("/suppressions").text
