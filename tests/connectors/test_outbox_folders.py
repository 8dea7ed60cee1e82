"""Pending deliveries go to their own sink, also after the pipeline file was reordered."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from crossline.io.outbox.folders import destination_of, folder_names
from crossline.io.outbox.sink import OutboxSink, place_in
from crossline.runtime.pipeline.assemble import RunOptions, _sinks
from crossline.runtime.snapshot.checkpoint import Checkpoint, claim
from crossline.settings.config import load_pipeline
from crossline.settings.postgres import PostgresSettings
from crossline.settings.webhook import WebhookSettings

from .makers import delivery
from .test_outbox import QUICK, WAIT_S, Shaky

A, B, C, D = (("webhook", each) for each in "abcd")


@pytest.mark.parametrize(
    ("sinks", "waiting", "expected"),
    [
        ([A, B], {}, ["webhook-1", "webhook-2"]),
        ([A, ("postgres", "a"), B], {}, ["webhook-1", "postgres-1", "webhook-2"]),
        # Swapped; the first one taken out; another put before; two of one address.
        ([B, A], {"webhook-1": "a", "webhook-2": "b"}, ["webhook-2", "webhook-1"]),
        ([B], {"webhook-1": "a", "webhook-2": "b"}, ["webhook-2"]),
        ([C, A], {"webhook-1": "a"}, ["webhook-2", "webhook-1"]),
        ([A, A], {"webhook-1": "a", "webhook-2": "a"}, ["webhook-1", "webhook-2"]),
        # Nothing of the one that was taken out goes to one that was added.
        ([B, C], {"webhook-1": "a", "webhook-2": "b"}, ["webhook-2", "webhook-3"]),
        # Moved to another address; of an older crossline, which noted none.
        ([C], {"webhook-1": "a"}, ["webhook-1"]),
        ([A, B], {"webhook-1": None, "webhook-2": None}, ["webhook-1", "webhook-2"]),
        # Other kinds have folders of their own.
        ([("postgres", "a")], {"webhook-1": "a"}, ["postgres-1"]),
    ],
)
def test_each_sink_has_its_folder(
    sinks: list[tuple[str, str]], waiting: dict[str, str | None], expected: list[str]
) -> None:
    assert folder_names(sinks, waiting) == expected


def test_no_folder_is_given_twice() -> None:
    every = [[], [A], [B], [A, B], [B, A], [C, B, A], [D, A, C], [A, A, B], [C, D]]
    folders = ("webhook-1", "webhook-2", "webhook-3")
    for sinks in every:
        for first in ("a", "b", None):
            for second in ("a", "b", "d"):
                given = folder_names(sinks, dict(zip(folders, (first, second, "c"), strict=True)))
                assert len({*given}) == len(sinks)


def test_a_place_is_where_a_sink_goes_and_no_secret() -> None:
    def webhook(url: str, **more: object) -> str:
        given = {"kind": "webhook", "parked": "p", "password_env": "K", "url": url, **more}
        return destination_of(WebhookSettings.model_validate(given))

    assert webhook("https://h/x?key=secret") != webhook("https://h/y?key=secret")
    assert webhook("https://h/x", attempts=3, password_env="L") == webhook("https://h/x")
    assert "secret" not in webhook("https://h/x?key=secret")
    ours, theirs = (PostgresSettings(kind="postgres", host="h", user="u", schema=name) for name in ("a", "b"))
    assert destination_of(ours) != destination_of(theirs)


def test_a_folder_says_whom_it_is_for(tmp_path: Path) -> None:
    assert place_in(tmp_path / "webhook-1") is None
    sink, later = Shaky(), Shaky()
    with capture_logs():
        for each in (sink, later):
            behind = OutboxSink(each, tmp_path / "webhook-1", QUICK, place="digest")
            behind.open()
            behind.deliver(delivery(0, "a"))
            assert each.asked.wait(WAIT_S)
            behind.close()
            assert place_in(tmp_path / "webhook-1") == "digest"


HOOKS = """\
schema_version: 1
name: shop
streams:
  payments:
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: timestamp, account: string}
sources:
  payments: {kind: files, path: in}
rules: {kind: directory, path: rules}
sinks:
"""


def sinks_of(held: Checkpoint, *names: str) -> list[OutboxSink]:
    each = "  - {kind: webhook, url: 'https://h/%s', parked: '%s.jsonl', password_env: K}\n"
    text = HOOKS + "".join(each % (name, name) for name in names)
    config = load_pipeline(text, "pipeline.yaml", lambda _: "")
    found = _sinks(config, RunOptions(), held)
    assert all(isinstance(each, OutboxSink) for each in found)
    return found  # type: ignore[return-value]


def test_a_pipeline_with_its_sinks_in_another_order(tmp_path: Path) -> None:
    def folders(sinks: list[OutboxSink]) -> list[str]:
        return [Path(str(sink.folder)).name for sink in sinks]

    held = claim(str(tmp_path / "checkpoint"))
    before = sinks_of(held, "a", "b")
    for sink in before:
        sink.sink = Shaky()
        with capture_logs():
            sink.open()
            sink.deliver(delivery(0, "x"))
            sink.close()
    assert folders(before) == ["webhook-1", "webhook-2"]
    assert folders(sinks_of(held, "b", "a")) == ["webhook-2", "webhook-1"]
    with capture_logs() as logs:
        assert folders(sinks_of(held, "b")) == ["webhook-2"]
        assert folders(sinks_of(held, "c", "b")) == ["webhook-1", "webhook-2"]
    assert [(each["event"], each["folder"]) for each in logs] == [
        ("a sink that is not there any more has not got all", "behind/webhook-1"),
        ("a sink gets what waits for the one in whose place it stands", "behind/webhook-1"),
    ]
    held.release()
