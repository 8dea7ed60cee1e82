"""Calls that are made for all who wait, one call at a time: what comes meanwhile goes into the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

In = TypeVar("In")
Out = TypeVar("Out")

MOST = 512  # of one call


class Gathered(Generic[In, Out]):
    """The same where ``run`` needs no waiting: what is put in one turn of the loop goes together, at its end."""

    def __init__(self, run: Callable[[list[In]], Sequence[Out]], most: int = MOST) -> None:
        self._run = run
        self._most = most
        self._waiting: list[tuple[In, asyncio.Future[Out]]] = []

    def put(self, item: In) -> asyncio.Future[Out]:
        """Its answer, in the next turn of the loop; what ``run`` raises is raised to all that went together."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Out] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._work)
        self._waiting.append((item, future))
        return future

    def _work(self) -> None:
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), self._most):
            batch = [each for each in waiting[start : start + self._most] if not each[1].done()]
            try:
                answers: Sequence[Any] = self._run([item for item, _ in batch]) if batch else ()
            except Exception as error:  # noqa: BLE001 - every waiting caller gets the error
                for _, future in batch:
                    future.set_exception(error)
                continue
            for (_, future), answer in zip(batch, answers, strict=True):
                future.set_result(answer)


class Batched(Generic[In, Out]):
    """``run``, asked by many tasks at once.

    ``run`` is given items in the order in which they were put, and answers each of them in its place; an exception as
    an answer is raised to that one alone, an exception of the call to all of them.
    """

    def __init__(self, run: Callable[[list[In]], Awaitable[Sequence[Out | BaseException]]], most: int = MOST) -> None:
        self._run = run
        self._most = most
        self._waiting: list[tuple[In, asyncio.Future[Out]]] = []
        self._task: asyncio.Task[None] | None = None

    def put(self, item: In) -> asyncio.Future[Out]:
        """Its answer, once it is there. Who gives up waiting cancels that alone: the item stays in its batch."""
        future: asyncio.Future[Out] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return future

    async def _work(self) -> None:
        await asyncio.sleep(0)  # what came in the same turn of the loop goes together
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            try:
                answers = await self._run([item for item, _ in batch])
                if len(answers) != len(batch):
                    raise RuntimeError(f"{len(answers)} answers to {len(batch)} items")  # noqa: TRY301 - raised to all
            except Exception as error:  # noqa: BLE001 - every waiting caller gets the error
                answers = [error] * len(batch)
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, BaseException):
                    future.set_exception(answer)
                    future.exception()  # who waits may be gone: then it is not read
                else:
                    future.set_result(answer)

    async def idle(self) -> None:
        """Wait until nothing waits."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])
