"""The summary of a run's proofs: in effect, drifted, never in effect, not verified; and its journal."""

from __future__ import annotations

from typing import Any

import pytest

from apps.results.runs import proof
from apps.results.runs.evidence import parts

THP = {"transparent_huge_pages": {"enabled": "never"}}
WRITE = {"setting": "sysctl", "key": "/proc/sys/vm/swappiness", "original": "60", "wanted": "1", "found": "1"}


def proof_of(phase: str, actual: str, subject: str = "enabled", **more: Any) -> dict[str, Any]:
    event = {"setting": "transparent_huge_pages", "phase": phase, "subject": subject, "wanted": "never"}
    return {**event, "found": actual, "ok": actual == "never", "evidence": {"source": "/sys/x"}, **more}


def restored(actual: str, *, conflict: bool = False) -> dict[str, Any]:
    event = {"setting": "sysctl", "phase": "restored", "subject": WRITE["key"], "wanted": "60", "found": actual}
    return {**event, "ok": actual == "60", "evidence": {"conflict": conflict, "problems": []}}


@pytest.mark.parametrize(
    ("proofs", "status", "sentence"),
    [
        ([proof_of("before", "never"), proof_of("after", "never")], "held", "was in effect in both checks"),
        (
            [proof_of("before", "always")],
            "not_in_effect",
            "enabled should have been never but was always before the measurement",
        ),
        (
            [proof_of("before", "never"), proof_of("after", "always")],
            "drifted",
            "enabled was never before the measurement and always after it",
        ),
        (
            [proof_of("before", "never"), proof_of("during", "always", "backend")],
            "drifted",
            "does not count. backend should have been never but was always during the measurement",
        ),
        ([], "unproven", "Not verified: transparent_huge_pages"),
    ],
)
def test_a_drift_is_distinguished_from_a_setting_that_was_never_in_effect(
    proofs: list[Any], status: str, sentence: str
) -> None:
    report = proof.report(THP, proofs, [], ended=True)

    assert report.status == status
    assert sentence in report.sentence


def of_data(violations: str, condition: str = "condition 1") -> dict[str, Any]:
    event = {"setting": "dataset", "phase": "after", "subject": condition, "wanted": "no violations"}
    return {**event, "found": violations, "ok": violations == "no violations", "evidence": {"source": "SQL"}}


def test_consistent_data_are_reported_beside_the_settings() -> None:
    proofs = [proof_of("before", "never"), proof_of("after", "never"), of_data("no violations")]

    report = proof.report(THP, proofs, [], ended=True)

    assert report.status == "held"
    assert report.sentence == (
        "transparent_huge_pages was in effect in both checks. "
        "The data were consistent after the load: 1 condition checked."
    )


def test_consistent_data_of_a_run_without_settings_are_proven() -> None:
    report = proof.report({}, [of_data("no violations"), of_data("no violations", "condition 2")], [], ended=True)

    assert report.status == "held"
    assert report.sentence.endswith("The data were consistent after the load: 2 conditions checked.")


def test_inconsistent_data_are_no_setting_that_was_never_in_effect() -> None:
    report = proof.report(THP, [proof_of("before", "never"), of_data("3 violations")], [], ended=True)

    assert (report.status, report.label) == ("inconsistent", "inconsistent data")
    assert report.sentence == "The data were inconsistent after the load: condition 1: 3 violations."


def test_a_write_that_the_kernel_ignored_was_never_in_effect_though_no_check_followed() -> None:
    write = {**WRITE, "setting": "transparent_huge_pages", "found": "60"}

    report = proof.report(THP, [], [write], ended=True)

    assert (report.status, report.settings[0].sentence) == (
        "not_in_effect",
        "/proc/sys/vm/swappiness is 60 instead of 1.",
    )


def test_a_setting_that_ended_the_run_was_never_in_effect_though_no_check_followed() -> None:
    requested = {"huge_pages": {"use": "on"}, **THP}
    failed = {"huge_pages": {"setting": "huge_pages", "wanted": "900 pages of 2048 kB", "found": "0 pages"}}

    report = proof.report(requested, [], [], ended=True, failed=failed)

    assert [each.status for each in report.settings] == ["not_in_effect", "unproven"]
    assert report.sentence == "huge_pages was never in effect."


def test_the_worst_setting_decides_and_is_named() -> None:
    held = proof_of("before", "0-3", setting="cpu_affinity", wanted="0-3", ok=True)

    report = proof.report({"cpu_affinity": {}, **THP}, [held, proof_of("before", "always")], [], ended=True)

    assert report.status == "not_in_effect"
    assert [each.status for each in report.settings] == ["held", "not_in_effect"]
    assert report.sentence.startswith("transparent_huge_pages was never in effect.")


def test_a_value_that_was_only_restored_need_not_be_in_effect() -> None:
    assert proof.report(THP, [proof_of("before", "never"), restored("60")], [], ended=True).status == "held"


def test_a_run_without_settings_has_no_proofs() -> None:
    assert proof.report({}, [], [], ended=True).status == "nothing"


@pytest.mark.parametrize(
    ("back", "ended", "state"),
    [
        (restored("60"), True, "put_back"),
        (restored("10", conflict=True), True, "left_alone"),
        (restored("1"), True, "not_put_back"),
        (None, True, "not_put_back"),
        (None, False, "open"),
    ],
)
def test_each_change_has_the_state_of_its_restore(back: dict[str, Any] | None, ended: bool, state: str) -> None:
    (change,) = proof.report({}, [back] if back else [], [WRITE], ended=ended).changes

    assert change.state == state
    assert (change.original, change.expected, change.actual) == ("60", "1", "1")


def test_a_value_that_the_kernel_changed_with_another_is_a_change_as_well() -> None:
    along = {**restored("20"), "subject": "/proc/sys/vm/dirty_ratio", "wanted": "20", "ok": True}

    changes = proof.report({}, [restored("60"), along], [WRITE], ended=True).changes

    assert [(change.key, change.expected, change.state) for change in changes] == [
        ("/proc/sys/vm/swappiness", "1", "put_back"),
        ("/proc/sys/vm/dirty_ratio", None, "put_back"),
    ]


def test_a_phase_shows_each_value_once_with_its_last_check() -> None:
    first, last = proof_of("during", "never"), proof_of("during", "never", evidence={"processes": [1]})

    (subject,) = proof.report(THP, [first, last, proof_of("during", "always")], [], ended=True).settings[0].subjects

    before, during, after = subject.cells
    assert [each.actual for each in during] == ["never", "always"]
    assert during[0].evidence == {"processes": [1]}
    assert (before, after) == ([], [])


@pytest.mark.parametrize(
    ("evidence", "name", "head", "rows", "unit"),
    [
        (
            {"processes": [{"pid": 1, "last_cpu": 3}, {"pid": 2, "cpus": "0"}]},
            "processes",
            ["pid", "last cpu", "cpus"],
            [[1, 3, None], [2, None, "0"]],
            "",
        ),
        (
            {"kb_per_node": {"shared": {"10": 5, "2": 7}, "private": {"2": 1}}},
            "kb per node",
            ["", "node 2", "node 10"],
            [["shared", 7, 5], ["private", 1, None]],
            "kB",
        ),
        ({"cpu_s": {"0": 1.5, "1": 0.1}}, "cpu s", ["cpu 0", "cpu 1"], [[1.5, 0.1]], ""),
        ({"pid": 7, "source": "/proc"}, "", ["what", "value"], [["pid", 7]], ""),
        ({"row": {"unit": "8kB", "setting": "1"}}, "row", ["what", "value"], [["unit", "8kB"], ["setting", "1"]], ""),
    ],
)
def test_evidence_becomes_tables(evidence: Any, name: str, head: list[str], rows: list[Any], unit: str) -> None:
    (part,) = parts(evidence)

    assert (part.name, part.head, part.rows, part.unit) == (name, head, rows, unit)


def test_evidence_of_any_other_shape_is_shown_as_it_is() -> None:
    (part,) = parts({"deep": {"a": {"b": {"c": 1}}}})

    assert '"c": 1' in part.text


def test_a_thousand_processes_are_cut_and_counted() -> None:
    (part,) = parts({"processes": [{"pid": n} for n in range(1000)]})

    assert (len(part.rows), part.more) == (200, 800)
