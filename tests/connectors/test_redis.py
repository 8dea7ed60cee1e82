"""The Redis sink on a real server: the status of entities, and each alert once."""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from dev.services.redis import LocalRedis

from crossline.basics.errors import PermanentError, SinkError
from crossline.io.redis import decision_writes
from crossline.io.redis import sink as module
from crossline.io.redis.keys import entity
from crossline.io.redis.sink import RedisSink
from crossline.io.sinks.base import Delivery
from crossline.settings.redis import RedisSettings

from .makers import alert, delivery
from .trickling import trickling

HOUR_MS = 3_600_000
WAIT_S = 30.0


class Seen:
    """The server as a reader sees it, under a prefix of its own."""

    def __init__(self, server: LocalRedis, **settings: Any) -> None:
        self.prefix = f"t:{uuid.uuid4()}"
        self.client: Any = server.client()
        self.settings = RedisSettings(kind="redis", port=server.port, prefix=self.prefix, **settings)
        self.sink = RedisSink(self.settings, "p")
        self.sink.open()

    def write(self, *alerts: dict[str, Any], decisions: tuple[dict[str, Any], ...] = ()) -> None:
        self.sink.deliver(Delivery("p", 0, alerts=alerts, decisions=decisions))

    def status(self, key: str = "account_id=a1") -> dict[str, str]:
        found: dict[str, str] = self.client.hgetall(f"{self.prefix}:entity:{key}")
        return {name: value for name, value in found.items() if name != "until_ms"}

    def get(self, *parts: str) -> Any:
        found = self.client.get(":".join((self.prefix, *parts)))
        return None if found is None else json.loads(found)

    def alert_ids(self) -> list[str]:
        return [fields["alert_id"] for _, fields in self.client.xrange(f"{self.prefix}:alerts")]


@pytest.fixture
def made(redis_server: LocalRedis) -> Iterator[Callable[..., Seen]]:
    all_: list[Seen] = []

    def make(**settings: Any) -> Seen:
        all_.append(Seen(redis_server, **settings))
        return all_[-1]

    yield make
    for each in all_:
        each.sink.close()
        each.client.close()


def decision(record: str, decided: str, revision: int = 0, version: int = 1) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "decision_id": f"d-{record}-{version}-{revision}",
        "stream": "payments",
        "record_id": record,
        "decision": decided,
        "policy_version": version,
        "revision": revision,
    }


def corrected(name: str, outcome: str, **changes: Any) -> dict[str, Any]:
    return alert(f"{name}-{outcome}", kind="correction", corrects=f"id-{name}", outcome=outcome, **changes)


def standing(action: str, score: int, name: str) -> dict[str, str]:
    return {
        "status": action,
        "action": action,
        "score": str(score),
        "alert_id": f"id-{name}",
        "rule_id": "card_burst",
        "rule_version": "3",
    }


def decided(
    record: str, text: str, *names: str, score: int = 40, revision: int = 0, version: int = 1
) -> dict[str, Any]:
    """A decision about a record, resting on the alerts of these names."""
    reasons = [{"rule_id": "card_burst", "alert_id": f"id-{name}"} for name in names]
    return {**decision(record, text, revision, version), "score": score, "reasons": reasons}


def test_the_status_is_the_decision_and_the_action_stands_beside_it(made: Callable[..., Seen]) -> None:
    """Worked by hand: two rules review, by which the policy blocks; a third one's block is allowed by it."""
    seen = made()
    both = [alert(name, record_id="t1", action="review", score=40) for name in ("a", "b")]
    seen.write(*both, decisions=(decided("t1", "block", "a", "b", score=80),))
    blocked = {**standing("review", 80, "a"), "status": "block", "decision_id": "d-t1-1-0"}
    assert {**seen.status(), "alert_id": "id-a"} == blocked
    other = alert("c", key={"account_id": "a2"}, action="block", score=99)
    seen.write(other, decisions=(decided("c", "allow", "c", score=99),))
    allowed = {**standing("block", 99, "c"), "status": "allow", "decision_id": "d-c-1-0"}
    assert seen.status("account_id=a2") == allowed
    alone = alert("d", key={"account_id": "a3"}, record_id="t9", action="block")
    seen.write(alone, decisions=(decided("t9", "review", "another"),))
    assert seen.status("account_id=a3") == standing("block", 40, "d"), "what decides nothing has its rule's action"


def test_a_revision_changes_the_status_of_what_it_is_about(made: Callable[..., Seen]) -> None:
    """Worked by hand: one of two alerts on a record is taken back, and the other is reviewed from then on."""
    seen = made()
    first, second = (alert(name, record_id="t1", action="review", key={"account_id": name}) for name in ("a", "b"))
    seen.write(first, second, decisions=(decided("t1", "block", "a", "b", score=80),))
    amended = corrected("a", "amended", record_id="t1", action="review", key={"account_id": "a"}, value=9)
    seen.write(amended)
    assert seen.status("account_id=a")["status"] == "block", "a correction that changes no decision changes no status"
    gone = corrected("b", "retracted", record_id="t1", key={"account_id": "b"}, value=None)
    revised = decided("t1", "review", "a", revision=1)
    for _ in range(2):
        seen.write(gone, decisions=(revised,))
        assert seen.status("account_id=b") == {}
        assert seen.status("account_id=a") == {**standing("review", 40, "a"), "decision_id": "d-t1-1-1"}
    seen.write(decisions=(decided("t1", "block", "a", "b", score=80),))
    assert seen.status("account_id=a")["status"] == "review", "what comes again does not go back"
    held = {"rule_id": "card_burst", "alert_id": "id-a", "held_by": "id-a"}
    seen.write(decisions=({**decided("t2", "block", revision=1), "reasons": [held]},))
    assert seen.status("account_id=a")["status"] == "review", "a record that it holds is another one"


def test_the_gravest_action_in_force_is_the_entitys(made: Callable[..., Seen]) -> None:
    seen = made()
    seen.write(alert("a", action="review", score=90))
    assert seen.status() == standing("review", 90, "a")
    seen.write(alert("b", action="block", score=10))
    assert seen.status() == standing("block", 10, "b")
    seen.write(alert("c", action="block", score=20), alert("d", action="step_up", score=99))
    assert seen.status() == standing("block", 20, "c")
    seen.write(corrected("c", "retracted", value=None))
    assert seen.status() == standing("block", 10, "b")
    seen.write(corrected("b", "retracted", value=None))
    assert seen.status() == standing("step_up", 99, "d")
    seen.write(corrected("b", "reinstated", action="block", score=10))
    assert seen.status() == standing("block", 10, "b")
    seen.write(corrected("d", "retracted", value=None), corrected("a", "retracted", value=None))
    seen.write(alert("b-again", kind="correction", corrects="id-b", outcome="retracted", value=None))
    assert seen.status() == {}
    assert seen.alert_ids() == [
        *("id-a", "id-b", "id-c", "id-d", "id-c-retracted", "id-b-retracted", "id-b-reinstated"),
        *("id-d-retracted", "id-a-retracted", "id-b-again"),
    ]


def test_what_comes_again_moves_nothing(made: Callable[..., Seen]) -> None:
    seen = made()
    seen.write(alert("a", action="block"))
    seen.write(corrected("a", "retracted", value=None))
    seen.write(alert("a", action="block"), corrected("a", "retracted", value=None))
    assert seen.status() == {}
    assert seen.alert_ids() == ["id-a", "id-a-retracted"]


def test_an_action_is_in_force_for_its_time(made: Callable[..., Seen]) -> None:
    long, short = made(in_force="2h"), made(in_force="40ms")
    short.prefix = long.prefix
    short.sink = RedisSink(short.settings.model_copy(update={"prefix": long.prefix}), "p")
    short.sink.open()
    long.write(alert("a", action="review"))
    left_ms = long.client.pttl(f"{long.prefix}:entity:account_id=a1")
    assert HOUR_MS < left_ms <= 2 * HOUR_MS
    short.write(alert("b", action="block"))
    short.write(alert("other", action="block", key={"account_id": "a2"}))
    deadline_s = time.monotonic() + WAIT_S
    while long.client.exists(f"{long.prefix}:entity:account_id=a1", f"{long.prefix}:entity:account_id=a2"):
        assert time.monotonic() < deadline_s  # it expires by the server's clock
    assert [name for name, _ in long.client.zrange(f"{long.prefix}:due", 0, -1, withscores=True)] == ["account_id=a1"]
    long.write(alert("c", key={"account_id": "a3"}))
    assert long.status() == standing("review", 40, "a"), "what outlasts a graver action, with the next delivery"
    assert long.status("account_id=a2") == {}
    assert long.client.exists(f"{long.prefix}:due") == 0
    long.write(alert("d", action="allow"))
    assert long.status() == standing("review", 40, "a")
    assert long.client.hlen(f"{long.prefix}:standing:account_id=a1") == 2


def test_a_storm_on_one_entity_is_not_looked_through_at_each_alert(made: Callable[..., Seen]) -> None:
    def looked_through() -> int:
        """How often all that stands for an entity was read."""
        return int(seen.client.info("commandstats").get("cmdstat_hgetall", {"calls": 0})["calls"])

    seen = made()
    before = looked_through()
    seen.write(*(alert(f"{n:04}", action="review" if n % 3 else "block", score=n % 50) for n in range(2_100)))
    assert 1 <= looked_through() - before <= 4
    # Of the blocking ones with the highest score, the last delivered is in force longest; of one instant, the first.
    assert {**seen.status(), "alert_id": ""} == {**standing("block", 49, ""), "alert_id": ""}
    assert seen.client.hlen(f"{seen.prefix}:standing:account_id=a1") == 2_100


def test_one_by_one_is_as_all_at_once(made: Callable[..., Seen]) -> None:
    """The gravest alert, as a scan of all delivered ones finds it, after every step of a drawn history."""
    drawn, ranks = random.Random(7), ("allow", "review", "step_up", "block")
    seen, known = made(), dict[str, tuple[int, int]]()
    for step in range(300):
        name = f"{drawn.randrange(12)}"
        if f"id-{name}" in known and drawn.random() < 0.5:
            seen.write(
                alert(f"{name}-{step}", kind="correction", corrects=f"id-{name}", outcome="retracted", value=None)
            )
            del known[f"id-{name}"]
        else:
            rank, score = drawn.randrange(4), drawn.randrange(3)
            body = {"kind": "correction", "corrects": f"id-{name}", "outcome": "amended"}
            seen.write(alert(f"{name}-{step}", action=ranks[rank], score=score, **body))
            known[f"id-{name}"] = (rank, score)
        found = seen.status()
        if not known:
            assert found == {}
        else:
            assert known[found["alert_id"]] == max(known.values())
            assert (found["action"], int(found["score"])) == (ranks[max(known.values())[0]], max(known.values())[1])


def test_a_correction_changes_the_figure_of_its_alert_alone(made: Callable[..., Seen]) -> None:
    def figure() -> tuple[int, str] | None:
        found = seen.get("figure", "card_burst", "account_id=a1")
        return None if found is None else (found["value"], found["alert_id"])

    seen = made()
    seen.write(alert("a", value=10), alert("b", value=20))
    seen.write(corrected("a", "amended", value=11))
    assert figure() == (20, "id-b")
    seen.write(corrected("b", "amended", value=21))
    assert figure() == (21, "id-b")
    seen.write(corrected("a", "retracted", value=None))
    assert figure() == (21, "id-b")
    seen.write(corrected("b", "retracted", value=None))
    assert figure() is None
    seen.write(corrected("b", "reinstated", value=22))
    assert figure() == (22, "id-b")


@pytest.mark.parametrize("field", ["in_force", "known"])
@pytest.mark.parametrize("value", ["0s", "100000000d"])
def test_times_that_a_server_refuses_are_refused(field: str, value: str) -> None:
    with pytest.raises(ValueError, match=field):
        RedisSettings.model_validate({"kind": "redis", field: value})


def test_the_newest_decision_on_a_record_stays(made: Callable[..., Seen]) -> None:
    seen = made()
    first, second = decision("t1", "block"), decision("t1", "allow", revision=1)
    seen.write(decisions=(first, second))
    assert seen.get("decision", "payments", "t1")["decision"] == "allow"
    seen.write(decisions=(first,))
    assert seen.get("decision", "payments", "t1")["decision"] == "allow"
    seen.write(decisions=(decision("t1", "review", version=2),))
    assert seen.get("decision", "payments", "t1")["decision"] == "review"
    assert 0 < seen.client.ttl(f"{seen.prefix}:decision:payments:t1") <= 7 * 24 * 3_600


def test_figures_of_rules_and_alerts_by_id(made: Callable[..., Seen]) -> None:
    seen = made()
    huge = 2**80
    seen.write(alert("a", value=huge), alert("b", value=None, operator=None, threshold=None, rule_id="dear"))
    assert seen.get("figure", "card_burst", "account_id=a1")["value"] == huge
    assert seen.get("figure", "dear", "account_id=a1") is None
    assert seen.get("alert", "id-a")["record_id"] == "a"
    assert seen.get("alert", "id-a")["delivered_at"].endswith("Z")


@pytest.mark.parametrize(
    "value", ["a,b=c", "a:b", "%2C", "", " ", "\0", "ü", "|", "a|9", "\u202e", "x" * 10_000, 7, 2**70, 1.5, True, None]
)
def test_no_value_makes_the_key_of_another_entity(made: Callable[..., Seen], value: Any) -> None:
    seen = made()
    key = {"account_id": value, "kind": "web"}
    seen.write(alert("a", key=key, rule_id="a|b:c", action="block"))
    name = entity(key)
    assert name.isascii()
    assert name.count(",") == 1
    assert name.count("=") == 2
    assert seen.status(name)["alert_id"] == "id-a"
    assert len(seen.client.keys(f"{seen.prefix}:entity:*")) == 1


def test_names_that_encode_alike_differ() -> None:
    values = ["1", 1, "1,kind=web", "%31", "true", True, None, "null"]
    assert len({entity({"a": value}) for value in values}) == len(values) - 3  # 1, true and null are written as text


def test_alerts_of_no_entity_are_reported_and_stand_for_none(made: Callable[..., Seen]) -> None:
    seen = made()
    seen.write(alert("a", key={}, action="block"))
    assert seen.alert_ids() == ["id-a"]
    assert seen.client.keys(f"{seen.prefix}:entity*") == []


def test_more_than_one_chunk(made: Callable[..., Seen]) -> None:
    seen = made(stream_max=2_000)
    seen.write(*(alert(str(n), key={"account_id": f"a{n % 7}"}) for n in range(1_234)))
    assert seen.alert_ids() == [f"id-{n}" for n in range(1_234)]


def test_passwords_and_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLINE_TEST_REDIS", "s3cret-word")
    with LocalRedis("s3cret-word") as server:
        settings = RedisSettings(kind="redis", port=server.port, password_env="CROSSLINE_TEST_REDIS")
        sink = RedisSink(settings, "p")
        sink.open()
        sink.deliver(delivery(0, "a"))
        server.kill()
        with pytest.raises(SinkError, match=f"Redis at 127.0.0.1:{server.port} cannot be reached") as raised:
            sink.deliver(delivery(1, "b"))
        assert "s3cret" not in str(raised.value)
        server.start()
        sink.deliver(delivery(0, "a"))
        sink.deliver(delivery(1, "b"))
        with server.client() as client:
            assert [fields["alert_id"] for _, fields in client.xrange("crossline:p:alerts")] == ["id-a", "id-b"]
            client.config_set("maxmemory", 1)
            with pytest.raises(SinkError, match=r"takes nothing now: .*maxmemory"):
                sink.deliver(delivery(2, "c"))
            client.config_set("maxmemory", 0)
            client.set("crossline:p:standing:account_id=a1", "somebody else's")
            with pytest.raises(PermanentError, match=r"refuses a command under crossline:p: .*WRONGTYPE"):
                sink.deliver(delivery(2, "c"))
        sink.close()
        monkeypatch.setenv("CROSSLINE_TEST_REDIS", "wrong")
        sink.open()
        with pytest.raises(PermanentError, match="refuses the user") as refused:
            sink.deliver(delivery(3, "d"))
        assert "wrong" not in str(refused.value).lower().replace("wrongpass", "")
        sink.close()


@pytest.mark.parametrize("head", [b"", b"$900000\r\n"])
def test_an_answer_that_never_ends_is_no_answer(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.5)
    with trickling(head) as slow:
        sink = RedisSink(RedisSettings(kind="redis", port=slow.port), "p")
        sink.open()
        with pytest.raises(SinkError, match="cannot be reached"):
            sink.deliver(Delivery("p", 0, alerts=[alert("a")]))
        assert slow.asked.is_set()
        sink.close()


def test_two_processes_deliver_one_alert_once(made: Callable[..., Seen]) -> None:
    seen = made()
    alerts = [alert(str(n)) for n in range(300)]

    def write() -> None:
        sink = RedisSink(seen.settings, "p")
        sink.open()
        sink.deliver(Delivery("p", 0, alerts=alerts))
        sink.close()

    threads = [threading.Thread(target=write) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(seen.alert_ids()) == sorted(f"id-{n}" for n in range(300))


def test_a_command_that_fails_half_way_is_reported_again_whole(made: Callable[..., Seen]) -> None:
    seen = made()
    seen.client.set(f"{seen.prefix}:standing:account_id=a2", "in the way")
    with pytest.raises(PermanentError, match="WRONGTYPE"):
        seen.write(alert("a"), alert("b", key={"account_id": "a2"}), alert("c"))
    assert sorted(seen.alert_ids()) == ["id-a", "id-c"]
    seen.client.delete(f"{seen.prefix}:standing:account_id=a2")
    seen.write(alert("a"), alert("b", key={"account_id": "a2"}), alert("c"))
    assert sorted(seen.alert_ids()) == ["id-a", "id-b", "id-c"]
    assert seen.status("account_id=a2") == standing("step_up", 40, "b")


def test_decisions_of_several_calls_are_all_there_and_the_newest_of_each_record(made: Callable[..., Seen]) -> None:
    seen = made()
    many = [decision(f"t{n}", "allow") for n in range(2 * decision_writes.SET_EACH + 1)]
    revised = [decision("t0", "block", revision=2), decision("t0", "review", revision=1)]
    seen.write(decisions=(*revised, *many))
    assert seen.get("decision", "payments", "t0")["decision"] == "block", "within one call and over two"
    assert {seen.get("decision", "payments", f"t{n}")["decision"] for n in range(1, len(many))} == {"allow"}
    seen.write(decisions=(decision("t5", "block", version=2), decision("t5", "step_up", version=2)))
    assert seen.get("decision", "payments", "t5")["decision"] == "step_up", (
        "of the same version and revision the last one"
    )
