"""``/rules/new``, ``/rules/{id}/{version}/edit``: a text, what is wrong with it, what it means and would do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crossline.basics.errors import UsageError
from crossline.serve.approvals.texts import (
    changed_lines,
    diff,
    differing,
    english,
    new_text,
    text_of,
    the_rule,
    with_version,
)
from crossline.serve.approvals.values import RuleDraft
from crossline.serve.console.api_calls import called, segment
from crossline.serve.console.flash import saying
from crossline.serve.console.layout.shell import Crumb, ShortcutKey
from crossline.serve.console.pages.rules.context import EditPage
from crossline.serve.console.pages.rules.curves import curve_at, job_of, live_line, threshold_of
from crossline.serve.console.pages.rules.editor_parts import CheckPart, TextFault
from crossline.serve.console.pages.rules.form_input import derived, form_shown, text_in
from crossline.serve.console.pages.rules.form_input import text_of as sent_text
from crossline.serve.console.pages.rules.trials import end, going_on, is_of, sample_of, trial_of
from crossline.serve.console.request import PageRequest, Shown, moved
from crossline.serve.http.problems import ProblemError, invalid, not_found, problem_of
from crossline.serve.http.reads.rules import current_of, versions_of
from crossline.serve.http.writes.bodies import RuleFile
from crossline.serve.http.writes.rules import checked

KEYS = (ShortcutKey(("Ctrl", "Enter"), "run the test"), ShortcutKey(("Ctrl", "S"), "save the draft"))
NEW = "new"
FILES = "in/*.jsonl"  # below the pipeline's folder


@dataclass(frozen=True, slots=True)
class _Base:
    """What is edited: the version, its text, its file; ``last``: the highest number there is."""

    rule_id: str
    version: int
    text: str
    name: str
    last: int
    live: str


def number_of(text: str) -> int:
    """A version of an address. Raises ProblemError (404) for what is none."""
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= 9):
        raise not_found("version of this number")
    return int(text)


def base_of(asked: PageRequest, rule_id: str, version: int) -> _Base:
    """The version behind a draft; of a new rule (version 0) a first text."""
    config = asked.parts.deps.config
    if not version:
        return _Base(NEW, 0, new_text(config), "", 0, "")
    rows = versions_of(config, rule_id)
    row = current_of(rows, version)
    text, name = text_of(config, row)
    now = current_of(rows)
    return _Base(
        rule_id,
        version,
        text,
        name,
        max(int(each["version"]) for each in rows),
        f"Version {now['version']} is {now['status']}",
    )


async def new(asked: PageRequest) -> EditPage:
    """A new rule."""
    return await _page(asked, base_of(asked, NEW, 0), asked.query)


async def edit(asked: PageRequest) -> EditPage:
    """The version after this one."""
    base = await asyncio.to_thread(base_of, asked, asked.path["rule_id"], number_of(asked.path["version"]))
    return await _page(asked, base, asked.query)


def check(asked: PageRequest) -> CheckPart:
    """What the text means, or what is wrong with it, as one types."""
    return checked_part(asked, text_in(asked.form))


def checked_part(asked: PageRequest, text: str) -> CheckPart:
    """The same of any text."""
    base = _base_of_form(asked)
    faults, ok = faults_of(asked, text)
    lines = diff(base.text, text) if base.version else ()
    changed = changed_lines(base.text, text) if base.version else ()
    return CheckPart(faults, english_of(asked, text), ok, differing(lines), base.version, changed)


async def save(asked: PageRequest) -> Any:
    """Keep the draft."""
    try:
        at = await asyncio.to_thread(keep, asked, await asyncio.to_thread(sent_text, asked))
    except UsageError as error:
        return await refused_page(asked, error)
    return saying(derived(asked, at), asked, "The draft is saved.")


async def prove(asked: PageRequest) -> Any:
    """Keep the draft, and run a backtest of it as a job."""
    try:
        text = await asyncio.to_thread(sent_text, asked)
        at = await asyncio.to_thread(keep, asked, text)
        body: dict[str, Any] = {"rules": {"name": "rule.yaml", "text": text}, "inputs": inputs_in(asked)}
        body |= interval_in(asked.form)
        money = asked.parts.settings.cases.money
        if money is not None and money.field in _numbers(asked):
            body["amount"] = money.field
        if asked.form.get("job"):
            await end(asked, asked.form["job"])  # of a text that was before
        job = await called(asked, "POST", "/v1/rules:prove", body=body)
    except (UsageError, ProblemError) as error:
        return await refused_page(asked, error)
    return derived(asked, at, "#trial", job=job["job_id"])


async def ask(asked: PageRequest) -> Any:
    """Ask for approval of exactly this text."""
    base = await asyncio.to_thread(_base_of_form, asked)
    try:
        text = await asyncio.to_thread(sent_text, asked)
        rule = await asyncio.to_thread(the_rule, asked.parts.deps.config, text)
        if base.version and rule is not None and rule.rule_id != base.rule_id:
            raise invalid("rule_id", rule.rule_id, f"{base.rule_id}, or a new rule")
        made = await called(asked, "POST", "/v1/approvals", body={"text": text})
    except (UsageError, ProblemError) as error:
        return await refused_page(asked, error)
    await asyncio.to_thread(asked.parts.approvals.drop_draft, base.rule_id, asked.who.name)
    message = f"Approval of version {made['version']} of {made['rule_id']} is asked for. A second person approves it."
    return saying(moved(f"/approvals/{made['number']}"), asked, message)


def faults_of(asked: PageRequest, text: str) -> tuple[tuple[TextFault, ...], bool]:
    """All that is wrong with a text, and whether it is right; by the function behind ``POST /v1/rules:check``."""
    found = checked(asked.parts.deps, RuleFile(name="rule.yaml", text=text))
    faults = [*((each, False) for each in found["problems"]), *((each, True) for each in found["warnings"])]
    return tuple(
        TextFault(each["line"], each["path"], each["found"], each["expected"], each["hint"] or "", warning)
        for each, warning in faults
    ), bool(found["ok"])


def english_of(asked: PageRequest, text: str) -> str:
    """What the text means; empty if it is wrong."""
    rule = the_rule(asked.parts.deps.config, text)
    return "" if rule is None else english(asked.parts.deps.config, rule)


def _base_of_form(asked: PageRequest) -> _Base:
    version = asked.form.get("base", "0")
    return base_of(asked, asked.form.get("rule_id", NEW), 0 if version == "0" else number_of(version))


def _address(base: _Base) -> str:
    return f"/rules/{segment(base.rule_id)}/{base.version}/edit" if base.version else "/rules/new"


def keep(asked: PageRequest, text: str) -> str:
    """Keep the draft; where it is edited."""
    base = _base_of_form(asked)
    RuleFile(name="rule.yaml", text=text)
    asked.parts.approvals.keep_draft(RuleDraft(base.rule_id, asked.who.name, text, asked.parts.now_ms()))
    return _address(base)


def inputs_in(asked: PageRequest) -> dict[str, list[str]] | None:
    """Files of the past that were named: ``NAME=GLOB`` each, or a glob where there is one stream."""
    streams = asked.parts.deps.config.streams
    found: dict[str, list[str]] = {}
    for item in asked.form.get("inputs", "").split():
        name, equals, pattern = item.partition("=")
        if not equals and len(streams) == 1:
            name, pattern = next(iter(streams)), item
        found.setdefault(name, []).append(pattern)
    return found or None


def _offered(asked: PageRequest) -> str:
    """Files to try a rule on where the one source is a generator, which has no past: those that lie in ``in``."""
    config = asked.parts.deps.config
    if len(config.streams) != 1 or any(each.kind != "generator" for each in config.sources.values()):
        return ""
    return FILES if any(asked.parts.deps.pipeline.parent.glob(FILES)) else ""


def interval_in(form: Mapping[str, str]) -> dict[str, str]:
    """The past that was chosen, as the API takes it; times are UTC."""
    return {name: form[name] + ":00Z" for name in ("from", "to") if form.get(name)}


def _numbers(asked: PageRequest) -> set[str]:
    columns = (each.own_columns for each in asked.parts.deps.config.streams.values())
    return {name for each in columns for name, column in each.items() if column.kind in {"integer", "number"}}


async def refused_page(asked: PageRequest, error: UsageError | ProblemError) -> Shown:
    """The page as it was sent, with why nothing was done. Raises what is no matter of what was sent."""
    problem = error if isinstance(error, ProblemError) else problem_of(error)
    if problem.status not in {400, 403, 409, 413, 422, 429, 503}:
        raise problem
    base = await asyncio.to_thread(_base_of_form, asked)
    wanted = {"view": asked.form.get("shown", "text"), **asked.query, **asked.form}
    return Shown(await _page(asked, base, wanted, str(problem.to_json()["detail"])), problem.status)


async def _page(asked: PageRequest, base: _Base, wanted: Mapping[str, str], wrong: str = "") -> EditPage:
    trial = await trial_of(asked, wanted["job"]) if wanted.get("job") else None
    curve = await job_of(asked, wanted["curve"]) if wanted.get("curve") else None
    sample = await job_of(asked, wanted["sample"]) if wanted.get("sample") else None
    draft = await asyncio.to_thread(asked.parts.approvals.draft, base.rule_id, asked.who.name)
    first = base.text if not base.version else with_version(base.text, base.last + 1)
    text = text_in(wanted) if "text" in wanted else draft.text if draft else first
    faults, ok = await asyncio.to_thread(faults_of, asked, text)
    drawn = await asyncio.to_thread(threshold_of, asked.parts.deps.config, text)
    live = await asyncio.to_thread(live_line, asked, base.rule_id) if curve and base.version else None
    lines = diff(base.text, text) if base.version else ()
    title = f"{base.rule_id}, edit" if base.version else "New rule"
    crumbs = (Crumb("Rules", "/rules"), Crumb(base.rule_id, f"/rules/{segment(base.rule_id)}"), Crumb("Edit"))
    view = wanted.get("view")
    form, wrongs, turn = await asyncio.to_thread(form_shown, asked, text, faults, wanted.get("type", ""), view=view)
    return EditPage(
        shell=asked.shell(
            title,
            crumbs if base.version else (Crumb("Rules", "/rules"), Crumb("New")),
            KEYS,
            ("js/editor.js", "js/threshold.js"),
        ),
        rule_id=base.rule_id,
        base=base.version,
        text=text,
        saved=asked.times.moment(draft.at_ms) if draft else None,
        live=base.live,
        faults=faults,
        caption=await asyncio.to_thread(english_of, asked, text),
        ok=ok,
        differs=differing(lines),
        against=base.version,
        changed=changed_lines(base.text, text) if base.version else (),
        diff=lines,
        form=form,
        wrongs=wrongs,
        turn=turn,
        draws=drawn.named if drawn else "",
        curve=None if curve is None else curve_at(curve, drawn.threshold if drawn else None, live),
        sample=None if sample is None else sample_of(sample),
        records=wanted.get("records", ""),
        first=wanted.get("first", "1000"),
        trial=trial,
        stale=trial is not None and not is_of(trial, text),
        going_on=() if trial is not None else await going_on(asked),
        job=wanted.get("job", ""),
        inputs=wanted["inputs"] if "inputs" in wanted else await asyncio.to_thread(_offered, asked),
        since=wanted.get("from", ""),
        until=wanted.get("to", ""),
        why_no_ask=await asyncio.to_thread(_why_no_ask, asked, text, ok=ok),
        wrong=wrong,
        token=asked.token,
        nonce=asked.nonce,
    )


def _why_no_ask(asked: PageRequest, text: str, *, ok: bool) -> str:
    """Why approval of this text cannot be asked for; empty: it can."""
    if not ok:
        return "The text is not a valid rule: the faults are listed beside it."
    if asked.parts.approvals.proof_of_text(text) is None:
        return "There is no proof of exactly this text: run the backtest, then ask."
    return ""
