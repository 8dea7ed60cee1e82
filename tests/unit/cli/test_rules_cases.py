"""``crossline rules test`` without a sample: cases beside rule files, what passes, what fails and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from crossline.cli.init import template_files
from crossline.cli.main import run_command

AT = "2026-01-05T09:00:00Z"
LARGE = {"account_id": "a", "merchant_id": "m", "channel": "transfer", "amount_cents": 150_000, "paid_at": AT}
Run = Callable[..., int]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in template_files():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(*cases: dict[str, Any], name: str = "large_payment") -> None:
    Path(f"rules/{name}.cases.yaml").write_text(yaml.safe_dump({"cases": list(cases)}))


def run_cases(*more: str, path: str = "rules") -> int:
    return run_command(["rules", "test", path, "--stream", "stream.yaml", *more])


def results(capsys: pytest.CaptureFixture[str], path: str = "rules") -> tuple[int, list[dict[str, Any]]]:
    code = run_cases("--json", path=path)
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_cases_of_a_new_project_pass(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cases() == 0
    found = capsys.readouterr()
    assert "five small payments within a minute" in found.out
    assert "2 cases, 0 failed" in found.err


def test_a_case_says_all_that_differs(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(
        {
            "name": "wrong",
            "record": LARGE,
            "records": [{"payment_id": "p1"}, {"payment_id": "p2", "amount_cents": 1}, {"payment_id": "p3"}],
            "hits": ["p2", {"record": "p3", "count": 2, "key": {"account_id": "a"}}],
        }
    )
    code, found = results(capsys, "rules/large_payment.yaml")
    assert code == 1
    assert found == [
        {
            "file": "rules/large_payment.cases.yaml",
            "case": "wrong",
            "passed": False,
            "differs": [
                "large_payment at p2: found no such hit",
                "large_payment at p3: found key {}, expected {'account_id': 'a'}",
                "large_payment at p3: found count 1, expected 2",
                "large_payment at p1: not expected (transfer of 150000 cents to m)",
            ],
        }
    ]


def test_only_hits_of_the_rules_beside_count(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Spending is in shadow and fires too, in a file of its own; a draft is judged as it will be."""
    text = Path("rules/large_payment.yaml").read_text()
    Path("rules/large_payment.yaml").write_text(text.replace("version: 1", "version: 1\n  status: draft", 1))
    case = {"name": "large", "record": LARGE, "records": [{"payment_id": "p1", "amount_cents": 10_000_000}]}
    put({**case, "hits": ["p1"]})
    put({**case, "hits": ["p1"]}, name="spending")
    put(
        {**case, "hits": [{"rule": name, "record": "p1"} for name in ("spending", "large_payment")]}, name="all_of_them"
    )
    code, found = results(capsys)
    assert code == 0, found
    assert len(found) == 5


def test_values_are_compared_as_numbers(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = {
        "name": "sum",
        "record": LARGE,
        "records": [{"payment_id": "p1"}, {"payment_id": "p2"}, {"payment_id": "p3"}],
    }
    put({**case, "hits": [{"record": "p2", "value": 300_000.0}]}, name="spending")
    code, found = results(capsys, "rules/spending.yaml")
    assert code == 0, found
    put({**case, "hits": [{"record": "p2", "value": 299_999}]}, name="spending")
    code, found = results(capsys, "rules/spending.yaml")
    assert (code, found[0]["differs"]) == (1, ["spending at p2: found value 300000, expected 299999"])


def test_a_record_that_does_not_fit_or_comes_too_late_fails_its_case(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = [{"payment_id": "p1"}, {"payment_id": "p2", "paid_at": "2026-01-01T00:00:00Z"}]
    put(
        {
            "name": "no merchant",
            "record": {**LARGE, "merchant_id": None},
            "records": [{"payment_id": "p1"}],
            "hits": [],
        },
        {"name": "late", "record": LARGE, "records": late, "hits": ["p1"]},
    )
    code, found = results(capsys, "rules/large_payment.yaml")
    assert code == 1
    assert found[0]["differs"][0].startswith("records[0] is refused: missing_field: field merchant_id")
    assert found[1]["differs"][0].startswith("record p2 came ")


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ({"name": "x", "records": [], "hits": []}, "cases[0].records"),
        ({"name": "x", "records": [{"payment_id": "p"}]}, "cases[0].hits"),
        ({"name": "x", "records": [{"payment_id": "p"}], "hits": [], "reocrds": 1}, "unknown field reocrds"),
        ({"name": "x", "records": [{"payment_id": "p"}], "hits": [{"rule": "r"}]}, "cases[0].hits[0].record"),
    ],
)
def test_a_file_that_is_no_file_of_cases_is_refused_with_its_place(
    project: Path, capsys: pytest.CaptureFixture[str], case: dict[str, Any], text: str
) -> None:
    put(case)
    assert run_cases(path="rules/large_payment.yaml") == 2
    reported = capsys.readouterr().err
    assert "rules/large_payment.cases.yaml:" in reported
    assert text in reported


def test_strange_streams_and_rules_fail_their_case(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = {"name": "x", "record": LARGE, "records": [{"payment_id": "p1"}]}
    put({**case, "stream": "paymnets", "hits": []}, {**case, "hits": [{"rule": "spending", "record": "p1"}]})
    code, found = results(capsys, "rules/large_payment.yaml")
    assert code == 1
    assert [each["differs"] for each in found] == [
        ["found stream paymnets, expected payments; did you mean payments?"],
        ["spending at p1: no rule of the file, which has large_payment"],
    ]


def test_without_a_sample_and_without_cases_it_says_what_it_wants(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cases(path="rules/spending.yaml") == 2
    assert "found no --input and no cases at rules/spending.cases.yaml" in capsys.readouterr().err
    assert run_cases("--record", "p1") == 2
    assert "--record p1: found no --input" in capsys.readouterr().err


def test_cases_are_no_rules(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["rules", "check", "rules", "--stream", "stream.yaml"]) == 0
    assert "3 rules in 3 files" in capsys.readouterr().err
    Path("new").mkdir()
    Path("rules/card_testing.cases.yaml").rename("new/card_testing.cases.yaml")
    assert run_command(["rules", "publish", "new/card_testing.cases.yaml", "--stream", "stream.yaml"]) == 2
    assert "cases are not published" in capsys.readouterr().err
