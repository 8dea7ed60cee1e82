"""The demo goes on after its summary: payments come at their own rate, and the console shows what becomes of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from crossline.cli.demo.accounts import accounts_text, make_people
from crossline.cli.demo.api_request import OPEN, place_at

if TYPE_CHECKING:
    from crossline.settings.config import PipelineConfig as Config

PAST = "in/payments.jsonl"  # of the demo's folder: what was judged, for who tries a rule on it
RECORDS = 10**9  # more than anybody waits for
SOURCE = "payments"
RATE_PER_S = 20  # payments of a second of event time
WATCH_PORT = 9464
WATCHED = """
watch:                           # figures of the run: for Prometheus, and for the console's page of the pipeline
  listen: {place}
slo:                             # what the console's objectives are held against
  decision_latency: {{under: 1s, percentile: 99}}
  checkpoint: {{share: 50, percent: 90}}
  availability: {{percent: 99.9}}
"""
TEXT = """
the console: http://{place}/   it is there in some seconds; payments go on coming, and Ctrl-C ends it
log in as one of two users: an author cannot approve his own rule; the passwords are shown only once:
{people}
a private window of the browser keeps the second one beside the first
now the API asks for a key: crossline serve keys create --pipeline {pipeline} --name shop --scope decide:payments
"""


def go_on(config: Config, folder: Path, records: int) -> None:
    """Run the demo's pipeline, of which ``records`` payments were judged, with more of them, until Ctrl-C."""
    assert config.serve is not None  # noqa: S101 - the demo has written it
    pipeline = folder / "pipeline.yaml"
    text = pipeline.read_text(encoding="utf-8")
    paced = rf"records: {records}, pace_per_s: \d+, base_ms: (\d+)"
    found = re.search(paced, text)
    assert found is not None  # noqa: S101 - as above
    now_on = f"records: {RECORDS}, pace_per_s: {RATE_PER_S}, base_ms: {found[1]}"
    # An approval needs a user's name; where the API is open all callers are `anybody`.
    text = text.replace(found[0], now_on).replace(OPEN, "") + WATCHED.format(place=place_at(WATCH_PORT))
    pipeline.write_text(text, encoding="utf-8")
    _keep_past(config, folder / PAST, records)
    passwords = make_people(Path(config.serve.users))
    _as_if_begun(Path(config.engine.checkpoint) / "sources" / SOURCE / "started.json", int(found[1]))
    sys.stderr.write(TEXT.format(place=config.serve.place, people=accounts_text(passwords), pipeline=pipeline))
    command = [sys.executable, "-m", "crossline.cli.main", "run", str(pipeline), "--serve"]
    with subprocess.Popen(command) as running:
        while running.poll() is None:
            with suppress(KeyboardInterrupt):  # it goes to both, and the run ends by itself
                running.wait()


def _keep_past(config: Config, path: Path, records: int) -> None:
    """The payments that were judged, as a file: a generator has no past to try rules on."""
    from crossline.generate.source import read_source

    source = read_source(config.sources[SOURCE].model_dump(exclude_none=True))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(source.lines(0, records))


def _as_if_begun(started: Path, at_ms: int) -> None:
    """From here on each payment comes when its event time is, as if all of them had."""
    body = json.loads(started.read_text(encoding="utf-8"))
    started.write_text(json.dumps({**body, "started_ms": at_ms}), encoding="utf-8")
