"""Whether packages are looked through for plugins at all; what they bring is tested end to end (``tests/e2e``)."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from crossline.basics.plugins import some_bring_any


def package(folder: Path, name: str, entry_points: str | None) -> str:
    """A place on the path with a package of these entry points."""
    about = folder / name
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Name: shop\nVersion: 1.0\n")
    if entry_points is not None:
        (about / "entry_points.txt").write_text(entry_points)
    return str(folder)


@pytest.mark.parametrize("group", ["crossline.rule_types", "crossline.aggregates", "crossline.sinks"])
@pytest.mark.parametrize("name", ["shop-1.0.dist-info", "shop.egg-info"])
def test_a_package_with_entry_points_of_ours_is_found(tmp_path: Path, name: str, group: str) -> None:
    assert some_bring_any((str(tmp_path / "missing"), package(tmp_path / "site", name, f"[{group}]\na = shop:A\n")))


@pytest.mark.parametrize("entry_points", [None, "[console_scripts]\ncrossline = crossline.cli.main:main\n"])
def test_other_packages_are_not(tmp_path: Path, entry_points: str | None) -> None:
    place = package(tmp_path / "site", "shop-1.0.dist-info", entry_points)
    (tmp_path / "site" / "old.egg-info").write_text("Name: old\n")
    assert not some_bring_any((place, str(tmp_path / "missing")))


def test_where_packages_may_stand_in_another_way_they_are_looked_through(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("shop-1.0.dist-info/METADATA", "Name: shop\n")
    assert some_bring_any((str(tmp_path / "all.zip"),))
    assert some_bring_any((package(tmp_path / "eggs", "shop-1.0.egg", None),))
