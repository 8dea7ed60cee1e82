"""One act on many cases, all of it in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from crossline.basics.texts.problems import shown
from crossline.serve.cases import rows
from crossline.serve.cases.actions.execution import do
from crossline.serve.cases.actions.undo import undo
from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.values import NoSuchCaseError, NotTakenError

CASES_MAX = 10_000
COUNT_FROM = 100  # above so many cases, the caller says how many he expects


@dataclass(slots=True)
class BulkDone:
    """The rows of the cases on which it was done, and why it was not on others, by their ids."""

    done: list[int] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def check_count(count: int, expected: int | None) -> None:
    """Raises NotTakenError if ``count`` cases are not what the caller thinks."""
    if count > CASES_MAX:
        raise NotTakenError("/filter", f"{count:,} cases", f"at most {CASES_MAX:,} at once")
    if expected is None and count > COUNT_FROM:
        raise NotTakenError("/expected_count", "nothing", f"{count}, for more than {COUNT_FROM} cases are changed")
    if expected is not None and expected != count:
        raise NotTakenError("/expected_count", shown(expected), f"{count}, for so many cases there are now")


def on_many(file: CaseFile, case_ids: Sequence[str], act: CaseAction, who: str, now_ms: int) -> BulkDone:
    """Do it on each of them, in a transaction; a merge makes one case of all, that which was opened first."""
    found = BulkDone()
    known: dict[int, str] = {}
    for name in dict.fromkeys(case_ids):
        try:
            known.setdefault(rows.seq_of(file, name), name)
        except NoSuchCaseError as error:
            found.refused[name] = str(error)
    if act.act == "merge":
        _merged(file, known, act, who, now_ms, found)
        return found
    for name in known.values():
        try:
            if act.act == "undo":
                found.done.append(undo(file, name, who, now_ms))
            else:
                found.done.append(do(file, name, act, who, now_ms))
        except NotTakenError as error:
            found.refused[name] = str(error)
    return found


def _merged(file: CaseFile, known: dict[int, str], act: CaseAction, who: str, now_ms: int, found: BulkDone) -> None:
    """All or none: half of a merge is no merge."""
    if act.case_ids is not None:
        raise NotTakenError("/act/case_ids", "cases within the act", "them in case_ids of the request")
    if not known:
        return
    first, *others = sorted(known)
    do(file, known[first], replace(act, case_ids=tuple(known[each] for each in others)), who, now_ms)
    found.done += [first, *others]
