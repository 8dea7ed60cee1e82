"""Whoever looks for batches goes on, whatever looking raises."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from .test_feed import Written, reading, run, taken


def test_a_fault_of_any_kind_ends_no_watching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not only disk errors: after any error of a look, later events are sent, and one fault is logged once."""
    written, failing, failed = Written(tmp_path), [True], asyncio.Event()
    there = os.access

    def access(path: Any, mode: int) -> bool:
        if not failing[0]:
            return there(path, mode)
        failing.append(True)
        if len(failing) > 4:
            failed.set()
        raise ValueError("embedded null byte")

    monkeypatch.setattr("crossline.serve.feed.reader.os.access", access)

    async def follow() -> list[int]:
        async with reading(tmp_path) as reader:
            assert reader.last() == -1
            await failed.wait()
            written.write(0)
            failing[0] = False
            return [number for number, _, _ in await taken(reader, 1)]

    assert run(follow()) == [0]
    assert "".join(capsys.readouterr()).count("the feed cannot be read") == 1
