"""What is read at the start: the API answers all that is asked, and a start goes on where something cannot be read."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crossline.serve.console.warmup import ASKED, warm

from .cards import cards
from .kit import room


@pytest.mark.xdist_group("casework")  # which has its cards already
def test_all_that_is_asked_is_answered_and_what_fails_does_not_end_it(tmp_path: Path) -> None:
    answered: list[tuple[str, int]] = []
    with room(tmp_path, project=cards()) as at:

        async def counting_api(scope: Any, receive: Any, send: Any) -> None:
            async def sending(message: Any) -> None:
                if message["type"] == "http.response.start":
                    answered.append((scope["path"], message["status"]))
                await send(message)

            await at.parts.api(scope, receive, sending)

        asyncio.run(warm(replace(at.parts, api=counting_api)))
        assert answered == [(path, 200) for path, _ in ASKED]

        asked: list[str] = []

        async def failing(scope: Any, receive: Any, send: Any) -> None:
            asked.append(scope["path"])
            raise RuntimeError("it is away")

        asyncio.run(warm(replace(at.parts, api=failing)))
        assert asked == [path for path, _ in ASKED]
        assert at.audited() == []
