"""Whatever people write into the folder: the log alone gives the rules back, and what judged the past never changes."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.streams.schema import load_streams
from crossline.basics.times import BEGINNING_MS
from crossline.rule_registry.directory import log_path, ruleset_of_log
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.log_file import read_log
from crossline.rules.ruleset import RuleSet
from drawing import one_of_these

from .harness import STREAMS, Harness, rule

Judge = tuple[int, str] | None
RULE_IDS = ("a", "b")
TIMES_MS = range(40)


@st.composite
def written_rules(draw: st.DrawFn) -> str:
    more: dict[str, Any] = {"amount": draw(one_of_these(1, 1, 1, 2))}
    if draw(st.booleans()):
        more["status"] = draw(one_of_these("draft", "shadow", "active", "paused", "retired"))
    if draw(st.integers(0, 3)) == 0:
        more["effective_from"] = draw(st.integers(1, 35))
    return rule(draw(st.sampled_from(RULE_IDS)), draw(st.integers(1, 4)), **more)


STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(["1.yaml", "2.yaml"]), st.lists(written_rules(), max_size=2), min_size=1),
        st.integers(0, 4),
        st.sampled_from(["wall", "records"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


def judged_by(rules: RuleSet, rule_id: str, ingest_ms: int) -> Judge:
    found = [
        (each.rule.version, each.kind)
        for each in rules.versions
        if each.rule.rule_id == rule_id and each.effective_from_ms <= ingest_ms < each.effective_until_ms
    ]
    assert len(found) <= 1
    return found[0] if found else None


def judged_by_events(events: list[RuleEvent], rule_id: str, ingest_ms: int) -> Judge:
    """The twin: the last event of the rule, without drafts, that is in force at the instant."""
    last: Judge = None
    for event in events:
        if event.event in {"published", "status_changed"} and event.rule_id == rule_id and event.status != "draft":
            from_ms = BEGINNING_MS if event.effective_from_ms is None else event.effective_from_ms
            if from_ms <= ingest_ms:
                last = (int(event.version or 0), str(event.status))
    return last if last is not None and last[1] in {"active", "shadow"} else None


@settings(max_examples=60, deadline=None)
@given(st.lists(written_rules(), max_size=3), STEPS)
def test_the_log_gives_back_the_rules_and_keeps_the_past(first: list[str], steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        harness = Harness(Path(folder), load_streams(STREAMS, "stream.yaml"))
        harness.now_ms = 10
        harness.write("1.yaml", *first)
        rules = harness.start()
        events: list[RuleEvent] = []
        for files, elapsed_ms, clock, restart in steps:
            harness.now_ms += elapsed_ms
            harness.highest_ms = max(harness.highest_ms or 0, harness.now_ms - 5)
            harness.clock = clock
            for name, texts in files.items():
                harness.write(name, *texts)
            before, events = rules, []
            if harness.log.poll() is not None:
                rules, events = harness.take_up()
            past = [(name, ms) for name in RULE_IDS for ms in TIMES_MS if ms <= harness.highest_ms]
            assert [judged_by(rules, *each) for each in past] == [judged_by(before, *each) for each in past]
            assert ruleset_of_log(log_path(folder, "p")).fingerprint == rules.fingerprint
            if restart:
                assert harness.restart().fingerprint == rules.fingerprint
        history = read_all(folder)
        assert history[len(history) - len(events) :] == events
        for name in RULE_IDS:
            for ms in TIMES_MS:
                assert judged_by(rules, name, ms) == judged_by_events(history, name, ms)
        harness.log.close()


def read_all(folder: str) -> list[RuleEvent]:
    return read_log(log_path(folder, "p"))
