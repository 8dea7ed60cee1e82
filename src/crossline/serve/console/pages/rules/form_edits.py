"""The form beside the text, and a threshold that is moved: both change the text, which has the meaning."""

from __future__ import annotations

import asyncio
from typing import Any

from crossline.analysis.threshold_edit import with_threshold
from crossline.basics.errors import UsageError
from crossline.serve.approvals.texts import the_rule
from crossline.serve.console.api_calls import called
from crossline.serve.console.pages.rules.curves import live_line, threshold_of
from crossline.serve.console.pages.rules.editor import checked_part, inputs_in, interval_in, keep, refused_page
from crossline.serve.console.pages.rules.editor_parts import FilledPart
from crossline.serve.console.pages.rules.form_input import PREFIX, TYPE, derived, form_shown, text_in, text_of
from crossline.serve.console.request import PageRequest
from crossline.serve.http.problems import ProblemError, invalid, problem_of


def fill(asked: PageRequest) -> FilledPart:
    """The text, and its meaning, as fields are set or the threshold is moved. Nothing is stored."""
    wrong, text = "", text_in(asked.form)
    try:
        text = _changed(asked)
    except (UsageError, ProblemError) as error:
        wrong = str(error)
    check = checked_part(asked, text)
    rule_type = "" if asked.form.get("type") else _type(asked)
    form = form_shown(asked, text, check.faults, rule_type, view=asked.form.get("shown"))
    return FilledPart(text, *form, wrong, *_sentence(check))


async def apply(asked: PageRequest) -> Any:
    """The same, kept as the draft; then the page in the view that was asked for."""
    try:
        text = await asyncio.to_thread(_changed, asked)
    except (UsageError, ProblemError) as error:
        problem = error if isinstance(error, ProblemError) else problem_of(error)
        return await refused_page(asked, problem)
    at = await asyncio.to_thread(keep, asked, text)
    view = asked.form.get("view") or asked.form.get("shown", "text")
    rule_type = _type(asked) if view == "form" and not asked.form.get("type") else ""
    return derived(asked, at, view=view, type=rule_type)


async def draw(asked: PageRequest) -> Any:
    """Keep the draft, and compute what other thresholds would give, as a job."""
    try:
        text = await asyncio.to_thread(text_of, asked)
        at = await asyncio.to_thread(keep, asked, text)
        rule = await asyncio.to_thread(the_rule, asked.parts.deps.config, text)
        if rule is None:
            raise invalid("/text", "no rule that is right", "one rule without a fault")
        live = await asyncio.to_thread(live_line, asked, asked.form.get("rule_id", ""))
        body: dict[str, Any] = {"rules": {"name": "rule.yaml", "text": text}, "rule_id": rule.rule_id}
        body |= {"inputs": inputs_in(asked), **interval_in(asked.form), "also": [] if live is None else [live]}
        job = await called(asked, "POST", "/v1/rules:thresholds", body=body)
    except (UsageError, ProblemError) as error:
        return await refused_page(asked, error)
    return derived(asked, at, "#curve", curve=job["job_id"])


def _changed(asked: PageRequest) -> str:
    if not asked.form.get("threshold"):
        return text_of(asked)
    text = text_in(asked.form)
    drawn = threshold_of(asked.parts.deps.config, text)
    if drawn is None:
        raise invalid("/threshold", "a text that draws no line", "a rule with a threshold, without a fault")
    try:
        return with_threshold(text, drawn, float(asked.form["threshold"]))
    except (ValueError, OverflowError):
        raise invalid("/threshold", repr(asked.form["threshold"][:40]), "a number") from None


def _type(asked: PageRequest) -> str:
    """The type that was chosen in the form."""
    return asked.form.get(PREFIX + TYPE, "")


def _sentence(check: Any) -> tuple[Any, ...]:
    return check.faults, check.caption, check.ok, check.differs, check.against, check.changed
