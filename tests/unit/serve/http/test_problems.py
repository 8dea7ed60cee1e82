"""Problems (RFC 9457) from the texts of the command line."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import httpx
import orjson
import pytest
from fastapi import Body, FastAPI
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from crossline.core.basics.errors import PermanentError, RetryableError, SinkError, StateError, StoppedError, UsageError
from crossline.core.texts.problems import Finding, Problem, RefusedError, path_text
from crossline.serve.http.problems import (
    MEDIA_TYPE,
    ProblemError,
    from_findings,
    from_problems,
    install_handlers,
    path_of,
    pointer,
    problem_of,
)


def test_findings_have_pointers() -> None:
    found = [Finding(("steps", 0, "a/b~c"), "x", "y", "did you mean z?"), Finding((), "nothing", "a rule")]
    problem = from_findings(found, "the rule is refused")
    assert orjson.loads(problem.body()) == {
        "type": "about:blank",
        "title": "Not valid",
        "status": 422,
        "detail": "the rule is refused (2 problems)",
        "errors": [
            {"pointer": "/steps/0/a~1b~0c", "found": "x", "expected": "y", "hint": "did you mean z?"},
            {"pointer": "", "found": "nothing", "expected": "a rule"},
        ],
    }


@pytest.mark.parametrize("path", [(), ("a",), (2, "conditions", 0, "field"), ("a", "b", 10)])
def test_a_path_is_read_back_from_its_text(path: tuple[str | int, ...]) -> None:
    assert pointer(path_of(path_text(path))) == pointer(path)


def test_a_report_of_the_command_line_is_its_errors() -> None:
    problems = [
        Problem("rules.yaml", 7, "[2].window", '"1 parsec"', "a duration such as 45s"),
        Problem("", 0, "", "x", "y"),
    ]
    problem = problem_of(RefusedError(problems))
    assert problem.status == 422
    assert problem.to_json()["detail"] == 'found "1 parsec"; expected a duration such as 45s (2 problems)'
    assert problem.errors[0] == {
        "pointer": "/2/window",
        "found": '"1 parsec"',
        "expected": "a duration such as 45s",
        "line": 7,
    }
    assert len(from_problems(problems * 500).errors) == 100


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("x"), 400),
        (PermanentError("x"), 422),
        (RetryableError("x"), 503),
        (SinkError("x", 2_500), 503),
        (StoppedError("x"), 503),
        (StateError("x"), 500),
        (ValueError("x"), 500),
        (ProblemError(409, "x"), 409),
    ],
)
def test_each_error_has_its_status(error: Exception, status: int) -> None:
    found = problem_of(error)
    assert found.status == status
    assert found.headers.get("Retry-After") == {RetryableError: "1", SinkError: "3", StoppedError: "1"}.get(type(error))
    assert (found.detail == "x") == (status != 500)  # of a fault nothing is told


def test_what_no_utf8_can_say_is_written_out() -> None:
    assert b"\\\\ud800" in ProblemError(422, "found \ud800").body()


class Client:
    """Asks an app without a socket."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def run() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
                return await client.request(method, path, **more)

        return asyncio.run(run())

    def get(self, path: str) -> httpx.Response:
        return self.ask("GET", path)

    def post(self, path: str, json: Any) -> httpx.Response:
        return self.ask("POST", path, json=json)


class Hold(BaseModel):
    until: Annotated[int, Field(gt=0)]
    reason: str


@pytest.fixture
def client() -> Client:
    app = FastAPI()
    install_handlers(app)

    @app.post("/holds")
    def hold(given: Annotated[Hold, Body()]) -> dict[str, Any]:
        return {"reason": given.reason}

    @app.get("/raise/{kind}")
    def broken(kind: str, count: int = 1) -> None:
        raise {
            "teapot": HTTPException(418, headers={"X-Tea": "yes"}),
            "usage": UsageError("found tea; expected coffee"),
            "fault": KeyError("hunter2"),
        }[kind]

    return Client(app)


def test_an_app_answers_with_problems(client: Client) -> None:
    assert client.get("/raise/teapot").headers["x-tea"] == "yes"
    for path, status in (("teapot", 418), ("usage", 400), ("fault", 500)):
        answer = client.get(f"/raise/{path}")
        assert (answer.status_code, answer.headers["content-type"]) == (status, MEDIA_TYPE)
        assert answer.json()["status"] == status
        assert "hunter2" not in answer.text
    assert client.get("/nowhere").json()["title"] == "Not Found"


def test_what_pydantic_finds_is_said_as_ours(client: Client) -> None:
    answer = client.post("/holds", json={"until": -1})
    assert answer.status_code == 422
    errors = {each["pointer"]: each for each in answer.json()["errors"]}
    assert errors["/until"]["found"] == "-1"
    assert errors["/reason"]["found"] == "nothing"
    (error,) = client.get("/raise/usage?count=many").json()["errors"]
    assert (error["pointer"], error["hint"]) == ("/count", "in the query of the request")
    large = client.post("/holds", json={"until": "x" * 100_000, "reason": "a"})
    assert len(large.content) < 1_000
