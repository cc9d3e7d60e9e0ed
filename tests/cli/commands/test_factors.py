"""The option --set and the factors of a recipe."""

from __future__ import annotations

from typing import Any

import pytest

from proving.errors import UsageError
from proving.factors import applied, levels

CPUS = {
    "name": "server cpus",
    "levels": [{"label": f"{n} cpu", "set": {"settings.cpu_affinity.server": f"0-{n - 1}"}} for n in (1, 2)],
}
PAGES = {
    "name": "huge pages",
    "levels": [
        {"label": "off", "set": {"settings.huge_pages.use": "off"}},
        {"label": "on", "set": {"settings.huge_pages.use": "on", "settings.huge_pages.pool": "auto"}},
    ],
}
NONE = {"name": "change", "levels": [{"label": "none", "set": {}}]}


def labels(factors: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {factor["name"]: [level["label"] for level in factor["levels"]] for factor in factors}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a,b", ["a", "b"]), (" a , b ", ["a", "b"]), ('"0,1",0', ["0,1", "0"]), ("", []), (",,", [])],
)
def test_levels_are_separated_by_commas(text: str, expected: list[str]) -> None:
    assert levels(text) == expected


def test_labels_choose_and_order_levels_of_the_recipe() -> None:
    assert labels(applied([CPUS, PAGES], ["huge pages=on,off"])) == {
        "server cpus": ["1 cpu", "2 cpu"],
        "huge pages": ["on", "off"],
    }


def test_a_factor_of_one_path_takes_further_values() -> None:
    (factor,) = applied([CPUS], ["server cpus=1 cpu,0-7"])

    assert factor["levels"][1] == {"label": "0-7", "set": {"settings.cpu_affinity.server": "0-7"}}


def test_a_factor_of_several_paths_takes_its_own_labels_only() -> None:
    with pytest.raises(UsageError) as refused:
        applied([PAGES], ["huge pages=on,maybe"])

    assert (refused.value.value, refused.value.accepted) == ("maybe", "one of: off, on")


@pytest.mark.parametrize(("factors", "names"), [([CPUS], ["server cpus", "work_mem"]), ([NONE], ["work_mem"])], ids=str)
def test_a_path_is_a_factor_beside_the_others_and_in_the_place_of_one_that_sets_nothing(
    factors: Any, names: Any
) -> None:
    applied_factors = applied(factors, ["settings.postgresql.work_mem=4MB,64MB"])

    assert [applied_factor["name"] for applied_factor in applied_factors] == names


def test_a_path_takes_the_place_of_the_factor_that_varies_it() -> None:
    assert labels(applied([CPUS], ["settings.cpu_affinity.server=0,1"])) == {"server": ["0", "1"]}


def test_one_value_of_a_path_holds_in_every_run() -> None:
    cpus, pages = applied([CPUS, PAGES], ["workload.time_s=60"])

    assert [level["set"]["workload.time_s"] for level in cpus["levels"]] == [60, 60]
    assert pages == PAGES


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("workload.clients", "8", 8),
        ("workload.rate", "1.5", 1.5),
        ("workload.log", "true", True),
        ("workload.builtin", "select-only", "select-only"),
        ("settings.postgresql.max_connections", "200", "200"),
    ],
)
def test_numbers_are_parsed_but_keywords_of_postgresql_remain_text(path: str, text: str, value: Any) -> None:
    (factor,) = applied([NONE], [f"{path}={text}"])

    assert factor["levels"][0]["set"] == {path: value}


@pytest.mark.parametrize("option", ["", "server cpus", "server cpus=", "gpus=1,2", "settings=1,2"])
def test_an_option_without_a_known_factor_or_a_level_is_refused(option: str) -> None:
    with pytest.raises(UsageError) as refused:
        applied([CPUS], [option])

    assert (refused.value.field, refused.value.value) == ("--set", option)
