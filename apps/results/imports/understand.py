"""Convert files and their mapping to runs of a campaign, with a note for everything that cannot be read. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from apps.campaigns.design.plan import MAX_RUNS
from apps.results.imports import columns, file_names, manifest, reading
from apps.results.imports import mapping as import_mapping
from apps.results.imports.files import File
from apps.results.imports.manifest import Manifest, ManifestEntry
from apps.results.imports.reading import Reading
from common.errors import FormatError, PlanError, ProvingError
from readers.table import Table, read_table

STEP = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
LONE_STEP = "measure"
LONGEST_LABEL = 120
UNKNOWN_LEVEL = "–"
NO_FACTOR = "file"


@dataclass(frozen=True)
class Note:
    """An error prevents the commit of the import; a warning does not."""

    severity: Literal["error", "warning"]
    place: str
    message: str
    hint: str = ""


@dataclass(frozen=True)
class DraftRun:
    """One future run, its repetition from 0. `steps` by name. `error`: of the first step with one."""

    cell: Mapping[str, str]
    block: int
    host: str
    steps: Mapping[str, Reading]

    @property
    def error(self) -> Mapping[str, Any] | None:
        return next((step.error for step in self.steps.values() if step.error), None)

    @property
    def outcome(self) -> str:
        recorded = next(
            (step.entry.outcome for step in self.steps.values() if step.entry.outcome not in ("", "ok")), ""
        )
        return recorded or ("failed" if self.error else "ok")

    @property
    def sources(self) -> str:
        return ", ".join(step.source for step in self.steps.values())


@dataclass(frozen=True)
class Understood:
    """`steps` and `factors` as in a campaign. `uses`: of the columns of a table. `named`: levels come from file
    names, by `pattern`."""

    runs: list[DraftRun] = field(default_factory=list)
    factors: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    named: bool = False
    pattern: str = ""
    uses: dict[str, dict[str, Any]] = field(default_factory=dict)
    table: Table | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    profiles: tuple[str, ...] = ()

    @property
    def errors(self) -> list[Note]:
        return [note for note in self.notes if note.severity == "error"]


def understand(files: Sequence[File], mapping: Mapping[str, Any]) -> Understood:
    """Convert the files. Never raises for their content: `notes` has the errors.

    `mapping`: {"pattern", "columns", "host"}; missing ones are guessed."""
    notes: list[Note] = []
    try:
        listing = manifest.find(files)
        about = listing.about if listing else {}
        import_mapping.check(about)
        named, pattern, entries = _entries(files, listing, mapping)
    except ProvingError as error:
        return Understood(notes=[_note("error", error)], named=True, pattern=str(mapping.get("pattern") or ""))
    spoken: dict[str, Any] = {
        name: {**(about.get(name) or {}), **(mapping.get(name) or {})} for name in ("columns", "order")
    }
    reader = _Reader(files, spoken["columns"], notes)
    readings = [step_reading for entry in entries for step_reading in reader.read(entry)]
    interpretation: dict[str, Any] = {"named": named, "pattern": pattern, "uses": reader.uses, "table": reader.table}
    understood = _assembled(readings, spoken["order"], notes)
    return replace(understood, about=about, **interpretation)


def _note(severity: Literal["error", "warning"], error: ProvingError) -> Note:
    return Note(severity, error.subject, error.message, error.hint)


def _entries(
    files: Sequence[File], listing: Manifest | None, mapping: Mapping[str, Any]
) -> tuple[bool, str, list[ManifestEntry | FormatError]]:
    """Return the entries of the manifest, or every file with the levels in its name. A file that does not match is
    an error."""
    if listing:
        return False, "", list(listing.entries) + list(_unlisted(files, listing))
    outputs = [file for file in files if not _beside(file, files)]
    tables = [file for file in outputs if file.suffix in reading.TABLES]
    others = [file.path for file in outputs if file not in tables]
    text = str(mapping.get("pattern") or "") if "pattern" in mapping else file_names.guess_pattern(others)
    pattern = file_names.compile_pattern(text) if text else None
    named: list[ManifestEntry | FormatError] = [_named(path, pattern) for path in others]
    return bool(others), text, [*named, *(ManifestEntry(file.path) for file in tables)]


def _beside(file: File, files: Sequence[File]) -> bool:
    """Return whether a file is the stderr of another one."""
    if file.suffix not in reading.ERRORS:
        return False
    return any(other.stem == file.stem and other.suffix not in reading.ERRORS for other in files)


def _unlisted(files: Sequence[File], listing: Manifest) -> Iterator[FormatError]:
    listed = {listing.path} | {name for entry in listing.entries for name in (entry.file, entry.stderr)}
    stems = {file.stem for file in files if file.path in listed}
    for file in files:
        if file.path not in listed and not (file.suffix in reading.ERRORS and file.stem in stems):
            yield FormatError(
                file.path,
                f"{listing.path} does not list it, so it is left out",
                hint="add it to the manifest, or ignore this warning",
            )


def _named(path: str, pattern: file_names.Pattern | None) -> ManifestEntry | FormatError:
    if pattern is None:
        return ManifestEntry(path, levels={NO_FACTOR: path.rpartition(".")[0] or path})
    read = pattern.read(path)
    if read is None:
        hint = f"change the pattern {pattern.text}, or leave the file out"
        return FormatError(path, "its name does not match the pattern, so it is left out", hint=hint)
    levels = {name: value for name, value in read.items() if name not in (*file_names.BLOCK, file_names.STEP, *_HOST)}
    number = next((read[name] for name in file_names.BLOCK if name in read), "")
    try:
        block = manifest.block(number, f"{path}, {{n}}") if number else None
    except FormatError as error:
        return error
    fields: dict[str, Any] = {name: read.get(name, "") for name in (file_names.STEP, *_HOST)}
    return ManifestEntry(path, levels=levels, block=block, **fields)


_HOST = (file_names.HOST, file_names.PROFILE)


class _Reader:
    """Reads entries, and keeps the first table with the uses of its columns."""

    def __init__(self, files: Sequence[File], column_uses: Mapping[str, Any], notes: list[Note]) -> None:
        self.files = {file.path: file for file in files}
        self.errors = {file.stem: file for file in files if file.suffix in reading.ERRORS}
        self.columns, self.notes = column_uses, notes
        self.table: Table | None = None
        self.uses: dict[str, dict[str, Any]] = {}

    def read(self, entry: ManifestEntry | FormatError) -> list[Reading]:
        if isinstance(entry, FormatError):
            self.notes.append(_note("warning", entry))
            return []
        if not entry.file:
            return [reading.without_output(entry)]
        if entry.file not in self.files:
            hint = "give a path as in the zip"
            self.notes.append(Note("error", entry.file, "it is in the manifest but was not uploaded", hint))
            return []
        file = self.files[entry.file]
        try:
            if file.suffix in reading.TABLES or entry.kind == reading.FIGURES:
                return self._rows(entry, file)
            return [self._output(entry, file)]
        except FormatError as error:
            self.notes.append(_note("error" if entry.kind or len(self.files) == 1 else "warning", error))
            return []

    def _output(self, entry: ManifestEntry, file: File) -> Reading:
        stderr = self.files.get(entry.stderr) or self.errors.get(file.stem)
        output = reading.read_output(entry, file, None if stderr is file else stderr)
        if output.error:
            self.notes.append(Note("warning", output.source, f"a failed run: {output.error['message']}"))
        return output

    def _rows(self, entry: ManifestEntry, file: File) -> list[Reading]:
        table = read_table(file.content, file.path)
        if self.table is None:
            self.table, self.uses = table, columns.chosen(table, self.columns)
        elif table.head != self.table.head:
            raise FormatError(
                f"{file.path}, line 1", "its columns differ from those of the table before it", hint="import apart"
            )
        if not any(use["as"] == "figure" for use in self.uses.values()):
            raise FormatError(file.path, "none of its columns is a figure", hint="select one as a figure")
        readings: list[Reading] = []
        for reading_or_error in reading.read_rows(entry, file, table, self.uses):
            if isinstance(reading_or_error, FormatError):
                self.notes.append(_note("warning", reading_or_error))
            else:
                readings.append(reading_or_error)
        self.notes += [Note("warning", r.source, f"a failed run: {r.error['message']}") for r in readings if r.error]
        return readings


def _assembled(readings: Sequence[Reading], order: Mapping[str, Sequence[str]], notes: list[Note]) -> Understood:
    """Combine readings with the same levels and repetition as steps of one run."""
    readings, profiles = _spread(readings)
    factors = list(dict.fromkeys(name for step_reading in readings for name in step_reading.entry.levels))
    kinds = {step_reading.kind for step_reading in readings}
    runs: dict[tuple[str, str, int], DraftRun] = {}
    counted: Counter[tuple[str, str, str]] = Counter()
    for step_reading in readings:
        step = step_reading.entry.step or (LONE_STEP if len(kinds) == 1 else step_reading.kind)
        cell = {name: step_reading.entry.levels.get(name, UNKNOWN_LEVEL) for name in factors}
        place = (step_reading.entry.host, reading.key(cell))
        counted[*place, step] += 1
        block = step_reading.entry.block if step_reading.entry.block is not None else counted[*place, step]
        run = runs.get((*place, block)) or DraftRun(cell, block, step_reading.entry.host, {})
        if step in run.steps:
            _clash(notes, step_reading, run, step)
        else:
            runs[*place, block] = replace(run, steps={**run.steps, step: step_reading})
    ordered = _ordered(runs.values())
    _note_problems(ordered, factors, notes)
    return Understood(ordered, _factors(ordered, factors, order), _steps(ordered, notes), notes, profiles=profiles)


def _spread(readings: Sequence[Reading]) -> tuple[list[Reading], tuple[str, ...]]:
    """Return readings with hosts and profiles as factors if they differ, so that measurements of two hosts are never
    mixed."""
    spread = list(readings)
    for word in (file_names.PROFILE, file_names.HOST):
        values = {getattr(step_reading.entry, word) for step_reading in spread}
        if len(values) > 1:
            spread = [_with_level(step_reading, word) for step_reading in spread]
    profiles = tuple(sorted({step_reading.entry.profile for step_reading in spread if step_reading.entry.profile}))
    return spread, profiles


def _with_level(each: Reading, word: str) -> Reading:
    levels = {word: getattr(each.entry, word) or UNKNOWN_LEVEL, **each.entry.levels}
    return replace(each, entry=replace(each.entry, levels=levels))


def _clash(notes: list[Note], each: Reading, run: DraftRun, step: str) -> None:
    levels = ", ".join(run.cell.values())
    message = f"{run.steps[step].source} is already step {step} of {levels}, repetition {run.block}"
    notes.append(Note("error", each.source, message, "give each repetition its own number, or omit the numbers"))


def _ordered(runs: Iterable[DraftRun]) -> list[DraftRun]:
    """Return the runs in order of time if all have one, else in the order of the files. Repetitions count from 0."""
    ordered = list(runs)
    blocks = {block: place for place, block in enumerate(sorted({run.block for run in ordered}))}
    ordered = [replace(run, block=blocks[run.block]) for run in ordered]
    times = [_time(run) for run in ordered]
    if all(times):
        return [run for _, run in sorted(zip(times, ordered, strict=True), key=lambda pair: pair[0])]
    return ordered


def _time(run: DraftRun) -> Any:
    times = [time for step in run.steps.values() if (time := step.entry.ended or step.entry.started)]
    return max(times) if times else None


def _factors(
    runs: Sequence[DraftRun], factors: Sequence[str], order: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """Return factors and levels in the order of the mapping, else in that of their first appearance."""
    factors = sorted(factors, key=[*order, *factors].index)
    levels = {}
    for name in factors:
        labels = dict.fromkeys(run.cell[name] for run in runs)
        levels[name] = sorted(labels, key=[*(order.get(name) or ()), *labels].index)
    return [{"name": name, "levels": [{"label": label, "set": {}} for label in levels[name]]} for name in factors]


def _note_problems(runs: Sequence[DraftRun], factors: Sequence[str], notes: list[Note]) -> None:
    if not runs:
        notes.append(Note("error", "files", "no run was found in the files", "see the message for each file"))
    elif not any(run.outcome == "ok" for run in runs):
        notes.append(Note("error", "files", "no successful run, so there are no results to compare"))
    if len(runs) > MAX_RUNS:
        notes.append(
            Note("error", "files", f"{len(runs)} runs; at most {MAX_RUNS} are accepted", "import them in parts")
        )
    if runs and not factors:
        notes.append(
            Note(
                "error",
                "factors",
                "the runs have no factor that distinguishes them",
                "give a pattern, or make a column a factor",
            )
        )
    for label in dict.fromkeys(label for run in runs for label in (*run.cell, *run.cell.values())):
        if not label or len(label) > LONGEST_LABEL or not label.isprintable():
            hint = f"1 to {LONGEST_LABEL} printable characters"
            notes.append(Note("error", ascii(label[:80]), "is not a valid name of a factor or level", hint))


def _steps(runs: Sequence[DraftRun], notes: list[Note]) -> list[dict[str, Any]]:
    """Return the steps of a workload that cannot run, each with the metrics that were measured."""
    steps: dict[str, dict[str, Any]] = {}
    for name, each in ((name, each) for run in runs for name, each in run.steps.items()):
        if name not in steps:
            if not STEP.fullmatch(name):
                notes.append(Note("error", each.source, f"{name!r} is not a valid name of a step", "a-z, 0-9, _ and -"))
            steps[name] = {"name": name, "role": "measure", "kind": each.kind, "options": {}, "metrics": {}}
        if steps[name]["kind"] != each.kind:
            message = f"step {name} is {each.kind} here, but {steps[name]['kind']} in other files"
            notes.append(Note("error", each.source, message, "give the steps different names"))
        steps[name]["options"] |= each.options
        metrics = {
            figure.name: {"unit": figure.unit, "better": figure.better} for figure in each.figures if figure.better
        }
        steps[name]["metrics"] |= metrics
    return list(steps.values())


def first_error(understood: Understood) -> PlanError | None:
    """Return the first error as a PlanError."""
    return (
        PlanError(understood.errors[0].place, understood.errors[0].message, hint=understood.errors[0].hint)
        if understood.errors
        else None
    )
