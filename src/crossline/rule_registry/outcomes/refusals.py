"""What is refused as files stand now. It is reported at every start, for no rule in such a file is loaded.

The log has a refusal once for each content, so that it cannot say what is refused still.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from crossline.basics.errors import PermanentError
from crossline.basics.texts.problems import RefusedError
from crossline.rule_registry.events import RuleEvent, published_by
from crossline.rule_registry.rule_files import Read
from crossline.rule_registry.sources.folder import Files

# By what was refused: the name of a file or the key of a message.
Refusals = Mapping[str, RuleEvent]


def refusals_in(refused: Mapping[str, RefusedError], read: Read, files: Files, now_ms: int) -> dict[str, RuleEvent]:
    """An event for each file of rules that is ``refused``, with how many rules it takes with it."""
    found: dict[str, RuleEvent] = {}
    for source, error in refused.items():
        content = files[source]
        count = _rules_in(read.get(source), error)
        event = RuleEvent("refused", now_ms, source=source, digest=content.digest, text=str(error), count=count)
        found[source] = published_by(event, content.origin)
    return found


def _rules_in(read: object, error: RefusedError) -> int | None:
    """How many rules stand in a file; None where there are none, or that is not known, as of one that is no YAML."""
    count = len(read) if isinstance(read, list) else read.rules if isinstance(read, RefusedError) else error.rules
    return count or None


def check_rules_left(refusals: Refusals, *, any_known: bool, any_judges: bool, place: str) -> None:
    """Raise PermanentError where ``refusals`` leave nothing to judge by, or nothing was published."""
    if any_judges or (any_known and not refusals):
        return  # all of them may be paused or drafts on purpose
    allow = "to start all the same, and judge nothing until there are rules, give --allow-no-rules"
    if not refusals:
        raise PermanentError(f"{place}: found no rule; expected one or more, in files of this folder; {allow}")
    text = "\n\n".join(refused_text(each) for each in refusals.values())
    found = f"no rule is left to judge by: {_files(refusals)}"
    raise PermanentError(f"{place}: {found}; mend what follows; {allow}\n\n{text}")


def refused_text(event: RuleEvent) -> str:
    """What is refused, how many rules that takes, and why."""
    rules = f" with {rules_text(event.count)}" if event.count and not (event.list_name or event.table_name) else ""
    return f"{event.source} is refused{rules}:\n{event.text}"


def rules_text(count: int) -> str:
    """``its 3 rules``."""
    return "its one rule" if count == 1 else f"all its {count:,} rules"


def _files(refusals: Collection[object]) -> str:
    return "one file is refused" if len(refusals) == 1 else f"{len(refusals):,} files are refused"
