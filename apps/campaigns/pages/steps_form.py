"""The form of a workload: its name and its steps in order, each with the options of its tool.

Fields are named steps.<position>.name, .role, .kind and .options.<option>."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import QueryDict

from agents.wire.protocol import MEASURE, ROLES
from agents.workloads import WORKLOADS
from apps.accounts.forms import OfTeam
from apps.campaigns.design.steps import Step, single
from apps.campaigns.library.scripts import Complaint
from apps.request_values import whole
from apps.tuning import fields
from apps.web.pages import blame
from common.errors import PlanError

ABOUT_ROLES = "prepare, warm and cool are also recorded; only measured steps yield results"


@dataclass(frozen=True)
class StepFields:
    """One step of the form for its template."""

    place: int
    kind: str
    name: forms.BoundField
    role: forms.BoundField
    options: list[forms.BoundField]
    tracer: list[forms.BoundField]

    @property
    def title(self) -> str:
        return f"{self.name.value()}: {self.kind}"

    @property
    def help(self) -> str:
        return WORKLOADS[self.kind].help

    @property
    def wrong(self) -> bool:
        return any(field.errors for field in (self.name, self.role, *self.options, *self.tracer))

    @property
    def traced(self) -> bool:
        return any(field.value() not in (None, "") or field.errors for field in self.tracer)

    @property
    def brief(self) -> str:
        """The options that are set, in one line."""
        filled = [(field.label, field.value()) for field in (*self.options, *self.tracer) if field.value()]
        return ", ".join(f"{label}: {_short(value)}" for label, value in filled) or "all defaults of the tool"


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 40 else f"{text[:39]}…"


class WorkloadForm(OfTeam):
    """A workload with these steps, as saved or as entered."""

    name = forms.CharField(max_length=63, help_text="an existing name gets its next revision")
    description = forms.CharField(required=False, max_length=500)

    def __init__(self, data: Any, *, steps: Sequence[Step], initial: Mapping[str, Any] | None = None) -> None:
        self.kinds = [step["kind"] for step in steps]
        shown = dict(initial or {})
        for place, step in enumerate(steps):
            schema = WORKLOADS[step["kind"]].schema
            shown |= {f"steps.{place}.{key}": step[key] for key in ("name", "role")}
            shown |= fields.initial_values(f"steps.{place}.options", step["options"], schema)
        super().__init__(data, initial=shown)
        for place, kind in enumerate(self.kinds):
            self._add_step(place, kind)

    def _add_step(self, place: int, kind: str) -> None:
        path, schema = f"steps.{place}", WORKLOADS[kind].schema
        self.fields[f"{path}.name"] = forms.CharField(max_length=40, label="Step", help_text="a-z, 0-9, _ and -")
        self.fields[f"{path}.role"] = forms.ChoiceField(choices=[(role, role) for role in ROLES], label="Role")
        self.fields.update(dict(fields.build(f"{path}.options", schema, tuple(schema.get("required", ())))))

    @property
    def has_scripts(self) -> bool:
        """Whether there are fields with scripts, which the tools of a host can check."""
        return any("data-language" in field.widget.attrs for field in self.fields.values())

    @property
    def parts(self) -> list[StepFields]:
        return [self._part(place, kind) for place, kind in enumerate(self.kinds)]

    def _part(self, place: int, kind: str) -> StepFields:
        path = f"steps.{place}"
        own = [self[name] for name in self.fields if name.startswith(f"{path}.options")]
        tracer = [field for field in own if field.name.startswith(f"{path}.options.tracer")]
        options = [field for field in own if field not in tracer]
        return StepFields(place, kind, self[f"{path}.name"], self[f"{path}.role"], options, tracer)

    def steps(self) -> list[Step]:
        """Return the steps as entered. PlanError if lines or JSON cannot be parsed."""
        return [self._step(place, kind) for place, kind in enumerate(self.kinds)]

    def _step(self, place: int, kind: str) -> Step:
        path, typed = f"steps.{place}", self.cleaned_data
        options = fields.read(f"{path}.options", WORKLOADS[kind].schema, typed)
        return {"name": typed[f"{path}.name"], "role": typed[f"{path}.role"], "kind": kind, "options": options}

    def blame(self, error: PlanError) -> None:
        """Add the error to its field, which it names as options.scale, steps.idx1.scale or steps.0.name."""
        root, _, rest = error.subject.partition(".")
        name, _, option = rest.partition(".")
        positions = {self.cleaned_data.get(f"steps.{place}.name"): place for place in range(len(self.kinds))}
        if root == "options":
            error.subject = f"steps.0.options.{rest}"
        elif root == "steps" and name in positions:
            error.subject = f"steps.{positions[name]}.options.{option}"
        blame(self, error)

    def complain(self, complaints: Iterable[Complaint]) -> None:
        """Add the complaints of a tool to the fields of its scripts, with line numbers of these fields."""
        for complaint in complaints:
            place = next(place for place in range(len(self.kinds)) if self._name(place) == complaint.step)
            path = f"steps.{place}.options"
            field = f"{path}.scripts" if self.cleaned_data.get(f"{path}.scripts") else f"{path}.script"
            if not complaint.script or field not in self.fields:
                self.add_error(f"steps.{place}.name", complaint.message)
            else:
                self.add_error(field, _at_line(complaint, self.cleaned_data.get(field, ""), field.endswith("scripts")))

    def _name(self, place: int) -> str:
        return str(self.cleaned_data.get(f"steps.{place}.name"))


def _at_line(complaint: Complaint, text: str, several: bool) -> str:
    """Return the tool's message with the line number in the field; editor.js marks that line."""
    if complaint.line is None:
        return complaint.tool_message
    line = fields.line_in_sections(text, complaint.script, complaint.line) if several else complaint.line
    return f"line {line}: {complaint.problem}"


def posted_kinds(posted: QueryDict) -> list[str]:
    """Return the tools of the steps in a posted form, in order."""
    numbers = sorted(int(match[1]) for name in posted if (match := re.fullmatch(r"steps\.([0-9]{1,3})\.kind", name)))
    return [kind for place in numbers if (kind := posted[f"steps.{place}.kind"]) in WORKLOADS]


def edited(posted: QueryDict) -> list[Step] | None:
    """Return the steps after a button was pressed: `add` a tool, `drop` or `up` a step. None without one.

    They are as entered, not validated."""
    kinds = posted_kinds(posted)
    steps = [_typed(posted, place, kind) for place, kind in enumerate(kinds)]
    added = str(posted.get("add", ""))
    if added in WORKLOADS:
        return [*steps, _fresh(added, {step["name"] for step in steps})]
    for button in ("drop", "up"):
        place = whole(str(posted.get(button, "")))
        if place is not None and place < len(steps):
            step = steps.pop(place)
            if button == "up":
                steps.insert(max(0, place - 1), step)
            return steps
    return None


def _typed(posted: QueryDict, place: int, kind: str) -> Step:
    path, schema = f"steps.{place}", WORKLOADS[kind].schema
    try:
        options = fields.read(f"{path}.options", schema, posted.dict())
    except PlanError:
        options = {}
    role = posted.get(f"{path}.role", MEASURE)
    return {"name": posted.get(f"{path}.name", ""), "role": role, "kind": kind, "options": options}


def _fresh(kind: str, taken: set[str]) -> Step:
    """Return a new step of that tool with an unused name."""
    names = [kind, *(f"{kind}{number}" for number in range(2, len(taken) + 3))]
    return {**single(kind, {})[0], "name": next(name for name in names if name not in taken)}
