"""Which versions of rules are silent by their cooldown alone, as the rule log has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from crossline.basics.errors import CrosslineError
from crossline.logs import get_logger
from crossline.serve.cases.statistics.cooldowns import cools

LOOK_S = 10.0  # between two looks for a version that is not known

log = get_logger(__name__)


class CooldownRules:
    """Asks ``rows`` (rules as rows, with ``rule_id``, ``version``, ``body``) for versions that it does not know."""

    def __init__(
        self, rows: Callable[[], Iterable[Mapping[str, Any]]], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._rows = rows
        self._clock_s = clock_s
        self._looked_s: float | None = None
        self._known: dict[tuple[str, int], bool] = {}

    def __call__(self, rule_id: str, version: int) -> bool:
        """Of a version that is not known yet: no."""
        which, now_s = (rule_id, version), self._clock_s()
        if which not in self._known and (self._looked_s is None or now_s - self._looked_s >= LOOK_S):
            self._looked_s = now_s
            try:
                self._known |= {
                    (str(each["rule_id"]), int(each["version"])): cools(each["body"]) for each in self._rows()
                }
            except (CrosslineError, OSError) as error:
                log.warning("the cooldowns of rules cannot be read now", error=str(error))
        return self._known.get(which, False)
