"""Hold and release: a preview of the consequence, then the act."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from crossline.basics.texts.problems import one_of, shown
from crossline.basics.times import format_instant, parse_instant_ms
from crossline.serve.console.pages.entities.consequence import Stopped
from crossline.serve.console.pages.entities.context import HoldPanel
from crossline.serve.console.request import PageRequest
from crossline.serve.http.problems import ProblemError, invalid

SPANS_MS = {"30m": ("30 min", 1_800_000), "4h": ("4 h", 14_400_000), "1d": ("1 d", 86_400_000)}
ACTIONS = {"review": "sent to review", "step_up": "stepped up", "block": "blocked"}
WORDS = {"hold": "review", "block": "block"}
_SCOPE = "hold"


def why_not(asked: PageRequest) -> str:
    """Why who looks cannot hold; empty: he can."""
    if not asked.allows(_SCOPE):
        return f"To hold needs the scope {_SCOPE}, which {asked.who.name} has not."
    if asked.parts.deps.config.policy is None:
        return "The pipeline has no policy, so that nothing is decided, and nothing can be held."
    return ""


def until_of(asked: PageRequest, values: Mapping[str, str]) -> int:
    """Until when, by a span or by an instant that was typed. Raises ProblemError (422) for what is neither."""
    text = values.get("until", "").strip()
    if text:
        try:
            at_ms = parse_instant_ms(text if "T" not in text or text.endswith("Z") or "+" in text else f"{text}Z")
            format_instant(at_ms)
        except (ValueError, OverflowError) as error:
            raise invalid("until", shown(text), "an instant such as 2026-01-01T18:00Z", str(error)) from None
        return at_ms
    span = values.get("for", "") or "4h"
    if span not in SPANS_MS:
        raise invalid("for", shown(span), one_of(SPANS_MS))
    return asked.parts.now_ms() + SPANS_MS[span][1]


def panel_of(
    asked: PageRequest, field: str, value: str, at: str, values: Mapping[str, str], past: Stopped, wrong: str = ""
) -> HoldPanel:
    """What would be done. ``values``: what was asked for, or sent and refused (``wrong``)."""
    act = values.get("act", "hold")
    if act not in WORDS:
        raise invalid("act", shown(act), one_of(WORDS))
    action = values.get("action") or WORDS[act]
    if action not in ACTIONS:
        raise invalid("action", shown(action), one_of(ACTIONS))
    until_ms = until_of(asked, values)
    chosen = "" if values.get("until", "").strip() else values.get("for", "") or "4h"
    spans = tuple(
        (label, f"{at}?{urlencode({'act': act, 'for': name})}#hold", name == chosen)
        for name, (label, _) in SPANS_MS.items()
    )
    until = asked.times.moment(until_ms // 60_000 * 60_000)
    short = until.text[:-3] if until.text.count(":") == 2 else until.text
    return HoldPanel(
        title="Block" if act == "block" else "Hold",
        action=action,
        word=ACTIONS[action],
        until=short,
        until_iso=format_instant(until_ms),
        spans=spans,
        stopped=past.caption(),
        reason=values.get("reason", ""),
        wrong=wrong,
        key=f"{field} {value}",
    )


def reason_of(error: ProblemError) -> str:
    """Why the API refused, where the form stands."""
    return str(error.to_json()["detail"])
