"""The outermost middleware of the routes: bodies are bounded, and no error leaves without being a problem."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crossline.serve.http.problems import ProblemError, problem_of

PATH_CHARS = 4_096


class Guard:
    """ASGI middleware. ``body_max``: most bytes of a request."""

    def __init__(self, app: ASGIApp, body_max: int) -> None:
        self._app = app
        self._body_max = body_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(receive, self._body_max)
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            if body.too_large and not begun:  # whatever the route made of a body that broke off
                raise self._too_large()
            begun = True
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, body.receive, noted)
        except Exception as error:
            problem = problem_of(error)
            if begun:  # half an answer is out: only closing the connection is left
                raise
            await problem.response()(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        if len(scope["path"]) > PATH_CHARS or len(scope["query_string"]) > PATH_CHARS:
            raise ProblemError(
                414, "too-long", f"found an address that is too long; expected at most {PATH_CHARS:,} characters"
            )
        if "\0" in scope["path"]:
            raise ProblemError(400, "malformed", "found a NUL in the address; expected a text without")
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if length.isdigit() and int(length) > self._body_max:
            raise self._too_large()

    def _too_large(self) -> ProblemError:
        return ProblemError(413, "too-large", f"found a larger body; expected at most {self._body_max:,} bytes")


class _Body:
    """What is received of a request, as long as it is not too much."""

    def __init__(self, receive: Receive, body_max: int) -> None:
        self._receive = receive
        self._left = body_max
        self.too_large = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.too_large = True
            return {"type": "http.disconnect"}
        return message
