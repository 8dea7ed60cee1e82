"""The form of the editor: parts and types by buttons that work without script, faults at fields, hostile texts."""

from __future__ import annotations

import hashlib
import html
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crossline.analysis.forms.form_reader import form_of
from crossline.serve.approvals.values import RuleDraft
from crossline.serve.console.pages.rules.editor_parts import TextFault
from crossline.serve.console.pages.rules.form_input import wrongs_of
from crossline.serve.console.pages.rules.trials import is_of, trial_view

from .working import seat, working

STEPS = """\
# Guessing.
rule_id: guessed
version: 1
rule_type: sequence
source_topic: payments
group_by: account_id
steps:
  # the small ones
  - {name: tries, times: 3, conditions: [{field: amount_cents, operator: "<", value: 200}]}
  - {name: large, conditions: [{field: amount_sents, operator: ">=", value: 50000}]}
within: 10m
severity: high
"""
FORM = {"base": "0", "rule_id": "new", "text": STEPS, "shown": "form"}


def drafted(at: Any) -> str:
    draft: RuleDraft | None = at.parts.approvals.draft("new", "ines.vale")
    assert draft is not None
    return draft.text


def test_parts_are_added_moved_and_removed_without_script_and_the_form_stays(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        ines = seat(at, "ines.vale")
        moved = ines.act("/rules/form", {**FORM, "f.steps/0/down": "yes"})
        assert moved.headers["location"] == "/rules/new?view=form"
        lines = STEPS.splitlines(keepends=True)
        assert drafted(at) == "".join([*lines[:7], lines[9], lines[7], lines[8], *lines[10:]])
        ines.act("/rules/form", {**FORM, "f.steps/+/name": "after", "more": "steps"})
        assert "- {name: after}\nwithin" in drafted(at)
        ines.act("/rules/form", {**FORM, "f.steps/0/remove": "yes"})
        assert "name: tries" not in drafted(at)
        refused = ines.act("/rules/form", {**FORM, "f.steps/0/remove": "yes", "f.steps/1/up": "yes"})
        assert refused.status_code == 400
        assert "expected one, where one is moved" in refused.text
        assert 'id="fields"' in refused.text


def test_what_is_set_in_the_form_goes_with_every_button(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        ines = seat(at, "ines.vale")
        saved = ines.act("/rules/save", {**FORM, "f.within": "20m"})
        assert saved.headers["location"] == "/rules/new?view=form"
        assert drafted(at) == STEPS.replace("10m", "20m")
        proven = ines.act("/rules/prove", {**FORM, "f.within": "30m"})
        assert re.fullmatch(r"/rules/new\?view=form&job=\w+#trial", proven.headers["location"])
        assert drafted(at) == STEPS.replace("10m", "30m")


def test_a_backtest_of_a_tab_that_was_closed_is_found_again_and_ends_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, asked_for = "2026-01-05T09:10:00.000Z", []
    jobs = [
        {"job_id": "j1", "kind": "prove", "state": "running", "created_at": begun, "progress": {"share": 0.42}},
        {"job_id": "j2", "kind": "prove", "state": "queued", "created_at": begun, "progress": {"share": None}},
        {"job_id": "j3", "kind": "prove", "state": "done", "created_at": begun, "progress": {"share": 1.0}},
        {"job_id": "j4", "kind": "thresholds", "state": "running", "created_at": begun, "progress": {"share": 0.1}},
    ]

    async def answers(_: Any, method: str, route: str, path: Any = None) -> Any:
        asked_for.append((method, route, path))
        return {"items": jobs}

    with working(tmp_path) as at:
        monkeypatch.setattr("crossline.serve.console.pages.rules.trials.called", answers)
        ines = seat(at, "ines.vale")
        page = ines.get("/rules/card_testing/1/edit").text
        found = re.findall(r"goes on since <time[^>]*>[^<]*</time>: ([^.]*)\.</span> <a [^>]*job=(\w+)#trial", page)
        assert found == [("42%", "j1"), ("waits", "j2")]
        ines.act("/rules/prove", {**FORM, "job": "j1"})
        assert ("DELETE", "/v1/jobs/{job_id}", {"job_id": "j1"}) in asked_for


def test_a_backtest_of_another_text_says_so() -> None:
    trial = trial_view({"job_id": "j", "state": "done", "progress": {}, "error": None, "result": None})
    digest = "25a3f2c1df4ea1f1f9c4a5d8c45bdcf8ba5e0f2cbd2dcf2be2c9b1b3e3ab8a55"
    assert is_of(trial, "any")  # it has no proof yet
    assert not is_of(replace(trial, proof=(("Rule", "a, version 1", digest),)), "any")
    mine = hashlib.sha256(b"any").hexdigest()
    assert is_of(replace(trial, proof=(("Rule", "a, version 1", mine),)), "any")


def test_another_type_is_reported_before_it_is_given(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        ines = seat(at, "ines.vale")
        moved = ines.act("/rules/form", {**FORM, "f.rule_type": "velocity", "view": "form"})
        assert moved.headers["location"] == "/rules/new?view=form&type=velocity"
        assert drafted(at) == STEPS
        page = ines.get(moved.headers["location"]).text
        assert "As velocity the rule loses <b>steps (line 7), within (line 11)</b>, and keeps all else." in page
        assert "Then aggregation_type, aggregation_threshold must be set." in page
        ines.act("/rules/form", {**FORM, "f.rule_type": "velocity", "type": "velocity"})
        assert drafted(at) == STEPS.split("steps:", maxsplit=1)[0].replace("sequence", "velocity") + "severity: high\n"


def test_a_fault_stands_at_its_field_in_the_command_lines_words(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        ines = seat(at, "ines.vale")
        page = ines.post("/rules/fill", {**FORM, "token": ines.token()}).text
        body = re.search(r'id="w.steps/1/conditions/0/field">([^<]*)<', page)
        assert body is not None
        caption = html.unescape(body[1])
        assert caption.startswith('found "amount_sents"; expected a field of stream payments')
        listed = re.findall(r'data-caption="([^"]*)"', page)
        assert [html.unescape(each) for each in listed] == [caption]
        assert page.count('aria-invalid="true"') == 1


def test_a_fault_that_no_field_shows_stands_at_the_nearest_part() -> None:
    form = form_of(STEPS, {})
    faults = [
        TextFault(1, path, "a", "b", "", False) for path in ("steps[1].no_such", "steps[1].name", "nowhere.at.all")
    ]
    assert wrongs_of(form, faults) == {"steps[1]": "found a; expected b", "steps[1].name": "found a; expected b"}


HOSTILE = {
    "markup": "rule_id: '<script>alert(1)</script>'\nrule_type: formula\nfigures:\n  '\"><img src=x>': {count: true}\n",
    "templates": "rule_id: '{{7*7}}'\nrule_type: '{% raise %}'\nsteps: {}\n",
    "names": "rule_type: burst\nany_of:\n  - {'a/b': '> 1', '+': '> 2', remove: '> 3', '~': x, '0': y, '': z}\n",
    "digits": "rule_type: sequence\nsteps: {'0': {name: x}}\n" + "figures/99999999999999999999: 1\n",
    "unicode": "rule_type: model\nfeatures: {\u202eabc: \U0001f600, ℵ: \u00a0}\nmodel: \u2028\n",
    "shapes": "rule_type: sequence\nsteps: [1, [2], {name: {a: b}, conditions: 7, times: [1]}]\nuntil: 5\n",
    "nulls": "rule_type: absence\nafter:\nexpect:\nwithin:\nconditions:\n  -\n  - any:\n",
    "anchors": "rule_type: sequence\nsteps: &s\n  - &a {name: x}\n  - *a\nuntil: {conditions: [{field: *s}]}\n",
    "deep": "rule_type: threshold\nconditions: " + "[{any: " * 20 + "[]" + "}]" * 20 + "\n",
    "json": '{"rule_id": "a", "rule_type": "burst", "any_of": [{"count": "> 1"}]}',
    "types": "rule_type: [sequence, {a: b}]\nsteps: [{name: x}]\n",
    "several": "- rule_id: a\n- rule_id: b\n",
    "empty": "",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_texts_have_a_form_that_changes_nothing_by_itself(tmp_path: Path, name: str) -> None:
    text = HOSTILE[name]
    with working(tmp_path) as at:
        ines = seat(at, "ines.vale")
        form = form_of(text, {})
        sent = {f"f.{each.name}": each.value for each in form.fields()}
        page = ines.post("/rules/fill", {**FORM, "text": text, **sent, "token": ines.token()})
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "<img" not in page.text
        held = re.search(r'<textarea id="text">\n(.*?)</textarea>', page.text, re.DOTALL)
        assert held is not None
        assert html.unescape(held[1]) == text
        for each in sorted(form.acts()):
            answer = ines.post("/rules/fill", {**FORM, "text": text, f"f.{each}": "yes", "token": ines.token()})
            assert answer.status_code == 200, each


def test_a_bomb_and_two_hundred_conditions() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    assert "expected" in form_of(bomb, {}).why_none
    many = "rule_type: threshold\nconditions:\n" + "".join(
        f"  - {{field: a{n}, operator: '==', value: {n}}}\n" for n in range(200)
    )
    form = form_of(many, {})
    assert sum(row.title.startswith("Condition ") for row in form.rows()) == 200
    assert "the form shows" in form_of(many.replace("200", "1") + "b: [" + "1, " * 4_000 + "1]\n", {}).why_none
