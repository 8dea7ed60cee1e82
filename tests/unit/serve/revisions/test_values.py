"""What a revision says, when there is one, and what its settings refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from crossline.serve.revisions.values import revision_of
from crossline.settings.process.serve import ServeSettings


def test_the_example_of_cases_md() -> None:
    page = (Path(__file__).parents[4] / "docs" / "cases.md").read_text(encoding="utf-8")
    shown = page.partition("## Revisions")[2]
    settings = ServeSettings.model_validate(
        yaml.safe_load(shown.partition("```yaml\n")[2].partition("```")[0])["serve"]
    )
    assert [each.password_env for each in settings.revisions] == ["PAY_KEY"]
    made = revision_of({**ANSWER, "answered": "peek"}, DECIDED)
    assert made is not None
    assert list(json.loads(shown.partition("```json\n")[2].partition("```")[0])) == list(made.body)


def test_what_the_settings_refuse() -> None:
    def refusal(*revisions: dict[str, Any]) -> str:
        with pytest.raises(ValueError, match="expected") as raised:
            ServeSettings.model_validate({"revisions": list(revisions)})
        return str(raised.value)

    good = {"url": "https://pay.example/hook", "password_env": "K"}
    assert "each address once" in refusal(good, good)
    assert "https://, for alerts name people" in refusal({**good, "url": "http://pay.example/hook"})
    assert "the key that signs" in refusal({"url": "https://pay.example/hook"})


ANSWER = {"decision_id": "d1", "stream": "payments", "record_id": "t1", "decision": "allow", "answered": "fallback"}
DECIDED = {"decision_id": "d1", "kind": "decision", "revision": 0, "decision": "block", "score": 90, "reasons": []}


def test_a_revision_changes_the_last_decision_sent_out() -> None:
    first = revision_of(ANSWER, DECIDED)
    assert first is not None
    assert json.loads(json.dumps(first.body)) == {
        "schema_version": 1,
        "kind": "revision",
        "revision_id": first.revision_id,
        "decision_id": "d1",
        "stream": "payments",
        "record_id": "t1",
        "answered": "fallback",
        "was": "allow",
        "decision": "block",
        "score": 90,
        "reasons": [],
        "revision": 0,
    }
    assert revision_of(ANSWER, DECIDED) == first, "the same id whenever it is made"
    assert revision_of(ANSWER, {**DECIDED, "decision": "allow"}) is None
    late = {**DECIDED, "kind": "revision", "decision_id": "r1", "revision": 1, "decision": "allow", "because": "c1"}
    assert revision_of(ANSWER, late) is None
    second = revision_of(ANSWER, late, last="block")
    assert second is not None
    assert (second.revision_id, second.body["was"], second.body["decision"]) == ("r1", "block", "allow")
