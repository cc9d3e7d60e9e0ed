"""The data set of a run: that of the campaign, or the one that its steps need. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from agents.datasets import DATASETS, RESETS
from agents.errors import Unplannable
from agents.run.planning import plan_dataset
from agents.workloads import WORKLOADS
from apps.campaigns.design.steps import Step
from apps.tuning import rules
from common.errors import PlanError
from common.wording import counted

PGBENCH = "pgbench"
ROOT = "dataset."
# Assumed speed of creating data on hosts without earlier runs, in bytes per second.
PACE = 100e6
ROWS_PER_SCALE = 100_000  # of pgbench_accounts

DatasetSpec = dict[str, Any]


def check(kind: str, options: Mapping[str, Any], reset: str = "auto") -> None:
    """Raise PlanError with the option that the kind does not accept."""
    if kind not in DATASETS:
        raise PlanError("kind", f"{kind!r} does not create a data set", hint="one of " + ", ".join(DATASETS))
    if reset not in RESETS:
        raise PlanError("reset", f"{reset!r} is not a reset policy", hint="one of " + ", ".join(RESETS))
    rules.check_schema("options", options, DATASETS[kind].schema)
    try:
        plan_dataset({"dataset": {"kind": kind, "options": options}, "target": {"kind": "private"}, "steps": []})
    except Unplannable as error:
        field = error.field.replace("dataset", "options", 1)
        raise PlanError(field, f"{error.value!r} is not accepted", hint=error.accepted) from error


def required_dataset(steps: Sequence[Step]) -> tuple[str, str]:
    """(kind of data set, step) of the first step that requires a kind of data set; ("", "") if none does."""
    required = ((WORKLOADS[step["kind"]].dataset, step["name"]) for step in steps if step["kind"] in WORKLOADS)
    return next((each for each in required if each[0]), ("", ""))


def default_kind(steps: Sequence[Step]) -> str:
    """The kind of data set for these steps if the campaign names none; "" if they need none."""
    pgbench = any(step["kind"] == PGBENCH for step in steps)
    return required_dataset(steps)[0] or (PGBENCH if pgbench else "")


def derived(steps: Sequence[Step]) -> DatasetSpec | None:
    """The data set for these steps if the campaign names none: the default one of the kind that they require, or
    pgbench's tables of their scale."""
    kind, _ = required_dataset(steps)
    if kind:
        return {"name": f"{kind} default", "kind": kind, "options": {}, "reset": "auto"}
    scales = {step["options"].get("scale", 1) for step in steps if step["kind"] == PGBENCH}
    if len(scales) > 1:
        listed = ", ".join(map(str, sorted(scales)))
        raise PlanError(
            "steps", f"the levels need data of different scales: {listed}", hint="use one scale, or choose a data set"
        )
    if not scales:
        return None
    scale = scales.pop()
    return {"name": f"pgbench scale {scale}", "kind": PGBENCH, "options": {"scale": scale}, "reset": "auto"}


def resolve(
    own: DatasetSpec | None, steps: Sequence[Step], changes: Mapping[str, Any], touched: Sequence[str]
) -> tuple[DatasetSpec | None, list[Step]]:
    """Return the data set after the dataset.<option> of `changes`, and the steps, whose scripts get its scale.

    `touched`: paths that factors set in the steps."""
    dataset = copy.deepcopy(own) if own else derived(steps)
    _check_kind(dataset, steps)
    if dataset is None and changes:
        raise PlanError(next(iter(changes)), "this campaign has no data set", hint="name one")
    if own and own["kind"] == PGBENCH:
        scale = next((path for path in touched if path.endswith(".scale")), "")
        if scale:
            raise PlanError(scale, "the data set defines the scale", hint="set dataset.scale")
    for path, value in changes.items():
        assert dataset is not None  # noqa: S101 - for the type checker
        dataset["options"] = rules.patch(dataset["options"], {path.removeprefix(ROOT): value})
    return dataset, _scaled(steps, dataset)


def _check_kind(dataset: DatasetSpec | None, steps: Sequence[Step]) -> None:
    kind, step = required_dataset(steps)
    if dataset and kind and dataset["kind"] != kind:
        problem = f"{dataset.get('name') or 'the data set'} is of kind {dataset['kind']}"
        hint = f"step {step} requires kind {kind}: choose such a data set, or none for the default"
        raise PlanError("dataset", problem, hint=hint)


def _scaled(steps: Sequence[Step], dataset: DatasetSpec | None) -> list[Step]:
    """pgbench finds the scale of its own tables by itself, except for custom scripts, which need it as an option."""
    if dataset is None or dataset["kind"] != PGBENCH:
        return list(steps)
    scale = dataset["options"].get("scale", 1)
    return [_of_scale(step, scale) if step["kind"] == PGBENCH else step for step in steps]


def _of_scale(step: Step, scale: Any) -> Step:
    same = step["options"].get("scale", 1) == scale
    return step if same else {**step, "options": {**step["options"], "scale": scale}}


def brief(kind: str, options: Mapping[str, Any]) -> str:
    """Return a short description: "pgbench, scale 10, fillfactor 90" or "SQL, 3 steps"."""
    parts = [name if value is True else f"{name} {value}" for name, value in options.items() if _is_shown(value)]
    if isinstance(options.get("steps"), list):
        parts.append(counted(len(options["steps"]), "step"))
    return ", ".join([DATASETS[kind].title, *parts])


def _is_shown(value: Any) -> bool:
    return isinstance(value, str | int) and value is not False


def bytes_per_warehouse() -> int:
    """Return the bytes of a warehouse of kind tpcc, with indexes, without the table of items that all warehouses
    share."""
    tpcc = DATASETS["tpcc"]
    return tpcc.bytes({"warehouses": 2}) - tpcc.bytes({"warehouses": 1})


def bytes_per_row() -> float:
    """Return the bytes of a row of pgbench_accounts, with its share of the index."""
    return DATASETS[PGBENCH].bytes({"scale": 1}) / ROWS_PER_SCALE


def table_bytes(scale: int) -> int:
    """Return the bytes of pgbench_accounts without its index."""
    return DATASETS[PGBENCH].bytes({"scale": scale, "init_steps": "dtg"})


def seconds(dataset: DatasetSpec | None) -> float:
    """Return the assumed seconds to create the data set."""
    return DATASETS[dataset["kind"]].bytes(dataset["options"]) / PACE if dataset else 0.0
