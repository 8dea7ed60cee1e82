"""A trial on a sample: what fires among records that are pasted, or the first of a source, and what nearly does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import shown
from crossline.serve.approvals.texts import the_rule
from crossline.serve.console.api_calls import called
from crossline.serve.console.pages.rules.curves import job_of
from crossline.serve.console.pages.rules.editor import keep, refused_page
from crossline.serve.console.pages.rules.editor_parts import SamplePart
from crossline.serve.console.pages.rules.form_input import derived, text_of
from crossline.serve.console.pages.rules.trials import sample_of
from crossline.serve.console.request import PageRequest
from crossline.serve.http.problems import ProblemError, invalid

RECORDS_MAX = 20_000


async def view(asked: PageRequest) -> SamplePart:
    """How far it is, or what it found."""
    return SamplePart(sample_of(await job_of(asked, asked.path["job_id"])), asked.nonce)


async def run(asked: PageRequest) -> Any:
    """Keep the draft, and try it on the sample, as a job."""
    try:
        text = await asyncio.to_thread(text_of, asked)
        at = await asyncio.to_thread(keep, asked, text)
        rule = await asyncio.to_thread(the_rule, asked.parts.deps.config, text)
        if rule is None:
            raise invalid("/text", "no rule that is right", "one rule without a fault")
        body: dict[str, Any] = {"rules": {"name": "rule.yaml", "text": text}, **given_in(asked.form, rule.source_topic)}
        job = await called(asked, "POST", "/v1/rules:test", body=body)
    except (UsageError, ProblemError) as error:
        return await refused_page(asked, error)
    return derived(asked, at, "#sample", sample=job["job_id"])


def given_in(form: Mapping[str, str], stream: str) -> dict[str, Any]:
    """The sample that a form names: its records, or how many of the source. Raises ProblemError (422) for neither."""
    lines = [line for line in form.get("records", "").splitlines() if line.strip()]
    if lines:
        return {"records": {stream: [_record(line, number) for number, line in enumerate(lines, 1)]}}
    count = form.get("first", "").strip()
    if not (count.isascii() and count.isdigit() and 1 <= int(count[:9]) <= RECORDS_MAX):
        raise invalid("/first", shown(count), f"a whole number from 1 to {RECORDS_MAX:,}, or records")
    return {"first": {stream: int(count)}}


def _record(line: str, number: int) -> Any:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise invalid("/records", f"line {number}: {shown(line)}", f"a JSON object a line ({error})") from None
    if not isinstance(found, dict):
        raise invalid("/records", f"line {number}: {shown(line)}", "a JSON object a line")
    return found
