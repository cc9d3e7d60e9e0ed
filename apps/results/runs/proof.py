"""Whether the settings of a run were in effect, and whether the host was restored, from the events of the run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from apps.results.runs.evidence import EvidenceTable, parts

MEASURED = ("before", "during", "after")
HELD, DRIFTED, NEVER, UNPROVEN, NOTHING = "held", "drifted", "not_in_effect", "unproven", "nothing"
INCONSISTENT = "inconsistent"
DATA = "dataset"  # the agent's name for the conditions of a data set, which are not a setting
LABELS = {
    HELD: "proven",
    DRIFTED: "changed during the run",
    NEVER: "never in effect",
    UNPROVEN: "not verified",
    NOTHING: "no settings",
    INCONSISTENT: "inconsistent data",
}
PUT_BACK, LEFT, NOT_BACK, OPEN = "put_back", "left_alone", "not_put_back", "open"


@dataclass(frozen=True)
class ProofCheck:
    """One proof: the expected and the actual value, and its source."""

    phase: str
    subject: str
    expected: Any
    actual: Any
    ok: bool
    evidence: Mapping[str, Any]

    @property
    def source(self) -> str:
        return str(self.evidence.get("source", ""))

    @property
    def parts(self) -> list[EvidenceTable]:
        return parts(self.evidence)


@dataclass(frozen=True)
class ProofSubject:
    """The object of proofs, such as a process or a parameter, in each phase."""

    name: str
    checks: list[ProofCheck]

    @property
    def expected(self) -> Any:
        return self.checks[0].expected

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(check.source for check in self.checks if check.source))

    @property
    def cells(self) -> list[list[ProofCheck]]:
        """The proofs by phase, each actual value once: its last proof has the most evidence."""
        return [list({str(check.actual): check for check in self.of(phase)}.values()) for phase in MEASURED]

    @property
    def shown(self) -> list[ProofCheck]:
        return [check for checks in self.cells for check in checks]

    @property
    def has_parts(self) -> bool:
        """Whether there is more evidence than its source."""
        return any(check.parts for check in self.checks)

    def of(self, phase: str) -> list[ProofCheck]:
        return [check for check in self.checks if check.phase == phase]


@dataclass(frozen=True)
class ChangedValue:
    """One value that the run changed on the host: original, expected and actual value, and the value after the
    restore."""

    setting: str
    key: str
    original: str | None
    expected: str
    actual: str | None
    restored: str | None
    state: str


@dataclass(frozen=True)
class Proven:
    """One setting of the run."""

    name: str
    expected: Any
    status: str
    sentence: str
    subjects: list[ProofSubject]

    @property
    def is_data(self) -> bool:
        return self.name == DATA

    @property
    def label(self) -> str:
        return LABELS[self.status]


@dataclass(frozen=True)
class ProofReport:
    """The result for the run: that of its worst setting."""

    status: str
    sentence: str
    settings: list[Proven]
    changes: list[ChangedValue] = field(default_factory=list)

    @property
    def label(self) -> str:
        return LABELS[self.status]


def report(
    settings_of_spec: Mapping[str, Any],
    proofs: Iterable[Mapping[str, Any]],
    writes: Iterable[Mapping[str, Any]],
    ended: bool,
    failed: Mapping[str, Mapping[str, Any]] | None = None,
) -> ProofReport:
    """Return the report. `settings_of_spec`: the settings of the run. `proofs`, `writes`: data of its events, in
    order. `failed`: the error that ended the run, by the setting that was not in effect."""
    every = list(proofs)
    changes = _changes(list(writes), [proof for proof in every if proof["phase"] == "restored"], ended)
    names = [*settings_of_spec, *(proof["setting"] for proof in every if proof["phase"] in MEASURED)]
    of_setting: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names}
    for proof in every:
        of_setting.get(proof["setting"], []).append(proof)
    settings = [_proven(name, settings_of_spec.get(name), own, changes, ended) for name, own in of_setting.items()]
    settings = [_blamed(setting, (failed or {}).get(setting.name)) for setting in settings]
    worst = (INCONSISTENT, DRIFTED, NEVER, UNPROVEN)
    status = next((word for word in worst if any(setting.status == word for setting in settings)), HELD)
    data = [setting for setting in settings if setting.is_data]
    settings = [setting for setting in settings if not setting.is_data]
    if status == INCONSISTENT:
        sentence = data[0].sentence
    elif settings:
        sentence = " ".join([_sentence(status, settings, ended), *map(_consistent, data)])
    else:
        status = HELD if data else NOTHING
        sentence = " ".join(["This run changes no setting: it uses the unchanged host.", *map(_consistent, data)])
    return ProofReport(status, sentence, [*settings, *data], changes)


def _consistent(data: Proven) -> str:
    count = len(data.subjects)
    return f"The data were consistent after the load: {count} {'condition' if count == 1 else 'conditions'} checked."


def _blamed(setting: Proven, error: Mapping[str, Any] | None) -> Proven:
    """Return a setting that was never in effect, because the run ended before any proof; the error of the run has
    the reason."""
    return setting if error is None or setting.status != UNPROVEN else replace(setting, status=NEVER, sentence="")


def _sentence(status: str, settings: list[Proven], ended: bool) -> str:
    bad = [setting for setting in settings if setting.status == status]
    names = ", ".join(setting.name for setting in bad)
    if status == HELD:
        check_count = sum(len(subject.checks) for setting in settings for subject in setting.subjects)
        so_far = "" if ended else " so far"
        many = f"All {len(settings)} settings were" if len(settings) > 1 else f"{names} was"
        in_checks = f" in {'both' if check_count == 2 else f'all {check_count}'} checks" if check_count > 1 else ""
        return f"{many} in effect{so_far}{in_checks}."
    if status == UNPROVEN:
        return f"Not verified{'' if ended else ' yet'}: {names}."
    if status == DRIFTED:
        return f"{names} changed during the run, so the run does not count. {bad[0].sentence}"
    return f"{names} {'was' if len(bad) == 1 else 'were'} never in effect. {bad[0].sentence}".rstrip()


def _proven(
    name: str, expected: Any, proofs: list[Mapping[str, Any]], changes: list[ChangedValue], ended: bool
) -> Proven:
    by_subject: dict[str, list[ProofCheck]] = {}
    for proof in proofs:
        if proof["phase"] in MEASURED:
            fields = {key: proof[key] for key in ("phase", "subject", "ok")}
            check = ProofCheck(
                **fields, expected=proof["wanted"], actual=proof["found"], evidence=proof.get("evidence") or {}
            )
            by_subject.setdefault(check.subject, []).append(check)
    subjects = [ProofSubject(subject, checks) for subject, checks in by_subject.items()]
    if name == DATA:
        status, sentence = _status_of_data(subjects)
    else:
        status, sentence = _status(subjects, [change for change in changes if change.setting == name], ended)
    return Proven(name, expected, status, sentence, subjects)


def _status(subjects: list[ProofSubject], changes: list[ChangedValue], ended: bool) -> tuple[str, str]:
    checks = [check for subject in subjects for check in subject.checks]
    failed = [check for check in checks if not check.ok]
    refused = [change for change in changes if change.actual != change.expected]
    if failed:
        before = [check for check in checks if check.phase == "before"]
        held_before = bool(before) and all(check.ok for check in before)
        return (DRIFTED if held_before else NEVER), _failure_sentence(failed[0], before)
    if refused:
        return NEVER, f"{refused[0].key} is {refused[0].actual} instead of {refused[0].expected}."
    if not checks:
        return UNPROVEN, "The run ended before verification." if ended else "Not verified yet."
    return HELD, ""


def _status_of_data(subjects: list[ProofSubject]) -> tuple[str, str]:
    """Return the status of a data set's conditions, which are checked once, after the load."""
    broken = [check for subject in subjects for check in subject.checks if not check.ok]
    if not broken:
        return HELD, ""
    return INCONSISTENT, f"The data were inconsistent after the load: {broken[0].subject}: {broken[0].actual}."


def _failure_sentence(bad: ProofCheck, before: list[ProofCheck]) -> str:
    """Return what changed since before the measurement; the expected value if the subject was not verified before."""
    was = next((check.actual for check in before if check.subject == bad.subject and check is not bad), None)
    if was is not None:
        return f"{bad.subject} was {was} before the measurement and {bad.actual} {bad.phase} it."
    return f"{bad.subject} should have been {bad.expected} but was {bad.actual} {bad.phase} the measurement."


def _changes(writes: list[Mapping[str, Any]], restored: list[Mapping[str, Any]], ended: bool) -> list[ChangedValue]:
    """Return the journal: each write with the proof of its restore. Values that the kernel changed along only have
    the latter."""
    back = {proof["subject"]: proof for proof in restored}
    known = {write["key"] for write in writes}
    along = [
        {"setting": each["setting"], "key": key, "original": each["wanted"], "wanted": None, "found": None}
        for key, each in back.items()
        if key not in known
    ]
    return [_change(write, back.get(write["key"]), ended) for write in (*writes, *along)]


def _change(write: Mapping[str, Any], back: Mapping[str, Any] | None, ended: bool) -> ChangedValue:
    taken = bool(back and (back.get("evidence") or {}).get("conflict"))
    state = LEFT if taken else PUT_BACK if back and back["ok"] else NOT_BACK if back or ended else OPEN
    return ChangedValue(
        setting=write["setting"],
        key=write["key"],
        original=write["original"],
        expected=write["wanted"],
        actual=write["found"],
        restored=back["found"] if back else None,
        state=state,
    )
