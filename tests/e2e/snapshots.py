"""A plan snapshot over the made traffic, for tests that judge without Spark."""

from __future__ import annotations

import yaml

from crossline.basics.streams.schema import StreamSpec
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.runtime.snapshot.snapshot import PlanSnapshot

from .traffic import STREAM, STREAMS, Body

DEFAULTS = Defaults(time_mode="event_time", watermark_delay_ms=5_000, allowed_lateness_ms=20_000)


def snapshot_of(rules: list[Body], shards: int) -> PlanSnapshot:
    loaded = [each.rule for each in load_rules_text(yaml.safe_dump(rules), "rules.yaml")]
    spec = StreamSpec.model_validate(STREAMS[STREAM])
    return PlanSnapshot(RuleSet.from_rules(loaded), {STREAM: spec}, DEFAULTS, shards, Bounds())
