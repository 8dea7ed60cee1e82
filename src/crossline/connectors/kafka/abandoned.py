"""Calls of the client that may never come back, made where nobody has to wait for them.

librdkafka puts offsets into a transaction by asking the group's coordinator, and does not look at the time meanwhile
(its issue 5456). Where it knows a coordinator that was taken out of the list of brokers since, as happens to a lone
broker that is killed and comes back, it waits for that one for good (its issue 5511).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from crossline.connectors.kafka.courier import Patience

_LOOK_S = 0.2
Result = TypeVar("Result")


class AbandonedError(Exception):
    """The call has not come back. Whatever it uses belongs to it from now on, for as long as the process lasts."""


def unless_overdue(call: Callable[[], Result], seconds: float, stop: threading.Event) -> Result:
    """What ``call`` gives or raises; AbandonedError once it has taken so long, or a second more than until ``stop``."""
    answer: Future[Result] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits for it
            answer.set_exception(error)

    # One that hangs keeps no process from ending.
    threading.Thread(target=run, name="kafka-call", daemon=True).start()
    patience = Patience(seconds, stop)
    while not wait([answer], _LOOK_S).done:
        if patience.ended:
            raise AbandonedError
    return answer.result()
