"""The chaos drill in its short form: the most informative faults."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chaos.drill import Plan, drill
from chaos.faults import Fault
from chaos.parts.services import serving

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from dev.services.redis import LocalRedis

pytestmark = pytest.mark.kafka
SEED = 20_261_123
WITHOUT = {"with_postgres": False, "with_registry": False, "with_store": False, "with_api": True}
FAULT_KINDS = [
    ("poison", "state-server"),
    ("storm", "cut-redis", "fail-webhook", "api"),
    ("disk-full", "clock-behind"),
    ("freeze-state-server", "redis", "clock-far"),
    ("fork", "clock-caller"),
]


@pytest.mark.timeout(1_200)
def test_a_short_drill(kafka_broker: LocalBroker, redis_server: LocalRedis, tmp_path: Path) -> None:
    """It ends with a driver that is killed under load, and started again."""
    faults = [Fault(number, kinds, 1.0, 0.1, hurried=False) for number, kinds in enumerate(FAULT_KINDS, 1)]
    plan = Plan(SEED, 150, faults, warm_s=0.0, ends_killed=True, asks_per_s=10.0, asks_open_max=40, receipts=1)
    with serving(kafka_broker, redis_server, **WITHOUT) as services:
        outcome = drill(plan, tmp_path, services)
    assert [each.fault.name for each in outcome.passed if not each.met] == []
    assert [each.fault.name for each in outcome.passed if each.over_s is None] == []
    assert outcome.faults_of_drill == []
    assert [each for each in outcome.findings if not each.good] == []
    by_what = {(each.sink, each.what): each.expected for each in outcome.findings}
    del by_what["api", "other bodies, each refused"]  # one ask in fifty
    assert min(by_what.values()) > 0, "nothing was to be found"
