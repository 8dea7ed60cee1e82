"""Files of rules and of figures as they stand in a folder: read, checked, and each rule and figure with its place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path as FilePath
from typing import TypeVar

import yaml

from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.plaintext import printable
from crossline.basics.texts.problems import Finding, Path, Problem, RefusedError, fault_finding, shown
from crossline.basics.texts.report import place
from crossline.basics.texts.yamltext import SIZE_MAX, Document, load_yaml
from crossline.logs import get_logger
from crossline.rule_registry.content import FileContent, content_in_folder, content_of, is_folder, refused, text_of
from crossline.rule_registry.sources.folder import Files, Folder
from crossline.rule_registry.sources.keys import FigureKey, key_of
from crossline.rules.base import Rule
from crossline.rules.composition import Head, Sources, heads_of
from crossline.rules.figure_tables import PlacedFigure, SharedFigure, check_together, load_figures_document
from crossline.rules.rule_reader import NOT_DEFINED, Define, Defined, bodies_of, load_rules_document
from crossline.rules.shared_figures import SharedFigures

SUFFIXES = (".yaml", ".yml", ".json")
# Of cases, which stand beside rules and are no rules (``crossline rules test``).
CASES = tuple(f".cases{suffix}" for suffix in SUFFIXES)
ATTACHED_BYTES_MAX = 4 * 2**20  # it stands in the rule log, and goes to every worker

log = get_logger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Known:
    """What rules may refer to: streams by name, names of lists, topics of sinks. None: that is not checked.

    ``folder``: where files lie that rules name, such as models. None: beside the rule's own file. ``figures``: a file
    or folder of shared figures; they may stand beside the rules too.
    """

    streams: Mapping[str, StreamSpec] | None = None
    lists: Collection[str] | None = None
    sink_topics: Collection[str] | None = None
    folder: FilePath | None = None
    figures: FilePath | None = None

    def with_heads(self, heads: Mapping[str, Head]) -> Known:
        """Also the hits of rules that have these heads."""
        return self if self.streams is None else replace(self, streams=Sources.of(self.streams, heads))


NOTHING_KNOWN = Known()


@dataclass(frozen=True, slots=True)
class FileRule:
    """A rule, valid in itself, at ``path`` of a file."""

    rule: Rule
    document: Document
    path: Path
    defined: Defined = NOT_DEFINED

    @property
    def source(self) -> str:
        """The file's name."""
        return self.document.source

    @property
    def line(self) -> int:
        """Line of the rule, from 1."""
        return self.document.position(self.path)[0]

    def problem(self, finding: Finding) -> Problem:
        """``finding`` at its place in the file."""
        return place(finding, self.document, self.path)


# By file: its rules, or why it is refused.
Read = Mapping[str, list[FileRule] | RefusedError]


def folder_of_rules(path: FilePath) -> Folder:
    """The rule files in the folder ``path``; files of cases beside them are none."""
    return Folder(path, SUFFIXES, SIZE_MAX, other=CASES)


def case_files(path: FilePath) -> dict[str, FileContent]:
    """The files of cases beside the rule file ``path``, or of those in the folder, by their paths."""
    folder = path if is_folder(path) else path.parent
    found = Folder(folder, CASES, SIZE_MAX).changed() or {}
    files = {str(folder / name): content for name, content in found.items()}
    return files if is_folder(path) else {name: each for name, each in files.items() if rule_stem(name) == path.stem}


def rule_stem(path: str) -> str:
    """The name, without its end, of the rule file that a file of cases stands beside."""
    return FilePath(FilePath(path).stem).stem


def files_at(path: FilePath, *, empty: bool = False) -> dict[str, FileContent]:
    """The rule file that a person named, or those of a folder, by their paths; ``empty``: there may be none in it.

    Raises UsageError where there is none, or the file cannot be read.
    """
    if not is_folder(path):
        return {str(path): content_of(path)}
    files = folder_of_rules(path).changed() or {}
    if not files and not empty:
        raise UsageError(f"found no rule files in {path}; expected names that end in {', '.join(SUFFIXES)}")
    return {str(path / name): content for name, content in files.items()}


def read_rules(path: FilePath, known: Known = NOTHING_KNOWN) -> list[Rule]:
    """The rules of a file, or of all rule files of a folder, in the order of their names.

    Raises UsageError where there are none, RefusedError with all that is wrong in all files.
    """
    return [item.rule for item in read_placed_rules(path, known)]


def read_placed_rules(path: FilePath, known: Known = NOTHING_KNOWN) -> list[FileRule]:
    """As ``read_rules``, each with its place."""
    read = read_files(files_at(path), known)
    problems = [problem for each in read.values() if isinstance(each, RefusedError) for problem in each.problems]
    if problems:
        raise RefusedError(problems)
    rules = [item for each in read.values() if not isinstance(each, RefusedError) for item in each]
    if not rules:
        raise UsageError(f"{path}: found no rules; expected a rule file or a folder of them ({', '.join(SUFFIXES)})")
    return rules


def read_files(files: Files, known: Known = NOTHING_KNOWN) -> Read:
    """Each file read and checked by itself; its rules may read the hits of those in other files, and name figures."""
    files = with_figures(files, known)
    documents = {source: guarded(source, partial(_document, source, content)) for source, content in files.items()}
    figures, refused = _figures_in(documents, known)
    rules = {source: each for source, each in documents.items() if not _of_figures(source, known)}
    written = [body for each in rules.values() if isinstance(each, Document) for body in bodies_of(each)]
    known = known.with_heads(heads_of(figures.define(body).data for body in written))
    read: dict[str, list[FileRule] | RefusedError] = {source: [] for source in documents}
    for source, each in rules.items():
        if isinstance(each, Document):
            read[source] = guarded(source, partial(read_rule_file, each, known, figures.define))
    whole = {source: _with(each, refused.get(source)) for source, each in read.items()}
    for source, outcome in whole.items():
        document = documents[source]
        if isinstance(outcome, RefusedError) and isinstance(document, Document):
            outcome.rules = sum(1 for _ in bodies_of(document))
    return whole


def with_figures(files: Files, known: Known) -> Files:
    """``files``, and those of the folder of shared figures, where they are not among them."""
    if known.figures is None or any(_of_figures(source, known) for source in files):
        return files
    if known.figures.is_file():
        return {**files, str(known.figures): content_of(known.figures)}
    more = folder_of_rules(known.figures).changed() or {}
    return {**files, **{str(known.figures / name): content for name, content in more.items()}}


def _of_figures(source: str, known: Known) -> bool:
    return known.figures is not None and known.figures in {FilePath(source), FilePath(source).parent}


def _figures_in(
    documents: Mapping[str, Document | RefusedError], known: Known
) -> tuple[SharedFigures, dict[str, RefusedError]]:
    """The shared figures of all files, and which files have wrong ones."""
    found: list[PlacedFigure] = []
    bad = {source: each for source, each in documents.items() if isinstance(each, RefusedError)}
    for source, each in documents.items():
        if not isinstance(each, Document):
            continue
        tables = _of_figures(source, known)
        load = partial(load_figures_document, each, known.streams, known.lists, beside_rules=not tables, tables=tables)
        figures = guarded(source, partial(_of_its_key, source, load))
        together = figures if isinstance(figures, RefusedError) else guarded(source, partial(_beside, found, figures))
        if isinstance(together, RefusedError):
            bad[source] = together
        else:
            found += together
    shared = tuple(each for each in found if each.shared is not None)
    return SharedFigures(shared, tuple(bad)), bad


def _beside(found: list[PlacedFigure], figures: list[PlacedFigure]) -> list[PlacedFigure]:
    """``figures``, where they can stand beside those that were ``found``."""
    shared = [each for each in figures if each.shared is not None]
    check_together([*found, *shared])
    return shared


def _of_its_key(source: str, load: Callable[[], list[PlacedFigure]]) -> list[PlacedFigure]:
    """The figures of a file; of a message of a topic, where they are the one that its key names."""
    key, figures = key_of(source), load()
    if isinstance(key, FigureKey):
        there = [(each.name, each.shared.version) for each in figures if each.shared is not None]
        if there != [(key.figure_id, key.version)]:
            text = ", ".join(f"version {version} of figure {name}" for name, version in there) or "no shared figure"
            raise refused(source, text, f"version {key.version} of figure {key.figure_id}, which its key names")
    return figures


def _with(read: list[FileRule] | RefusedError, refused: RefusedError | None) -> list[FileRule] | RefusedError:
    """What was read of a file whose figures were ``refused``: all that is wrong with it."""
    if refused is None:
        return read
    more = read.problems if isinstance(read, RefusedError) else ()
    return RefusedError(sorted([*refused.problems, *more], key=lambda problem: problem.line))


def _document(source: str, content: FileContent) -> Document:
    return load_yaml(text_of(source, content), source)


def read_rule_file(document: Document, known: Known = NOTHING_KNOWN, define: Define = Defined) -> list[FileRule]:
    """The rules of a file; raises RefusedError with all that is wrong with it. ``define``: as of rules' documents."""
    attach = partial(attached, known.folder or FilePath(document.source).parent)
    loaded = load_rules_document(document, known.streams, known.lists, known.sink_topics, attach, define)
    return [FileRule(item.rule, document, item.path, item.defined) for item in loaded]


def attached(folder: FilePath, name: str) -> bytes | Finding:
    """The bytes of the file ``name`` of the folder, or what is wrong with it."""
    expected = f"a file of at most {ATTACHED_BYTES_MAX // 2**20} MiB in {folder}"
    if FilePath(name).is_absolute() or ".." in FilePath(name).parts or "\0" in name:
        return Finding((), shown(name), expected)
    content = content_in_folder(folder / name, ATTACHED_BYTES_MAX)
    if content is None:
        return Finding((), f"no file {printable(name)}", expected)
    found = f"{printable(name)}, which is {content.error}"
    return content.data if content.error is None else Finding((), found, expected)


def read_figures(
    path: FilePath, streams: Mapping[str, StreamSpec], lists: Collection[str] | None
) -> list[PlacedFigure]:
    """The figures of a file, or of all files of a folder, rules in which are passed over.

    Raises UsageError where there are none, RefusedError with all that is wrong in all files.
    """

    def read(source: str, content: FileContent) -> list[PlacedFigure]:
        return load_figures_document(_document(source, content), streams, lists, beside_rules=is_folder(path))

    checked = [guarded(source, partial(read, source, content)) for source, content in files_at(path).items()]
    found = [figure for each in checked if not isinstance(each, RefusedError) for figure in each]
    problems = [problem for each in checked if isinstance(each, RefusedError) for problem in each.problems]
    try:
        check_together(found)
    except RefusedError as error:
        problems += error.problems
    if problems:
        raise RefusedError(problems)
    if not found:
        raise UsageError(f"{path}: found no figures; expected source_topic and figures, or kind: figure")
    return found


def figures_beside(source: str, content: FileContent, known: Known) -> list[tuple[SharedFigure, bytes]]:
    """The shared figures of a file of rules, each with a text of its own. Raises RefusedError where one is wrong."""
    document = _document(source, content)
    found = load_figures_document(document, known.streams, known.lists, beside_rules=True, tables=False)
    shared = []
    for each in found:
        if each.shared is not None:
            written = document.data
            for step in each.path:
                written = written[step]
            text = yaml.safe_dump(written, sort_keys=False, allow_unicode=True).encode() if each.path else content.data
            shared.append((each.shared, text))
    return shared


def declared_figures(figures: Iterable[PlacedFigure]) -> list[PlacedFigure]:
    """Those that are reported: of the versions of a shared figure the highest that is in use.

    None that is retired; a draft only where there is nothing else.
    """
    found: dict[str, PlacedFigure] = {}
    for each in figures:
        known = found.get(each.name)
        if each.shared is not None and each.shared.status == "retired":
            continue
        if known is None or _rank(each) > _rank(known):
            found[each.name] = each
    return list(found.values())


def _rank(figure: PlacedFigure) -> tuple[bool, int]:
    shared = figure.shared
    return (False, 0) if shared is None else (shared.status != "draft", shared.version)


def guarded(source: str, check: Callable[[], _T]) -> _T | RefusedError:
    """What ``check`` gives, or why the file ``source`` is refused.

    The last line of defence: whatever else a check raises is logged as a fault of ours, and refuses this file alone.
    """
    try:
        return check()
    except RefusedError as error:
        for fault in error.faults:
            log.error("a rule could not be checked", source=source, exc_info=fault)  # noqa: TRY400 - with its own traceback
        return error
    except Exception as error:
        log.exception("a file could not be checked", source=source)
        finding = fault_finding(error)
        return RefusedError([Problem(source, 1, "", finding.found, finding.expected, finding.hint)])
