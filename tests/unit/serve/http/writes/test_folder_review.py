"""A folder of rules under review, through the API: two people, exactly what was looked at, whatever comes between."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.unit.serve.http.kit import NOW_MS, Admitting, Client, client_of, dependencies, detail, project
from tests.unit.serve.http.writes.test_approvals import INES, ODA, TEXT, keep_proof

from crossline.rule_registry.directory import DirectoryRuleLog
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.sources.ownership import me
from crossline.serve.approvals.file import ApprovalFile
from crossline.settings.config import PipelineConfig
from crossline.settings.sources import RulesDirectory

ANNA = {"X-Who": "anna"}
MANY = """\
rule_id: many
version: 1
rule_type: velocity
source_topic: payments
group_by: account_id
aggregation_type: count
aggregation_threshold: 50
window: 1h
"""
HUGE = TEXT.replace("large_payment", "huge").replace("version: 2", "version: 1")
FILE = "large_payment.yaml"


class KilledError(BaseException):
    """The process ends here."""


@dataclass
class House:
    """A pipeline's folder under review, and the API over it, which may end and begin again."""

    folder: Path
    path: Path
    review: str = "required"

    @property
    def config(self) -> PipelineConfig:
        given = {"kind": "directory", "path": str(self.folder / "rules"), "review": self.review}
        return replace(dependencies(self.folder, self.path).config, rules=RulesDirectory.model_validate(given))

    def client(self) -> Any:
        return client_of(replace(dependencies(self.folder, self.path), config=self.config))

    def take_up(self) -> list[RuleEvent]:
        """What a pipeline that looks now logs."""
        config = self.config
        need = config.rules.review
        log = DirectoryRuleLog(
            config.rules.path,
            config.name,
            config.streams,
            lambda: ["accounts", "cards"],
            review=need != "none",
            proven=need == "proven",
        )
        log.start(NOW_MS)
        try:
            changes = log.poll()
            return [] if changes is None else log.take_up(changes, {}, NOW_MS)[1]
        finally:
            log.close()

    def text(self, name: str = FILE) -> str:
        return (self.folder / "rules" / name).read_text()


@pytest.fixture(params=["required", "proven"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    return House(project(tmp_path), tmp_path / "serve", request.param)


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with house.client() as found:
        yield found


def ask(client: Client, path: Path, text: str = TEXT, who: dict[str, str] = INES) -> tuple[str, dict[str, str]]:
    """The address of a request, and what who approves has to send."""
    proof_id = keep_proof(path, text)
    made = client.post("/v1/approvals", json={"text": text}, headers=who)
    assert made.status_code == 201, made.text
    return made.headers["location"], {"proof_id": proof_id}


def names(events: list[RuleEvent]) -> list[tuple[Any, ...]]:
    return [(each.event, each.rule_id, each.version, each.who, each.approved_by) for each in events]


PUBLISHED = ("published", "large_payment", 2, "ines", "oda")


def test_a_second_person_alone_publishes_exactly_what_was_proven(house: House, client: Client) -> None:
    at, signed = ask(client, house.path)
    for name in ("ines", "Ines", "lnes"):
        assert "you wrote it" in detail(client.post(f"{at}:approve", json=signed, headers={"X-Who": name}), 409)
    assert house.take_up() == []
    done = client.post(f"{at}:approve", json=signed, headers=ODA)
    assert done.is_success, done.text
    assert (done.json()["state"], done.json()["done"]) == ("published", True)
    assert house.text() == TEXT
    (event,) = house.take_up()
    assert names([event]) == [PUBLISHED]
    assert event.proof is not None
    assert event.proof["rule"] == client.get(f"{at}/proof").json()["digests"]["rule"]
    # Back to the words before it: those were never approved of, so a second person is wanted again.
    back = TEXT.replace("version: 2", "version: 3").replace("80000", "500000")
    assert client.post("/v1/rules:publish", json={"name": FILE, "text": back}, headers=INES).status_code == 202
    assert names(house.take_up()) == [("waiting", "large_payment", 3, "ines", None)]


def test_going_back_to_an_approved_text_needs_no_approval(house: House, client: Client) -> None:
    texts = [TEXT, TEXT.replace("version: 2", "version: 3").replace("80000", "70000")]
    for text in texts:
        at, signed = ask(client, house.path, text)
        assert client.post(f"{at}:approve", json=signed, headers=ODA).is_success
        assert [each.event for each in house.take_up()] == ["published"]
    back = {"name": FILE, "text": TEXT.replace("version: 2", "version: 4")}
    assert client.post("/v1/rules:publish", json=back, headers=INES).status_code == 200
    assert names(house.take_up()) == [("published", "large_payment", 4, "ines", None)]


@pytest.mark.parametrize("files", [0, 1, 2, 3])
def test_a_server_that_is_killed_between_two_steps_loses_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    """Killed once it was decided and so many files were written: statement, rules, approval."""
    with house.client() as client:
        at, signed = ask(client, house.path)
        count = itertools.count(1)

        def end(*_: Any) -> None:
            if next(count) >= files:
                raise KilledError

        with monkeypatch.context() as patched:
            patched.setattr(ApprovalFile, "reopen", end)
            patched.setattr(ApprovalFile, "note_done", end)
            patched.setattr("crossline.rule_registry.atomic_files.sync_folder", end if files else lambda _: None)
            if not files:
                patched.setattr("crossline.serve.http.writes.changes.put", end)
            with pytest.raises(KilledError):
                client.post(f"{at}:approve", json=signed, headers=ODA)
    between = names(house.take_up())
    assert between == {0: [], 1: [], 2: [("waiting", *PUBLISHED[1:4], None)], 3: [PUBLISHED]}[files]
    with house.client() as client:
        client.runner.run(client.app.state.finish())
        assert (client.get(at).json()["decided_by"], client.get(at).json()["done"]) == ("oda", True)
        assert names([*house.take_up()]) == ([] if files == 3 else [PUBLISHED])
        client.runner.run(client.app.state.finish())
    assert house.text() == TEXT
    assert house.take_up() == []


def test_what_may_not_follow_after_a_kill_waits_again(house: House) -> None:
    with house.client() as client:
        at, _ = ask(client, house.path)
    ApprovalFile(house.path).decide(1, "oda", "", 5, approved=True)
    (house.folder / "rules" / FILE).write_text(house.text() + "# by hand\n")
    with house.client() as client:
        client.runner.run(client.app.state.finish())
        assert client.get(at).json()["state"] == "waiting"
    assert house.text().endswith("# by hand\n")


def by_hand(house: House, client: Client) -> None:
    del client
    (house.folder / "rules" / FILE).write_text(house.text() + "# mine\n")


def gone(house: House, client: Client) -> None:
    del client
    (house.folder / "rules" / FILE).unlink()


def published(house: House, client: Client) -> None:
    text = TEXT.replace("80000", "1")
    assert client.post("/v1/rules:publish", json={"name": FILE, "text": text}, headers=ANNA).status_code == 202
    assert house.text() == text


def approved(house: House, client: Client) -> None:
    at, signed = ask(client, house.path, TEXT.replace("version: 2", "version: 3"))
    assert client.post(f"{at}:approve", json=signed, headers=ODA).is_success


@pytest.mark.parametrize(
    ("change", "text"), [(by_hand, "was changed"), (gone, "is gone"), (published, "was changed"), (approved, "was")]
)
def test_what_changed_beneath_a_request_is_reported_and_kept(
    house: House, client: Client, change: Callable[[House, Client], None], text: str
) -> None:
    at, signed = ask(client, house.path)
    change(house, client)
    files = {each.name: each.read_bytes() for each in (house.folder / "rules").glob("*.yaml")}
    assert f"{FILE} {text}" in detail(client.post(f"{at}:approve", json=signed, headers=ODA), 409)
    assert {each.name: each.read_bytes() for each in (house.folder / "rules").glob("*.yaml")} == files
    assert client.get(at).json()["state"] == "waiting"
    assert client.post(f"{at}:reject", json={"reason": "the file changed"}, headers=ODA).is_success


def test_of_a_file_with_several_rules_none_is_lost(house: House, client: Client) -> None:
    """The file that is called as the rule has another rule beside it."""
    path = house.folder / "rules/huge.yaml"
    other = HUGE.replace("huge", "tiny").replace("\n", "\n  ")
    path.write_text(f"- {other.strip()}\n")
    at, signed = ask(client, house.path, HUGE)
    assert client.get(at).json()["name"] == "huge.2.yaml"
    assert client.post(f"{at}:approve", json=signed, headers=ODA).is_success
    assert "tiny" in path.read_text()
    assert ("published", "huge", 1, "ines", "oda") in names(house.take_up())


def test_two_who_approve_at_once_are_one(house: House) -> None:
    with house.client() as client:
        at, signed = ask(client, house.path)

        async def both() -> list[int]:
            transport = httpx.ASGITransport(Admitting(client.app))
            async with httpx.AsyncClient(transport=transport, base_url="http://api") as http:
                asked = [http.post(f"{at}:approve", json=signed, headers=who) for who in (ODA, ANNA)]
                return [each.status_code for each in await asyncio.gather(*asked)]

        assert sorted(client.runner.run(both())) == [200, 409]
    assert [(each.event, each.approved_by in {"oda", "anna"}) for each in house.take_up()] == [("published", True)]


def test_a_file_changed_by_hand_after_it_was_approved_is_not_taken_up(house: House, client: Client) -> None:
    at, signed = ask(client, house.path)
    assert client.post(f"{at}:approve", json=signed, headers=ODA).is_success
    path = house.folder / "rules" / FILE
    path.write_text(TEXT.replace("80000", "1"))
    events = house.take_up()
    assert [(each.event, each.who) for each in events] == [("refused", "oda"), ("waiting", me())]
    (waiting,) = client.get("/v1/rules").json()["waiting"]
    assert (waiting["version"], waiting["who"]) == (2, me()), "the reader gets his own name"
    path.write_text(TEXT)
    assert names(house.take_up()) == [PUBLISHED]
    path.write_text(TEXT.replace("80000", "2"))
    (refused,) = house.take_up()
    assert (refused.event, "other conditions" in str(refused.text)) == ("refused", True)


def test_where_the_pipeline_is_run_by_another_user_nothing_is_done(
    house: House, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, signed = ask(client, house.path)
    monkeypatch.setattr("crossline.serve.http.writes.changes.me", lambda: "web")
    before = house.text()
    for answer in (
        client.post("/v1/approvals", json={"text": TEXT}, headers=INES),
        client.post(f"{at}:approve", json=signed, headers=ODA),
        client.post("/v1/rules:publish", json={"name": FILE, "text": TEXT}, headers=INES),
    ):
        assert f"its pipeline is run by the user {me()}, and this server by web" in detail(answer, 409)
    assert house.text() == before
    assert client.get(at).json()["state"] == "waiting"


def test_a_published_version_waits_and_is_approved_of_as_it_was_looked_at(house: House, client: Client) -> None:
    sent = client.post("/v1/rules:publish", json={"name": FILE, "text": TEXT}, headers=INES)
    (waits,) = sent.json()["waits"]
    assert (sent.status_code, sent.headers["etag"], sent.headers["location"]) == (
        202, waits["etag"], "/v1/rules/large_payment/versions",
    )  # fmt: skip
    assert {name: waits[name] for name in ("rule_id", "version", "approve")} == {
        "rule_id": "large_payment", "version": 2, "approve": "/v1/rules:approve",
    }  # fmt: skip
    wanted = {"rule_id": "large_payment", "version": 2, "proof_id": keep_proof(house.path)}
    match = {"If-Match": waits["etag"]}
    mine = client.post("/v1/rules:approve", json=wanted, headers={**INES, **match})
    assert "expected another one's approval" in detail(mine, 409)
    assert str(house.folder) not in mine.text
    other = client.post("/v1/rules:approve", json=wanted, headers={**ODA, "If-Match": '"other"'})
    assert "was changed meanwhile" in detail(other, 412)
    if house.review == "proven":
        bare = {name: wanted[name] for name in ("rule_id", "version")}
        refused = client.post("/v1/rules:approve", json=bare, headers={**ODA, **match})
        assert "expected the proof of the version" in detail(refused, 409)
    assert names(house.take_up()) == [("waiting", "large_payment", 2, "ines", None)]
    (logged,) = client.get("/v1/rules").json()["waiting"]
    assert logged["etag"] == waits["etag"], "it is one name, before a pipeline looked and after"
    # With another author, it is not the text that was reviewed.
    (house.folder / "rules" / FILE).write_text(TEXT.replace("80000", "1"))
    assert client.post("/v1/rules:approve", json=wanted, headers={**ODA, **match}).status_code == 412
    (house.folder / "rules" / FILE).write_text(TEXT)
    done = client.post("/v1/rules:approve", json=wanted, headers={**ODA, **match})
    assert done.json() == {"rule_id": "large_payment", "version": 2, "change": "approved", "who": "oda"}
    assert PUBLISHED in names(house.take_up())


def test_a_proof_of_another_text_approves_nothing(house: House, client: Client) -> None:
    client.post("/v1/rules:publish", json={"name": FILE, "text": TEXT}, headers=INES)
    wanted = {"rule_id": "large_payment", "version": 2, "proof_id": keep_proof(house.path, TEXT.replace("8", "7"))}
    answer = client.post("/v1/rules:approve", json=wanted, headers={**ODA, "If-Match": "*"})
    assert "found a proof of another text" in detail(answer, 409)
    missing = {**wanted, "proof_id": "none"}
    assert 'found no proof "none"' in detail(
        client.post("/v1/rules:approve", json=missing, headers={**ODA, "If-Match": "*"}), 404
    )


def test_a_status_and_a_share_that_widen_wait_for_a_second_person(house: House) -> None:
    """Of a version that the log knew before a review was required."""
    need, house.review = house.review, "none"
    (house.folder / "rules/many.yaml").write_text(MANY + "status: shadow\n")
    assert [each.event for each in house.take_up()] == ["published"]
    house.review = need
    with house.client() as client:
        tag = client.get("/v1/rules/many").headers["etag"]
        match = {"If-Match": tag}
        sent = client.post("/v1/rules/many:set-status", json={"status": "active"}, headers={**INES, **match})
        assert (sent.status_code, sent.json()["status"], sent.json()["change"]) == (202, "active", "status_changed")
        (waits,) = sent.json()["waits"]
        assert sent.headers["etag"] == waits["etag"]
        assert names(house.take_up()) == [("waiting", "many", 1, "ines", None)]
        assert client.get("/v1/rules/many").json()["status"] == "shadow"
        again = client.post("/v1/rules/many:set-status", json={"status": "active"}, headers={**ANNA, **match})
        assert (again.status_code, again.json()["change"]) == (202, "status_changed")
        proof = {"proof_id": keep_proof(house.path, MANY)}
        wanted = {"rule_id": "many", "version": 1, **proof}
        for who in (INES, {"X-Who": me()}):
            answer = client.post("/v1/rules:approve", json=wanted, headers={**who, "If-Match": waits["etag"]})
            assert "expected another one's approval" in detail(answer, 409)
        done = client.post("/v1/rules:approve", json=wanted, headers={**ODA, "If-Match": waits["etag"]})
        assert done.is_success, done.text
        assert names(house.take_up())[-1] == ("status_changed", "many", 1, "anna", "oda")
        # What was approved of once may be narrowed, widened and paused by one.
        for act, body in (("share", {"share": "10%"}), ("share", {"share": "50%"}), ("status", {"status": "paused"})):
            answer = client.post(f"/v1/rules/many:set-{act}", json=body, headers={**INES, "If-Match": "*"})
            assert answer.status_code == 200, answer.text
            assert [each.event for each in house.take_up()] == ["status_changed"]


def test_a_wider_share_waits(house: House) -> None:
    need, house.review = house.review, "none"
    (house.folder / "rules/many.yaml").write_text(MANY + "share: 10%\n")
    assert [each.event for each in house.take_up()] == ["published"]
    house.review = need
    with house.client() as client:
        sent = client.post("/v1/rules/many:set-share", json={"share": "20%"}, headers={**INES, "If-Match": "*"})
        assert (sent.status_code, [each["version"] for each in sent.json()["waits"]]) == (202, [1])
        assert names(house.take_up()) == [("waiting", "many", 1, "ines", None)]
        less = client.post("/v1/rules/many:set-share", json={"share": "5%"}, headers={**INES, "If-Match": "*"})
        assert less.status_code == 200
        assert [each.event for each in house.take_up()] == ["status_changed"]
