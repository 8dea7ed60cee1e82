"""Rules and lists of a pipeline that has them in topics: the messages, their authors, and the answers about lists."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.serve.http.kit import NOW_MS, Client, client_of, dependencies, detail

from crossline.rule_registry.events import RuleEvent
from crossline.serve.http.commands import CommandResult, Commands
from crossline.serve.http.problems import ProblemError
from crossline.settings.sources import ControlTopic, RulesTopic

RULE = "rule_id: huge\nversion: 1\nrule_type: threshold\nsource_topic: payments\nconditions: []\n"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The commands that were run; one on a file named bad.yaml says no."""
    found: list[Sequence[str]] = []

    async def run(_: Commands, arguments: Sequence[str], wait_s: float, missing: object = None) -> CommandResult:
        del wait_s, missing
        found.append(arguments)
        if arguments[2].endswith("bad.yaml"):
            raise ProblemError(400, "refused", f"{arguments[2]}:1: rule_id")
        return CommandResult(0, json.dumps({"rule_id": "huge"}).encode() + b"\n", "")

    monkeypatch.setattr(Commands, "run", run)
    return found


@pytest.fixture
def client(folder: Path, tmp_path: Path) -> Iterator[Client]:
    deps = dependencies(folder, tmp_path / "serve")
    place = {"kind": "kafka", "brokers": "127.0.0.1:1", "topic": "rules"}
    rules = RulesTopic.model_validate({**place, "path": str(folder / "rules"), "review": "required"})
    config = replace(deps.config, rules=rules, lists=ControlTopic.model_validate(place))
    with client_of(replace(deps, config=config)) as found:
        yield found


def test_a_file_is_sent_in_the_name_of_its_caller(client: Client, sent: list[Sequence[str]]) -> None:
    answer = client.post("/v1/rules:publish", json={"name": "huge.yaml", "text": RULE})
    assert answer.json() == {"items": [{"rule_id": "huge"}]}
    (command,) = sent
    assert (command[:2], Path(command[2]).name) == (["rules", "publish"], "huge.yaml")
    assert command[-3:] == ["--as", "mary", "--json"]
    found = detail(client.post("/v1/rules:publish", json={"name": "bad.yaml", "text": RULE}), 400)
    assert found == "bad.yaml:1: rule_id", "the answer does not contain the temporary path"


def test_a_version_that_waits_is_approved_of_as_it_was_looked_at(
    client: Client, folder: Path, sent: list[Sequence[str]]
) -> None:
    """The log says that a version waits; its digest is what the tag is of."""
    event = RuleEvent("waiting", NOW_MS, "huge", 1, "active", digest="d1", source="rule/huge/1", who="tom", text="x")
    with (folder / "rules/.log/payments.jsonl").open("ab") as file:
        file.write(event.to_line())
    (waiting,) = client.get("/v1/rules").json()["waiting"]
    assert (waiting["rule_id"], waiting["version"], waiting["who"]) == ("huge", 1, "tom")
    wanted = {"rule_id": "huge", "version": 1}
    wrong = client.post("/v1/rules:approve", json=wanted, headers={"If-Match": '"other"'})
    assert "was changed meanwhile" in detail(wrong, 412)
    assert sent == []
    assert client.post("/v1/rules:approve", json=wanted, headers={"If-Match": waiting["etag"]}).is_success
    assert sent[0][:5] == ["rules", "approve", "huge", "--version", "1"]
    done = client.post("/v1/rules/spending:set-status", json={"status": "active"}, headers={"If-Match": "*"})
    assert done.is_success
    assert sent[1][:4] == ["rules", "set-status", "spending", "active"]


def test_a_release_is_sent(client: Client, sent: list[Sequence[str]]) -> None:
    (held,) = client.get("/v1/holds").json()["items"]
    answer = client.request(
        "DELETE", f"/v1/holds/{held['hold_id']}", json={"reason": "-x"}, headers={"If-Match": held["etag"]}
    )
    assert answer.json()["who"] == "mary"
    (key,) = held["key"].items()
    assert sent[0][:7] == ["rules", "release", "card_testing", "--key", "=".join(key), "--reason", "-x"]


def test_lists_of_a_topic_are_sent_whole(client: Client) -> None:
    assert "crossline rules publish-list" in detail(client.put("/v1/lists/accounts/a5", json={}), 409)
    assert client.get("/v1/lists").json()["items"] == []
