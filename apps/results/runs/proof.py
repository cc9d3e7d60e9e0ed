"""Whether what a run asked for was in effect, and whether the host is as before: from its events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from apps.results.runs.evidence import Part, parts

MEASURED = ("before", "during", "after")
HELD, DRIFTED, NEVER, UNPROVEN, NOTHING = "held", "drifted", "not_in_effect", "unproven", "nothing"
INCONSISTENT = "inconsistent"
DATA = "dataset"  # the name under which the agent reports the conditions of a data set, which is no setting
WORDS = {
    HELD: "proven",
    DRIFTED: "changed during the run",
    NEVER: "never in effect",
    UNPROVEN: "not verified",
    NOTHING: "no settings",
    INCONSISTENT: "inconsistent data",
}
PUT_BACK, LEFT, NOT_BACK, OPEN = "put_back", "left_alone", "not_put_back", "open"


@dataclass(frozen=True)
class Look:
    """One proof: what was found, and where it was read."""

    phase: str
    subject: str
    wanted: Any
    found: Any
    ok: bool
    evidence: Mapping[str, Any]

    @property
    def source(self) -> str:
        return str(self.evidence.get("source", ""))

    @property
    def parts(self) -> list[Part]:
        return parts(self.evidence)


@dataclass(frozen=True)
class Subject:
    """What was looked at, such as a process or a parameter, in each phase."""

    name: str
    looks: list[Look]

    @property
    def wanted(self) -> Any:
        return self.looks[0].wanted

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(look.source for look in self.looks if look.source))

    @property
    def cells(self) -> list[list[Look]]:
        """By phase, each value once: the last look at it has the most to show."""
        return [list({str(look.found): look for look in self.of(phase)}.values()) for phase in MEASURED]

    @property
    def shown(self) -> list[Look]:
        return [look for looks in self.cells for look in looks]

    @property
    def has_parts(self) -> bool:
        """Whether there is more to see than where it was read."""
        return any(look.parts for look in self.looks)

    def of(self, phase: str) -> list[Look]:
        return [look for look in self.looks if look.phase == phase]


@dataclass(frozen=True)
class Change:
    """One value that the run changed on the host: original -> wanted -> found, and what is there since."""

    setting: str
    key: str
    original: str | None
    wanted: str
    found: str | None
    restored: str | None
    state: str


@dataclass(frozen=True)
class Proven:
    """One setting of the run."""

    name: str
    wanted: Any
    status: str
    sentence: str
    subjects: list[Subject]

    @property
    def is_data(self) -> bool:
        return self.name == DATA

    @property
    def words(self) -> str:
        return WORDS[self.status]


@dataclass(frozen=True)
class Report:
    """The run as a whole: the worst of its settings decides."""

    status: str
    sentence: str
    settings: list[Proven]
    changes: list[Change] = field(default_factory=list)

    @property
    def words(self) -> str:
        return WORDS[self.status]


def report(
    asked: Mapping[str, Any],
    proofs: Iterable[Mapping[str, Any]],
    writes: Iterable[Mapping[str, Any]],
    ended: bool,
    failed: Mapping[str, Mapping[str, Any]] | None = None,
) -> Report:
    """`asked` are the settings of the spec; proofs and writes the data of its events, in order; `failed` the error that
    ended the run, by the setting that was not in effect."""
    every = list(proofs)
    changes = _changes(list(writes), [each for each in every if each["phase"] == "restored"], ended)
    names = [*asked, *(each["setting"] for each in every if each["phase"] in MEASURED)]
    of_setting: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names}
    for each in every:
        of_setting.get(each["setting"], []).append(each)
    settings = [_proven(name, asked.get(name), found, changes, ended) for name, found in of_setting.items()]
    settings = [_blamed(each, (failed or {}).get(each.name)) for each in settings]
    worst = (INCONSISTENT, DRIFTED, NEVER, UNPROVEN)
    status = next((word for word in worst if any(each.status == word for each in settings)), HELD)
    data = [each for each in settings if each.is_data]
    settings = [each for each in settings if not each.is_data]
    if status == INCONSISTENT:
        sentence = data[0].sentence
    elif settings:
        sentence = " ".join([_sentence(status, settings, ended), *map(_consistent, data)])
    else:
        status = HELD if data else NOTHING
        sentence = " ".join(["This run changes no setting: it uses the host as it is.", *map(_consistent, data)])
    return Report(status, sentence, [*settings, *data], changes)


def _consistent(data: Proven) -> str:
    count = len(data.subjects)
    return f"The data were consistent after the load: {count} {'condition' if count == 1 else 'conditions'} checked."


def _blamed(setting: Proven, error: Mapping[str, Any] | None) -> Proven:
    """Never in effect, where the run ended because of that before any check; the error of the run says why."""
    return setting if error is None or setting.status != UNPROVEN else replace(setting, status=NEVER, sentence="")


def _sentence(status: str, settings: list[Proven], ended: bool) -> str:
    bad = [each for each in settings if each.status == status]
    names = ", ".join(each.name for each in bad)
    if status == HELD:
        looks = sum(len(subject.looks) for each in settings for subject in each.subjects)
        so_far = "" if ended else " so far"
        many = f"All {len(settings)} settings were" if len(settings) > 1 else f"{names} was"
        checks = f" in {'both' if looks == 2 else f'all {looks}'} checks" if looks > 1 else ""
        return f"{many} in effect{so_far}{checks}."
    if status == UNPROVEN:
        return f"Not verified{'' if ended else ' yet'}: {names}."
    if status == DRIFTED:
        return f"{names} changed during the run, so the run does not count. {bad[0].sentence}"
    return f"{names} {'was' if len(bad) == 1 else 'were'} never in effect. {bad[0].sentence}".rstrip()


def _proven(name: str, wanted: Any, proofs: list[Mapping[str, Any]], changes: list[Change], ended: bool) -> Proven:
    found: dict[str, list[Look]] = {}
    for each in proofs:
        if each["phase"] in MEASURED:
            seen = {key: each[key] for key in ("phase", "subject", "wanted", "found", "ok")}
            look = Look(**seen, evidence=each.get("evidence") or {})
            found.setdefault(look.subject, []).append(look)
    subjects = [Subject(subject, looks) for subject, looks in found.items()]
    if name == DATA:
        status, sentence = _status_of_data(subjects)
    else:
        status, sentence = _status(subjects, [change for change in changes if change.setting == name], ended)
    return Proven(name, wanted, status, sentence, subjects)


def _status(subjects: list[Subject], changes: list[Change], ended: bool) -> tuple[str, str]:
    looks = [look for subject in subjects for look in subject.looks]
    failed = [look for look in looks if not look.ok]
    refused = [change for change in changes if change.found != change.wanted]
    if failed:
        before = [look for look in looks if look.phase == "before"]
        held_before = bool(before) and all(look.ok for look in before)
        return (DRIFTED if held_before else NEVER), _told(failed[0], before)
    if refused:
        return NEVER, f"{refused[0].key} is {refused[0].found} instead of {refused[0].wanted}."
    if not looks:
        return UNPROVEN, "The run ended before verification." if ended else "Not verified yet."
    return HELD, ""


def _status_of_data(subjects: list[Subject]) -> tuple[str, str]:
    """Conditions are checked once, after the load."""
    broken = [look for subject in subjects for look in subject.looks if not look.ok]
    if not broken:
        return HELD, ""
    return INCONSISTENT, f"The data were inconsistent after the load: {broken[0].subject}: {broken[0].found}."


def _told(bad: Look, before: list[Look]) -> str:
    """What changed since before the measurement; or what was wanted, where the subject was not verified before."""
    was = next((look.found for look in before if look.subject == bad.subject and look is not bad), None)
    if was is not None:
        return f"{bad.subject} was {was} before the measurement and {bad.found} {bad.phase} it."
    return f"{bad.subject} should have been {bad.wanted} but was {bad.found} {bad.phase} the measurement."


def _changes(writes: list[Mapping[str, Any]], restored: list[Mapping[str, Any]], ended: bool) -> list[Change]:
    """The journal: each write with the proof of its restore; what the kernel changed along has only the latter."""
    back = {each["subject"]: each for each in restored}
    known = {write["key"] for write in writes}
    along = [
        {"setting": each["setting"], "key": key, "original": each["wanted"], "wanted": None, "found": None}
        for key, each in back.items()
        if key not in known
    ]
    return [_change(write, back.get(write["key"]), ended) for write in (*writes, *along)]


def _change(write: Mapping[str, Any], back: Mapping[str, Any] | None, ended: bool) -> Change:
    taken = bool(back and (back.get("evidence") or {}).get("conflict"))
    state = LEFT if taken else PUT_BACK if back and back["ok"] else NOT_BACK if back or ended else OPEN
    told = {name: write[name] for name in ("setting", "key", "original", "wanted", "found")}
    return Change(**told, restored=back["found"] if back else None, state=state)
