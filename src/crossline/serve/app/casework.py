"""The casework of a pipeline that is served: its file, the follower of the feed, and the listeners for changes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from crossline.basics.errors import UsageError
from crossline.io.stores.factory import store_of
from crossline.io.stores.protocol import Store
from crossline.serve.assembly import Api
from crossline.serve.cases.cases import FILE, Cases
from crossline.serve.cases.changes import CaseChanges
from crossline.serve.cases.intake.batches import CaseIntake
from crossline.serve.cases.intake.catch_up import Missed
from crossline.serve.cases.intake.cooldowns import CooldownRules
from crossline.serve.cases.intake.follower import CaseFollower
from crossline.serve.cases.service import CaseService
from crossline.serve.http.reads.rules import read_rules


@dataclass(slots=True)
class Casework:
    """What runs."""

    desk: CaseService
    changes: CaseChanges
    following: asyncio.Task[None] | None

    async def close(self) -> None:
        """End it."""
        self.changes.close()
        if self.following is not None:
            self.following.cancel()
            await asyncio.gather(self.following, return_exceptions=True)
        self.desk.cases.close()


def of(api: Api) -> Casework:
    """Of the parts that run; in their event loop. A replica elsewhere makes no cases: those are the pipeline's own."""
    path = api.path / FILE
    listeners: list[CaseChanges] = []
    followers: list[CaseFollower] = []

    def changed() -> None:
        for each in listeners:
            each.notify()
        for follower in followers:
            loop.call_soon_threadsafe(follower.changed)

    loop = asyncio.get_running_loop()
    desk = CaseService(Cases(path), on_change=changed)
    listeners.append(CaseChanges(desk))
    if api.replica_of is not None:
        return Casework(desk, listeners[0], None)
    cooling = CooldownRules(lambda: read_rules(api.config)[0])
    intake = CaseIntake(path, api.settings.cases, on_change=listeners[0].notify, cooling=cooling)
    follower = CaseFollower(api.reader, intake, desk, Missed(api.config.name, partial(_store, api)))
    followers.append(follower)
    return Casework(desk, listeners[0], asyncio.create_task(_running(follower)))


def _store(api: Api) -> Store | None:
    """That of the pipeline's sinks; None if nothing was stored yet."""
    try:
        return store_of(api.config)
    except UsageError:
        return None


async def _running(follower: CaseFollower) -> None:
    async with AsyncExitStack() as held:
        await held.enter_async_context(follower)
        await asyncio.Event().wait()
