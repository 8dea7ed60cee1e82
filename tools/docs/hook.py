"""The hook of MkDocs: generated pages, pages from outside of ``docs``, and the links between them."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.docs import commands, http_api, kernel_memory, metrics, python_api
from tools.docs.links import for_site, slug

ROOT = Path(__file__).parents[2]
PLACES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "bench/FIGURES.md": "figures.md",
}
GENERATED = {
    "commands.md": commands.page,
    "http-api.md": http_api.page,
    "kernel-memory.md": kernel_memory.page,
    "metrics.md": metrics.page,
    "python-api.md": python_api.page,
}
# Front matter for MkDocs Material: the home page has no navigation, and the search ranks other pages first.
TOLD = {
    "index.md": "hide: [navigation]",
    "changelog.md": "search: {boost: 0.2}",
    "kernel-memory.md": "search: {boost: 0.2}",
}
ASSETS = ROOT / "src" / "crossline" / "serve" / "console" / "assets"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Anchors are those that the pages have where the repository is read."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what does not lie in ``docs``: pages, and the console's fonts and icon."""
    texts = {place: (ROOT / source).read_text(encoding="utf-8") for source, place in PLACES.items()}
    for place, text in (texts | {place: page() for place, page in GENERATED.items()}).items():
        head = f"---\n{TOLD[place]}\n---\n\n" if place in TOLD else ""
        files.append(File.generated(config, place, content=head + text))
    for path in (ASSETS / "icon.svg", *sorted(ASSETS.glob("fonts/*.woff2"))):
        files.append(File.generated(config, f"assets/console/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs' own
    """Links and pictures as the site needs them."""
    sources = {place: source for source, place in PLACES.items()}
    place = page.file.src_uri
    return for_site(markdown, sources.get(place, f"docs/{place}"), PLACES, _titles(files))


def _titles(files: Files) -> dict[str, str]:
    """The title that the navigation gives each page; "" of other files."""
    return {each.src_uri: str(each.page.title or "") if each.page is not None else "" for each in files}
