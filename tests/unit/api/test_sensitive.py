"""Rules on tokens: the same alerts on the same records as rules on the values, and no value in what they write."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import crossline as cl
from crossline.basics.errors import PermanentError
from crossline.basics.texts.problems import RefusedError
from crossline.cli.main import run_command
from crossline.io.tokens.opening import close_stores
from e2e.traffic import RULES, STREAM, STREAMS, lines, records

DEFAULTS = cl.Defaults(time_mode="event_time", watermark_delay_ms=5_000, allowed_lateness_ms=20_000)
SENSITIVE = {"account": {}, "device": {}, "kind": {"person": "account"}}
SEQUENCE: dict[str, Any] = {
    "rule_id": "small_then_large",
    "version": 1,
    "rule_type": "sequence",
    "source_topic": STREAM,
    "group_by": "account",
    "within": "2m",
    "steps": [
        {"name": "small", "conditions": [{"field": "amount", "operator": "<=", "value": 5}]},
        {"name": "large", "conditions": [{"field": "amount", "operator": ">=", "value": 250}]},
    ],
}
DISTINCT = {**copy.deepcopy(RULES[0]), "rule_id": "devices", "aggregation_type": "distinct_count"}
DISTINCT |= {"aggregation_field": "device", "aggregation_threshold": 3}
# Those that compare a value with a text in the rule are not about equality of values with each other.
EQUAL = [each for each in RULES if "cash" not in json.dumps(each)] + [SEQUENCE, DISTINCT]


@pytest.fixture(autouse=True)
def master_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CROSSLINE_TOKEN_KEY", "0123456789abcdef" * 4)
    yield
    close_stores()


def project(folder: Path, sensitive: dict[str, Any], rules: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    streams = {STREAM: {**STREAMS[STREAM], **({"sensitive": sensitive} if sensitive else {})}}
    (folder / "stream.yaml").write_text(yaml.safe_dump({"schema_version": 1, "streams": streams}))
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
    return folder


def found(folder: Path, log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list(cl.detect(log, folder / "rules.yaml", folder / "stream.yaml", defaults=DEFAULTS))


def about(alert: dict[str, Any]) -> tuple[Any, ...]:
    """An alert, but for the key, and the ids and texts that are made of it."""
    evidence = {name: each for name, each in alert["evidence"].items() if name in {"count", "record_ids"}}
    if "steps" in alert["evidence"]:
        evidence["steps"] = alert["evidence"]["steps"]
    names = ("rule_id", "kind", "record_id", "event_time", "ingest_time", "value", "window_start", "window_end")
    return (*(alert[name] for name in names), json.dumps(evidence, sort_keys=True))


def test_the_alerts_are_those_of_the_values(tmp_path: Path) -> None:
    log = records(400, seed=3)
    plain = found(project(tmp_path / "plain", {}, EQUAL), log)
    made = found(project(tmp_path / "tokens", SENSITIVE, EQUAL), log)
    assert {alert["rule_id"] for alert in plain} >= {"burst", "small_then_large", "devices", "sums_of_one_device"}
    # Alerts of one record are in the order of their rules in both.
    assert [about(each) for each in made] == [about(each) for each in plain]
    pairs = {json.dumps([a["key"], b["key"]]) for a, b in zip(plain, made, strict=True)}
    assert len(pairs) == len({json.dumps(each["key"]) for each in plain})
    text = json.dumps(made)
    assert '"a1"' not in text
    assert "tok_" in text


def test_again_and_in_another_form_the_tokens_are_the_same(tmp_path: Path) -> None:
    folder, log = project(tmp_path / "p", SENSITIVE, EQUAL), records(100, 5)
    (folder / "log.jsonl").write_bytes(lines(log))
    once = [each["key"] for each in found(folder, log)]
    assert once
    assert [each["key"] for each in found(folder, log)] == once


def test_nothing_that_a_backtest_writes_has_a_value(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = project(tmp_path / "p", SENSITIVE, EQUAL)
    log = [{**each, "account": f"secret-{each['account']}"} for each in records(200, 6)]
    broken = (
        b'{"id": "b1", "account": "secret-a1"\n' + b'{"id": "b2", "account": ["secret-a1"], "amount": "secret-a1"}\n'
    )
    (tmp_path / "log.jsonl").write_bytes(lines(log) + broken)
    command = ["backtest", "--rules", str(folder / "rules.yaml"), "--stream", str(folder / "stream.yaml")]
    command += ["--input", str(tmp_path / "log.jsonl"), "--output", str(folder / "out" / "alerts.jsonl")]
    assert run_command(command) == 0
    written = [each for each in folder.rglob("*") if each.is_file()]
    assert (folder / "out" / "alerts.jsonl") in written
    assert b"tok_" in (folder / "out" / "alerts.jsonl").read_bytes()
    assert [str(each) for each in written if b"secret" in each.read_bytes()] == []
    assert "secret" not in "".join(capfd.readouterr())


MISUSED = [
    (
        {"field": "account", "operator": "==", "value": "secret-1"},
        "a value that is no token, since account is sensitive",
    ),
    ({"field": "account", "operator": "in", "value": ["secret-1", "a2"]}, "a value that is no token"),
    ({"field": "account", "operator": "starts_with", "value": "a"}, "starts_with on account"),
    ({"field": "account", "operator": ">", "value": "a"}, "> on account"),
    ({"field": "device", "operator": ">", "value": 3}, "> on device, of type string"),
    ({"field": "account", "operator": "==", "value": {"field": "device"}}, "device, which has tokens of device"),
]


@pytest.mark.parametrize(("condition", "words"), MISUSED, ids=range(len(MISUSED)))
def test_what_a_token_does_not_say_is_refused(tmp_path: Path, condition: dict[str, Any], words: str) -> None:
    rule = {**RULES[0], "conditions": [condition]}
    folder = project(tmp_path / "p", SENSITIVE, [rule])
    with pytest.raises(RefusedError) as refused:
        found(folder, [])
    assert words in str(refused.value)
    assert "rules.yaml:" in str(refused.value)
    if "no token" in words:
        assert "secret-1" not in str(refused.value)


FORMULAS = [
    ("tries >= 2 and account == 'secret-1'", "a value that is no token, since account is sensitive"),
    ("tries >= 2 and 'secret-1' != account", "a value that is no token, since account is sensitive"),
    ("tries >= 2 and account in ('secret-1', 'x')", "a value that is no token, since account is sensitive"),
    ("tries >= 2 and account > 'secret-1'", "> on account, which is sensitive"),
    ("tries >= 2 and account == device", "account, which is sensitive, beside other values"),
    ("tries >= 2 and device > 3", "string against integer"),
    (f"tries >= 2 and account != 'tok_{'a' * 24}'", ""),
    ("tries >= 2 and account == account", ""),
]


@pytest.mark.parametrize(("when", "words"), FORMULAS, ids=range(len(FORMULAS)))
def test_formulas_too(tmp_path: Path, when: str, words: str) -> None:
    rule = {"rule_id": "f", "version": 1, "rule_type": "formula", "source_topic": STREAM, "when": when}
    rule |= {"figures": {"tries": {"count": True, "group_by": "account", "window": "1m"}}}
    folder = project(tmp_path / "p", SENSITIVE, [rule])
    if not words:
        assert {each["rule_id"] for each in found(folder, records(5, 1))} == {"f"}
        return
    with pytest.raises(RefusedError) as refused:
        found(folder, [])
    assert words in str(refused.value)
    assert "device" in when or "secret-1" not in str(refused.value)


def test_a_sensitive_number_is_no_number(tmp_path: Path) -> None:
    rule = {**RULES[0], "aggregation_type": "sum", "aggregation_field": "device"}
    with pytest.raises(RefusedError, match="device, of type string"):
        found(project(tmp_path / "p", SENSITIVE, [rule]), [])


def test_a_token_may_stand_in_a_rule(tmp_path: Path) -> None:
    log = records(100, 8)
    key = found(project(tmp_path / "p", SENSITIVE, [RULES[0]]), log)[0]["key"]["account"]
    rule = {**RULES[0], "conditions": [{"field": "account", "operator": "==", "value": key}]}
    (tmp_path / "p" / "rules.yaml").write_text(yaml.safe_dump([rule]))
    assert {each["key"]["account"] for each in found(tmp_path / "p", log)} == {key}


def test_without_a_master_key_nothing_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROSSLINE_TOKEN_KEY")
    with pytest.raises(PermanentError, match="environment variable CROSSLINE_TOKEN_KEY is not set"):
        found(project(tmp_path / "p", {**SENSITIVE, "device": {"domain": "another"}}, EQUAL), records(1, 1))
