"""The local registry, as far as it goes without what it is made of, which no test fetches."""

from __future__ import annotations

import pytest

from crossline.core.basics.errors import PermanentError
from crossline.engine.machine.jars import Pin, pins
from crossline.services.registry import LocalRegistry


def test_outside_of_with_there_is_no_registry() -> None:
    with pytest.raises(PermanentError, match="use it as `with LocalRegistry\\(\\) as server:`"):
        _ = LocalRegistry().folder


def test_its_archive_is_pinned_by_its_whole_name() -> None:
    (pin,) = (each for each in pins() if each.group == "registry")
    assert pin.file_name == "apicurio-registry-app-3.3.3-all.tar.gz"
    assert pin.coordinates == ("io.apicurio", "apicurio-registry-app", "3.3.3", "all", "tar.gz")
    assert Pin("", "", "org/example/one/1.0/one-1.0.jar").coordinates == ("org.example", "one", "1.0")
