"""What a person prefers: theme, density, zone, single keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo, available_timezones

import orjson

from crossline.basics.texts.problems import one_of, shown
from crossline.io.private_database import PrivateDatabase
from crossline.serve.http.problems import invalid

Theme = Literal["system", "light", "dark"]
Density = Literal["comfortable", "compact"]
Keys = Literal["on", "off"]
_CHOICES: dict[str, tuple[str, ...]] = {"theme": get_args(Theme), "density": get_args(Density), "keys": get_args(Keys)}


@dataclass(frozen=True, slots=True)
class Preferences:
    """``zone``: of IANA, in which times are shown; ``keys``: whether single letters are keys."""

    theme: Theme = "system"
    density: Density = "comfortable"
    zone: str = "UTC"
    keys: Keys = "on"

    @property
    def tz(self) -> ZoneInfo:
        """The zone, as Python has it."""
        return ZoneInfo(self.zone)


class PreferenceFile:
    """Keeps what persons prefer, by their names. Each call waits for the disk: for a thread."""

    def __init__(self, kept: PrivateDatabase) -> None:
        self._kept = kept

    def of(self, name: str) -> Preferences:
        """The preferences of ``name``; defaults where none is set."""
        with self._kept.reading() as db:
            row = db.execute("SELECT said FROM preferences WHERE name = ?", (name,)).fetchone()
        if row is None:
            return Preferences()
        body = orjson.loads(row[0])
        known = {each.name for each in fields(Preferences)}
        return Preferences(**{name: value for name, value in body.items() if name in known})

    def keep(self, name: str, preferred: Preferences) -> None:
        """From now on."""
        with self._kept.writing() as db:
            db.execute(
                "INSERT INTO preferences (name, said) VALUES (?, ?)"
                " ON CONFLICT (name) DO UPDATE SET said = excluded.said",
                (name, orjson.dumps(asdict(preferred)).decode()),
            )


def zones() -> list[str]:
    """The zones that this machine knows, UTC first."""
    return ["UTC", *sorted(each for each in available_timezones() if "/" in each and not each.startswith("posix"))]


def preferences_of(form: Mapping[str, str]) -> Preferences:
    """The preferences of a form. Raises ProblemError (422) for a value that does not exist."""
    body: dict[str, Any] = {}
    for name, choices in _CHOICES.items():
        value = form.get(name, choices[0])
        if value not in choices:
            raise invalid(f"/{name}", shown(value), one_of(choices))
        body[name] = value
    zone = form.get("zone", "UTC")
    if zone not in available_timezones():
        raise invalid("/zone", shown(zone), "a zone of this machine, such as Europe/Berlin")
    return Preferences(**body, zone=zone)
