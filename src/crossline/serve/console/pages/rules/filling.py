"""The form beside the text, and a threshold that is moved: both change the text, and the text says what it means."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

from crossline.core.basics.errors import UsageError
from crossline.core.workbench.forms.reading import form_of
from crossline.core.workbench.forms.values import RuleForm
from crossline.core.workbench.forms.writing import with_form
from crossline.core.workbench.redraw import with_threshold
from crossline.serve.approvals.texts import the_rule
from crossline.serve.console.asked import Asked, moved
from crossline.serve.console.calling import called
from crossline.serve.console.pages.rules.context import FilledPart
from crossline.serve.console.pages.rules.curves import drawn_of, live_line
from crossline.serve.console.pages.rules.writing import checked_part, inputs_in, keep, refused_page, text_in
from crossline.serve.http.problems import ProblemError, invalid, problem_of

PREFIX = "f."  # of the fields of the form, among those of the page
KEPT = ("job", "curve", "sample", "inputs", "from", "to")


def fill(asked: Asked) -> FilledPart:
    """What the text becomes, and says, as one sets fields or moves the threshold. Nothing is kept."""
    wrong, text = "", text_in(asked.form)
    try:
        text = _changed(asked)
    except UsageError as error:
        wrong = str(error)
    check = checked_part(asked, text)
    return FilledPart(text, _form(asked, text), wrong, *_told(check))


async def apply(asked: Asked) -> Any:
    """The same, kept as the draft; then the page in the view that was asked for."""
    try:
        text = await asyncio.to_thread(_changed, asked)
    except (UsageError, ProblemError) as error:
        problem = error if isinstance(error, ProblemError) else problem_of(error)
        return await refused_page(asked, problem)
    at = await asyncio.to_thread(keep, asked, text)
    view = asked.form.get("view", "text")
    kept = {name: asked.form[name] for name in KEPT if asked.form.get(name)}
    return moved(f"{at}?{urlencode({'view': view, **kept})}")


async def draw(asked: Asked) -> Any:
    """Keep the draft, and compute what other thresholds would give, as a job."""
    text = text_in(asked.form)
    at = await asyncio.to_thread(keep, asked, text)
    config = asked.parts.deps.config
    rule = await asyncio.to_thread(the_rule, config, text)
    try:
        if rule is None:
            raise invalid("/text", "no rule that is right", "one rule without a fault")
        live = await asyncio.to_thread(live_line, asked, asked.form.get("rule_id", ""))
        body = {"rules": {"name": "rule.yaml", "text": text}, "rule_id": rule.rule_id, "inputs": inputs_in(asked)}
        job = await called(
            asked, "POST", "/v1/rules:thresholds", body=body | ({} if live is None else {"also": [live]})
        )
    except ProblemError as error:
        if error.status not in {409, 422, 503}:
            raise
        return await refused_page(asked, error)
    kept = {name: asked.form[name] for name in ("job", "sample", "inputs", "from", "to") if asked.form.get(name)}
    return moved(f"{at}?{urlencode({'curve': job['job_id'], **kept})}#curve")


def _changed(asked: Asked) -> str:
    text, config = text_in(asked.form), asked.parts.deps.config
    if asked.form.get("threshold"):
        drawn = drawn_of(config, text)
        if drawn is None:
            raise invalid("/threshold", "a text that draws no line", "a rule with a threshold, without a fault")
        try:
            return with_threshold(text, drawn, float(asked.form["threshold"]))
        except ValueError:
            raise invalid("/threshold", repr(asked.form["threshold"][:40]), "a number") from None
    given = {name.removeprefix(PREFIX): value for name, value in asked.form.items() if name.startswith(PREFIX)}
    return with_form(text, given, config.streams) if given else text


def _form(asked: Asked, text: str) -> RuleForm | None:
    return form_of(text, asked.parts.deps.config.streams) if asked.form.get("shown") == "form" else None


def _told(check: Any) -> tuple[Any, ...]:
    return check.faults, check.said, check.ok, check.differs, check.against, check.changed
