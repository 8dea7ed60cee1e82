"""A small package of another author, as an installer leaves it: its modules, and a dist-info with entry points."""

from __future__ import annotations

from pathlib import Path

RULE = '''
from functools import cached_property
from typing import ClassVar, Literal

from pydantic import Field

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import AllOf, Leaf, parse_conditions
from crossline.programs.program import Evidence, Program
from crossline.rules.entity import RecordRule
from crossline.rules.sentence import RESERVED, Sentence, key_parts, noun


class AtLeastRule(RecordRule):
    """Fires where a field is at least a number."""

    rule_type: Literal["at_least"] = Field(description="`at_least`.")
    field: str = Field(min_length=1, description="The field.")
    least: float = Field(description="The number.")

    example: ClassVar[str] = """
rule_id: large
version: 1
rule_type: at_least
source_topic: payments
field: amount_cents
least: 1000
"""

    @cached_property
    def filter(self) -> Condition:
        given = parse_conditions(self.conditions)[0]
        return Condition(AllOf((Leaf(self.field, ">=", self.least), given)))

    def program(self, spec, defaults):
        more = {"judge_lateness_ms": self.lateness(defaults).judged_ms, "entity": self.entity}
        return Program(self.feed(defaults), evidence=Evidence((self.field,)), **more)

    def placeholder_names(self, spec):
        return None if spec is None else ("rule_id", *spec.columns)

    def default_sentence(self, value):
        what = f"{noun(self.source_topic, one=True)} where {self.filter.text}"
        return Sentence((("text", what), *key_parts(self.entity)))
'''
SETTINGS = '''
from typing import ClassVar, Literal

from pydantic import Field

from crossline.settings.sinks_base import SinkSettings


class LedgerSettings(SinkSettings):
    """Ids of alerts, one a line."""

    PLACE: ClassVar = ("path",)
    SINK: ClassVar = "shop_plugins.sink:LedgerSink"
    NEEDS: ClassVar = "shop-plugins[ledger]"

    kind: Literal["ledger"] = Field(description="Which kind of sink this is.")
    path: str = Field(min_length=1, description="File for ids.")
'''
SINK = '''
from pathlib import Path

{imports}

class LedgerSink:
    """Guarantee: each id once, by what stands in the file."""

    def __init__(self, path):
        self._path = Path(path)

    @classmethod
    def from_settings(cls, settings, pipeline):
        return cls(settings.path)

    def open(self):
        self._path.touch()

    def deliver(self, delivery):
        known = set(self._path.read_text().split())
        new = [alert["alert_id"] for alert in delivery.alerts if alert["alert_id"] not in known]
        self._path.write_text("".join(f"{{each}}\\n" for each in [*known, *new]))

    def close(self):
        pass
'''
ENTRY_POINTS = """
[crossline.rule_types]
at_least = shop_plugins.rule:AtLeastRule

[crossline.sinks]
ledger = shop_plugins.settings:LedgerSettings
"""


def install(folder: Path, *, imports: str = "", entry_points: str = ENTRY_POINTS, name: str = "shop-plugins") -> Path:
    """Put the package into ``folder``, which is a place to import from then.

    ``imports``: lines of the sink's module.
    """
    package = folder / "shop_plugins"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    (package / "rule.py").write_text(RULE)
    (package / "settings.py").write_text(SETTINGS)
    (package / "sink.py").write_text(SINK.format(imports=imports))
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    return folder
