"""The demo asks its own API about a payment: what is decided, why, and how to ask it again."""

from __future__ import annotations

import http.client
import json
import shlex
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossline.basics.errors import UsageError
from crossline.settings.watch import LOOPBACK

if TYPE_CHECKING:
    from crossline.generate.cards import CardWorkload
    from crossline.settings.config import PipelineConfig as Config

PORT = 8080
ASKED, LOG = "ask.json", "out/serve.log"
READY_S, ANSWER_S, POLL_S = 20.0, 10.0, 0.05
# Below everything else on the machine: what the demo measures is the stream.
NICE = 19
OPEN = "  open: true                     # no key is needed: for a demonstration, on this machine only\n"
SERVE = """
serve:                           # crossline serve pipeline.yaml, or crossline run pipeline.yaml --serve
  listen: {place}
{open}  path: out/serve
  cases:                         # how alerts become the cases of the console's queue
    link: [card_hash, device_id, beneficiary_id]
    within: 1h
    money: {{field: amount_cents, currency: currency, decimals: 2}}
"""


@dataclass(frozen=True, slots=True)
class ApiExchange:
    """A request and its answer; ``problem``: why there is no answer."""

    request: str
    answer: Mapping[str, Any] | None
    problem: str | None
    again: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """As the summary has it."""
        return {"request": self.request, "answer": self.answer, "problem": self.problem, "again": list(self.again)}


def serve_section() -> str:
    """The section ``serve`` of the demo's pipeline: at the usual port, or at another if that is in use."""
    return SERVE.format(place=place_at(PORT), open=OPEN)


def place_at(usual: int) -> str:
    """HOST:PORT on this machine: at the ``usual`` port, or at another if that is in use."""
    for port in (usual, 0):
        with closing(socket.socket()) as bound:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                bound.bind((LOOPBACK, port))
            except OSError:
                continue
            return f"{LOOPBACK}:{bound.getsockname()[1]}"
    return f"{LOOPBACK}:{usual}"


@contextmanager
def served(config: Config, folder: Path) -> Iterator[str | None]:
    """The API over the demo's pipeline, as long as the context is open; gives why there is none, else None.

    It is a process of its own, which ends with the demo.
    """
    from crossline.serve.api_process import ApiProcess
    from crossline.serve.start_check import check_startable

    problem = None
    try:
        check_startable(config)
    except UsageError as error:
        problem = str(error)
    beside = nullcontext() if problem else ApiProcess(folder / "pipeline.yaml", output=folder / LOG, nice=NICE)
    with beside:
        yield problem


def payment_to_ask(alerts: Sequence[Mapping[str, Any]], workload: CardWorkload, records: int) -> dict[str, Any]:
    """Another payment like the one that raised the last alert, at the time of the newest one; or like that one."""
    newest = _payment(workload, records - 1)
    last = max(alerts, key=lambda each: str(each["event_time"]), default=None)
    like = newest if last is None else _payment(workload, int(str(last["record_id"]).lstrip("t")))
    return {**like, "transaction_id": "demo-1", "event_time": newest["event_time"]}


def _payment(workload: CardWorkload, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(workload.lines(number, 1))
    return found


def ask(config: Config, folder: Path, payment: Mapping[str, Any], problem: str | None) -> ApiExchange:
    """Ask the API about ``payment``, without putting it into the stream; ``problem``: why there is none to ask.

    The payment is written beside the pipeline, so that it can be asked about again.
    """
    assert config.serve is not None  # noqa: S101 - the demo has written it
    place = config.serve.place
    (folder / ASKED).write_text(json.dumps(payment) + "\n", encoding="utf-8")
    path = "/v1/decisions/payments?dry_run=true&timeout_ms=5000"
    again = (
        f"crossline serve {shlex.quote(str(folder / 'pipeline.yaml'))} &",
        f"curl -s '{place}{path}' -d @{shlex.quote(str(folder / ASKED))}",
    )
    answer = None
    if problem is None:
        try:
            _await_ready(place.host, place.port)
            answer = _request(place.host, place.port, "POST", path, (folder / ASKED).read_bytes())
        except (OSError, http.client.HTTPException, ValueError) as error:
            problem = f"{error}; see {folder / LOG}"
    return ApiExchange(f"POST {path}", answer, problem, again)


def _await_ready(host: str, port: int) -> None:
    """Raises TimeoutError if no replica comes to be ready."""
    ends_s, why = time.monotonic() + READY_S, ""
    while time.monotonic() < ends_s:
        try:
            _request(host, port, "GET", "/readyz")
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = str(error)
            time.sleep(POLL_S)
        else:
            return
    raise TimeoutError(f"the API was not ready within {READY_S:.0f} s ({why})")


def _request(host: str, port: int, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
    """The JSON that is answered. Raises OSError, HTTPException, or ValueError where it is no ``200``."""
    with closing(http.client.HTTPConnection(host, port, timeout=ANSWER_S)) as connection:
        connection.request(method, path, body)
        reply = connection.getresponse()
        text = reply.read()
        if reply.status != http.HTTPStatus.OK:
            raise ValueError(f"{reply.status}: {text[:300].decode(errors='replace')}")
        found: dict[str, Any] = json.loads(text)
        return found


def as_lines(asked: Mapping[str, Any]) -> list[str]:
    """What was asked and answered, to read."""
    answer = asked["answer"]
    if answer is None:
        return [f"the API was not asked: {asked['problem']}"]
    text = f"{answer['decision']}, score {answer['score']}, {answer['answered']}, in {answer['took_ms']} ms"
    reasons = [f"  {each['rule_id']}: {each['message']}" for each in answer["reasons"]]
    degraded = [f"  {each['part']}: {each['why']}" for each in answer["degraded"]]
    return [
        f"asked about one more payment: {text}",
        *reasons,
        *degraded,
        "ask it again:",
        *map("  {}".format, asked["again"]),
    ]
