"""Who publishes: what ``--as``, the pipeline file and the environment may say."""

from __future__ import annotations

from typing import Any

import pytest

from crossline.basics.errors import UsageError
from crossline.cli.rules.topic import publisher
from crossline.settings.sources import TopicPlace

WRONG = {
    "alice\ufe0f": "character 6 is U+FE0F (VARIATION SELECTOR-16)",
    "\u0430lice": "character 1 is U+0430 (CYRILLIC SMALL LETTER A)",
    "al\tice": "character 3 is U+0009 (a control character)",
    "alice\u00a0": "character 6 is U+00A0 (NO-BREAK SPACE)",
    "al  ice": "two in a row",
    "": "a name without a character",
    " ": "a name without a character",
}
RIGHT = [
    "alice",
    "a.lice_2-b+c@example.com",
    "BANK\\alice",
    "alice/host.bank@BANK",
    "CN=Alice Liddell, OU=Risk",
    "o'brien",
    "svc$",
]


def settings(username: str | None = None) -> TopicPlace:
    security: dict[str, Any] = {"protocol": "sasl_ssl", "mechanism": "PLAIN", "password_env": "P", "username": username}
    more = {} if username is None else {"security": security}
    return TopicPlace.model_validate({"kind": "kafka", "brokers": "b:1", "topic": "t", **more})


@pytest.mark.parametrize("name", WRONG, ids=ascii)
def test_a_name_that_looks_like_another_one_publishes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError) as by_option:
        publisher(settings(), name)
    if name:
        with pytest.raises(UsageError) as by_file:
            publisher(settings(name), None)
        monkeypatch.setenv("LOGNAME", name)
        with pytest.raises(UsageError) as by_environment:
            publisher(settings(), None)
        assert {str(each.value) for each in (by_file, by_environment)} == {str(by_option.value)}
    assert WRONG[name] in str(by_option.value)
    assert "letters a-z and A-Z, digits" in str(by_option.value)


@pytest.mark.parametrize("name", RIGHT)
def test_names_of_users_of_services_and_of_certificates_are_taken(name: str) -> None:
    assert publisher(settings(), f" {name} ")[0] == name
