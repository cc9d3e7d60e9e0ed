"""Every sample under tests/samples is read as its entry in expected.json declares.

Outcomes: `values` and `same_values` must be met; `..._or_error` may also end in FormatError; `error` must; what a
failed program printed (`error_described`) must be told as failure. The names in expected.json are the corpus's own:
the functions below translate ours into them, one per kind of output.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from apps.errors import FormatError
from apps.results.formats.fio import Direction, Latency, parse_fio, parse_fio_stderr
from apps.results.formats.pgbench import EXCLUDING, RECONNECTING, WITHOUT_INITIAL, Script, parse_summary
from apps.results.formats.pgbench_stderr import parse_init, parse_stderr

SAMPLES = Path(__file__).parents[1] / "samples"
EXPECTED: dict[str, dict[str, Any]] = json.loads((SAMPLES / "expected.json").read_text())
KINDS_OF_DEFINITION = {WITHOUT_INITIAL: "without_initial_connection", RECONNECTING: "including_reconnections"}


def summary_values(raw: bytes) -> dict[str, Any]:
    found = parse_summary(raw)
    values = {name: value for name, value in asdict(found).items() if name not in ("tps", "tps_definition", "scripts")}
    if found.tps_definition == EXCLUDING:
        values["tps_excluding"] = found.tps
    else:
        values |= {"tps": found.tps, "tps_kind": KINDS_OF_DEFINITION[found.tps_definition]}
    named = [script_values(one) for one in found.scripts if one.name]
    lone = script_values(found.scripts[0]) if found.scripts and not named else {}
    return values | {
        "complete": True,
        "scripts": named,
        "statements": lone.pop("statements", []),
        "script_block": lone,
        "script_statistics": bool(found.scripts) and not named,
    }


def script_values(script: Script) -> dict[str, Any]:
    values = told(asdict(script))
    if "statements" in values:
        values["statements"] = [told(statement) for statement in values["statements"]]
    return values


def told(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value != ()}


def progress_values(raw: bytes) -> dict[str, Any]:
    found = parse_stderr(raw)
    return {"progress": [told(asdict(one)) for one in found.progress], "other_lines": list(found.other_lines)}


def error_values(raw: bytes) -> dict[str, Any]:
    found = parse_stderr(raw)
    return {
        "aborted_clients": list(found.aborted_clients),
        "lines": list(found.other_lines),
        "run_aborted": found.run_aborted,
        "sql_errors": list(found.sql_errors),
    }


def init_values(raw: bytes) -> dict[str, Any]:
    found = asdict(parse_init(raw))
    steps = dict(found.pop("steps_s"))
    return found | {"steps": steps or None}


def fio_values(raw: bytes) -> dict[str, Any]:
    found = parse_fio(raw)
    jobs = [
        {"err": job.error, "groupid": job.groupid, "name": job.name}
        | {name: direction_values(one) for name, one in job.directions.items()}
        for job in found.jobs
    ]
    return {"version": found.version, "disks": list(found.disks), "jobs": jobs, "text_before": bool(found.other_lines)}


def direction_values(one: Direction) -> dict[str, Any]:
    percentiles = {f"{percentage:.2f}": ns for percentage, ns in one.clat.percentiles_ns} if one.clat else {}
    latencies = {f"{name}_ns": latency_values(getattr(one, name)) for name in ("slat", "clat", "lat")}
    names = ("bw_kib_s", "io_bytes", "iops", "runtime_ms", "total_ios")
    return {name: getattr(one, name) for name in names} | latencies | {"percentiles_ns": percentiles}


def latency_values(one: Latency | None) -> dict[str, Any]:
    # The corpus keeps the zeros that fio prints for a latency it did not measure.
    return {name: getattr(one, f"{name}_ns") if one else 0 for name in ("max", "mean", "min")}


def fio_failure_values(raw: bytes) -> dict[str, Any]:
    found = parse_fio(raw)
    return {"jobs": [{"err": job.error, "has_figures": bool(job.directions), "name": job.name} for job in found.jobs]}


READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "pgbench_stdout": summary_values,
    "pgbench_progress": progress_values,
    "pgbench_error": error_values,
    "pgbench_init": init_values,
    "fio_json": fio_values,
    "fio_mixed": fio_values,
    "fio_error": fio_failure_values,
    "fio_stderr": lambda raw: {"lines": list(parse_fio_stderr(raw))},
}


def expected_values(name: str) -> dict[str, Any]:
    """The values of an entry, following `same_as`; a name in `override` replaces, null there says "anything"."""
    entry = EXPECTED[name]
    values = dict(entry.get("expect") or (expected_values(entry["same_as"]) if "same_as" in entry else {}))
    for key, value in entry.get("override", {}).items():
        values.pop(key, None) if value is None else values.update({key: value})
    if entry.get("override_sql"):
        values["statements"] = [{**one} for one in values["statements"]]
        values["statements"][6]["sql"] = "SELECT 'tps = 1.0 (excluding connections establishing)';"
    return values


def assert_holds(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Every expected name is there with its value; a name expected as null may be absent."""
    for name, value in expected.items():
        got = found.get(name)
        if isinstance(value, dict) and isinstance(got, dict):
            assert_holds(got, value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            assert len(got) == len(value), name
            for one, wanted in zip(got, value, strict=True):
                assert_holds(one, wanted)
        else:
            assert got == (pytest.approx(value) if isinstance(value, float) else value), name


def names_with(*outcomes: str, kinds: tuple[str, ...] = tuple(READERS)) -> list[str]:
    return [name for name, entry in EXPECTED.items() if entry["outcome"] in outcomes and entry["kind"] in kinds]


def read(name: str) -> dict[str, Any]:
    return READERS[EXPECTED[name]["kind"]]((SAMPLES / name).read_bytes())


@pytest.mark.parametrize("name", names_with("values", "same_values"))
def test_a_whole_output_gives_the_values_it_prints(name: str) -> None:
    assert_holds(read(name), expected_values(name))


@pytest.mark.parametrize("name", names_with("same_values_or_error"))
def test_an_edited_output_gives_the_true_values_or_an_error(name: str) -> None:
    try:
        found = read(name)
    except FormatError as error:
        assert error.subject and error.message
    else:
        assert_holds(found, expected_values(name) | {"text_before": found.get("text_before")})


@pytest.mark.parametrize("name", names_with("error", "partial_or_error", "error_or_list"))
def test_an_output_that_is_not_one_whole_report_is_refused(name: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(name)

    assert caught.value.subject
    assert caught.value.message


@pytest.mark.parametrize("parse", [parse_summary, parse_init, parse_fio])
@pytest.mark.parametrize("name", names_with("error", kinds=("any",)))
def test_an_output_that_says_nothing_is_refused(name: str, parse: Callable[[bytes], object]) -> None:
    with pytest.raises(FormatError):
        parse((SAMPLES / name).read_bytes())


@pytest.mark.parametrize("name", names_with("error_described", kinds=("pgbench_error",)))
def test_the_stderr_of_a_failed_pgbench_gives_its_reasons(name: str) -> None:
    assert_holds(read(name), EXPECTED[name]["expect"])


@pytest.mark.parametrize("name", names_with("error_described", kinds=("fio_error",)))
def test_a_failed_fio_gives_the_error_of_each_job_or_no_report(name: str) -> None:
    if EXPECTED[name]["expect"]["json"]:
        assert_holds(read(name), {"jobs": EXPECTED[name]["expect"]["jobs"]})
    else:
        with pytest.raises(FormatError, match="no JSON document"):
            read(name)


def test_every_sample_has_a_test() -> None:
    listed = {path.name for path in SAMPLES.iterdir()} - {"expected.json", "README.md"}
    tested = names_with("values", "same_values", "same_values_or_error", "error", "partial_or_error", "error_or_list")
    tested += names_with("error_described", kinds=("pgbench_error", "fio_error")) + names_with("error", kinds=("any",))

    assert listed == set(EXPECTED) == set(tested)
