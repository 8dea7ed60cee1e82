from pathlib import Path
from typing import Any

from crossline.basics.streams.schema import StreamSpec
from crossline.rule_registry.directory import DirectoryRuleLog, IngestClock
from crossline.rule_registry.events import RuleEvent
from crossline.rules.ruleset import RuleSet

STREAMS = """\
schema_version: 1
streams:
  payments:
    id: payment_id
    event_time: {field: at}
    fields: {payment_id: string, at: integer, amount: integer, account: string}
"""


def rule(rule_id: str = "large", version: int = 1, **more: Any) -> str:
    """The text of a threshold rule; ``amount`` is what it compares with."""
    amount = more.pop("amount", 100)
    lines = [
        f"- rule_id: {rule_id}",
        f"  version: {version}",
        "  rule_type: threshold",
        "  source_topic: payments",
        f"  conditions: [{{field: amount, operator: '>', value: {amount}}}]",
        *(f"  {name}: {value}" for name, value in more.items()),
    ]
    return "\n".join(lines) + "\n"


class Harness:
    """A folder of rule files and a running log over it; time and ingest time stand where the test puts them."""

    def __init__(self, folder: Path, streams: dict[str, StreamSpec], figures: Path | None = None) -> None:
        self.folder = folder
        self.figures = figures
        self.streams = streams
        self.now_ms = 1_000
        self.highest_ms: int | None = None
        self.clock: IngestClock = "wall"
        self.log = DirectoryRuleLog(folder, "p", streams, figures=figures)

    def write(self, name: str, *texts: str) -> None:
        (self.folder / name).write_text("".join(texts), encoding="utf-8")

    def start(self) -> RuleSet:
        return self.log.start(self.now_ms)

    def restart(self) -> RuleSet:
        self.log.close()
        self.log = DirectoryRuleLog(self.folder, "p", self.streams, figures=self.figures)
        return self.start()

    def take_up(self) -> tuple[RuleSet, list[RuleEvent]]:
        changes = self.log.poll()
        assert changes is not None
        highest = {} if self.highest_ms is None else dict.fromkeys(self.streams, self.highest_ms)
        return self.log.take_up(changes, highest, self.now_ms, dict.fromkeys(self.streams, self.clock))
