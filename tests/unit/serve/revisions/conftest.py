"""A receiver, and pushers that post to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.receiving import KEY, Receiver
from crossline.serve.revisions import sender as module
from crossline.serve.revisions.pusher import RevisionPusher
from crossline.settings.process.serve import RevisionSettings


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    assert made.unsigned == []
    made.close()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLINE_TEST_KEY", KEY)
    monkeypatch.setattr(module, "PAUSE_MS", 1)
    monkeypatch.setattr(module, "PAUSE_MS_MAX", 20)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., RevisionPusher]]:
    made: list[RevisionPusher] = []

    def pusher(*settings: RevisionSettings, **more: Any) -> RevisionPusher:
        found = RevisionPusher(tmp_path / "serve" / "revisions.db", settings, **more)
        made.append(found)
        found.open()
        return found

    yield pusher
    for each in made:
        each.close()
