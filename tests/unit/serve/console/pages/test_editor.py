"""The editor of a rule: the form beside the text, thresholds, a sample, and what a backtest says by labels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from crossline.serve.console.charts.curve import CurvePoint, curve
from crossline.serve.console.pages.rules.curves import curve_at
from crossline.serve.console.pages.rules.samples import given_in
from crossline.serve.console.pages.rules.trials import blasted, figures_of
from crossline.serve.http.problems import ProblemError

from .working import seat, working

TEXT = """\
rule_id: card_testing
version: 2
rule_type: velocity
source_topic: payments
group_by: account_id   # one window an account
aggregation_type: count
aggregation_threshold: 5
window: 1m
severity: high
"""
FORM = {"base": "1", "rule_id": "card_testing", "text": TEXT, "shown": "form"}
ROWS = [
    {"threshold": 4.0, "alerts": 9, "alerts_per_day": 4.5, "caught": 3, "frauds": 4, "true": 3},
    {"threshold": 5.0, "alerts": 4, "alerts_per_day": 2.0, "caught": 2, "frauds": 4, "true": 3},
    {"threshold": 6.0, "alerts": 1, "alerts_per_day": 0.5, "caught": 1, "frauds": 4, "true": 1},
]
JOB = {
    "job_id": "j1",
    "state": "done",
    "progress": {},
    "error": None,
    "result": {"line_of": "count", "operator": ">=", "judged": ROWS, "present": ROWS[1]},
}


def test_fields_change_the_text_and_what_it_says_and_keep_nothing(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        ines = seat(at, "ines.vale")
        token = ines.token()
        page = ines.post("/rules/fill", {**FORM, "f.window": "2m", "f.severity": "high", "token": token}).text
        assert TEXT.replace("1m", "2m").replace("'", "&#39;") in page
        assert "in the last 2 min" in page
        assert 'name="f.aggregation_threshold"' in page
        page = ines.post("/rules/fill", {**FORM, "f.window": "soon <b>", "token": token}).text
        assert "line 8" in page
        assert "<b>" not in page.replace("<b class", "")
        page = ines.post("/rules/fill", {**FORM, "threshold": "7", "token": token}).text
        assert TEXT.replace("threshold: 5", "threshold: 7") in page
        assert "is &gt;= 7" in page
        assert at.parts.approvals.draft("card_testing", "ines.vale") is None
        assert [each for each in at.audited() if "fill" in str(each.get("resource"))] == []
        assert seat(at, "vera.lux").act("/rules/fill", FORM).status_code == 403


def test_without_script_the_form_is_applied_and_kept_as_the_draft(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        ines = seat(at, "ines.vale")
        moved = ines.act("/rules/form", {**FORM, "f.window": "3m", "view": "form", "curve": "c1"})
        assert moved.headers["location"] == "/rules/card_testing/1/edit?view=form&curve=c1"
        draft = at.parts.approvals.draft("card_testing", "ines.vale")
        assert draft is not None
        assert draft.text == TEXT.replace("1m", "3m")
        page = ines.get("/rules/card_testing/1/edit?view=form").text
        assert re.search(r'name="f.window" value="3m"', page)
        assert 'id="text" hidden' in page  # it goes with the form
        refused = ines.act("/rules/form", {**FORM, "threshold": "many"})
        assert refused.status_code == 422
        assert "expected a number" in refused.text
        nothing = ines.act("/rules/form", {**FORM, "text": "rule_id: [", "threshold": "3"})
        assert "a text that draws no line" in nothing.text


def test_a_curve_has_a_row_for_each_threshold_and_its_drawing() -> None:
    found = curve_at(JOB, 5.0, 6.0)
    assert [(each.threshold, each.per_day, each.found, each.good) for each in found.rows] == [
        ("4", "4.5", "3 of 4", "6"),
        ("5", "2", "2 of 4", "1"),
        ("6", "0.5", "1 of 4", "0"),
    ]
    assert (found.at, found.before, found.after, found.live) == (1, "4", "6", "6")
    assert found.drawings[0].attribute("aria-label") == (
        "count >=: from 4.5 alerts a day at 4 to 0.5 at 6. At 5 there are 2 a day and 50 % of frauds are found."
    )
    assert curve_at({**JOB, "state": "failed", "result": None, "error": "no"}, 5.0, None).rows == ()


def test_the_drawing_stands_where_its_values_do() -> None:
    points = [CurvePoint(4, 10, 1.0), CurvePoint(6, 0, 0.0)]
    drawn = curve(points, 5, None, 640, "x")
    # From 44 to 596 across, from 18 (10 a day, all) down to 186 (none).
    assert [each.attribute("d") for each in drawn.find("l1")] == ["M44 18L596 186"]
    assert [each.attribute("d") for each in drawn.find("l2")] == ["M44 18L596 186"]
    assert 'transform="translate(320.0 0)"' in drawn.__html__()
    assert curve([CurvePoint(4, 10, None)], 4, None, 640, "x").find("l2") == []


@pytest.mark.parametrize(
    ("form", "given"),
    [
        ({"records": '{"id": "a"}\n\n{"id": "b"}\n'}, {"records": {"payments": [{"id": "a"}, {"id": "b"}]}}),
        ({"first": "50"}, {"first": {"payments": 50}}),
        ({"first": "0"}, None),
        ({"first": "many"}, None),
        ({"records": "[1]"}, None),
        ({"records": "{"}, None),
    ],
)
def test_a_sample_is_records_or_how_many(form: dict[str, str], given: dict[str, Any] | None) -> None:
    if given is None:
        with pytest.raises(ProblemError):
            given_in(form, "payments")
    else:
        assert given_in(form, "payments") == given


def test_the_blast_radius_links_to_entities_and_counts_good_customers() -> None:
    caption = {
        "missed": [{"record_id": "p1", "key": {"account_id": "a/1"}, "why": "3 is not >= 4: 1 is missing"}],
        "missed_count": 7,
        "met": [
            {"record_id": "p2", "key": {"account_id": "a2"}, "message": "5 payments", "event_time": "", "times": 2}
        ],
        "met_count": 1,
        "good": {"draft": 3, "live": 2},
    }
    found = blasted(caption)
    assert found is not None
    assert (found.missed[0].entities, found.missed_count) == ((("a/1", "/entities/account_id/a%2F1"),), 7)
    assert (found.met[0].caption, found.met[0].by) == ("5 payments", "2 times")
    side = {"alerts": 5, "alerts_per_day": 2.5, "true": 2, "precision": 0.4, "recall": 0.5, "frauds": 4}
    figures = {each.name: each for each in figures_of({"draft": side, "live": side, "blast": caption})}
    assert (figures["Good customers met"].value, figures["Good customers met"].was) == ("3", "was 2")
    assert figures["Good customers met"].grade == "high"
    assert blasted(None) is None
