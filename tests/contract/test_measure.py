"""From a step's raw outputs to measurements; the outputs are those of real runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.workloads import WORKLOADS
from common.errors import FormatError, WorkloadError
from readers.measure import MEASURE, Measurement, measure
from readers.measure.pgbench import LOOPS
from readers.measure.tpcc import ABOUT

SAMPLES = Path(__file__).parents[1] / "samples"


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def by_name(measurements: list[Measurement]) -> dict[str, Measurement]:
    return {measurement.name: measurement for measurement in measurements}


def test_tps_bears_its_definition() -> None:
    measured = by_name(measure("pgbench", {"stdout": sample("pgbench-15-tpcb_r.out"), "stderr": b""}))

    assert measured["tps"] == Measurement("tps", 3524.617966, "tps", "higher", "without initial connection time")
    assert measured["latency_avg"] == Measurement("latency_avg", 0.567, "ms", "lower", LOOPS["closed"])
    assert "tps_including" not in measured


def test_up_to_13_there_are_rates_with_and_without_connecting() -> None:
    measured = by_name(measure("pgbench", {"stdout": sample("pgbench-10-tpcb_r.out")}))

    assert measured["tps"].definition == "excluding connections establishing"
    assert measured["tps_including"].definition == "including connections establishing"
    assert measured["tps"].value > measured["tps_including"].value


def test_a_rate_with_reconnections_is_named_as_such() -> None:
    measured = by_name(measure("pgbench", {"stdout": sample("pgbench-16-connect.out")}))

    assert measured["tps"].definition == "including reconnection times"


def test_statement_latencies_are_numbered_and_bear_their_sql() -> None:
    measured = by_name(measure("pgbench", {"stdout": sample("pgbench-15-tpcb_r.out")}))

    assert measured["statement:7 latency"].definition.startswith("SELECT abalance")
    assert measured["statement:10 latency"].definition.endswith("…")
    assert all(len(one.definition) <= 80 for one in measured.values())


def test_statements_of_several_scripts_have_separate_names() -> None:
    measured = by_name(measure("pgbench", {"stdout": sample("pgbench-18-two_scripts.out")}))

    assert measured["script:2 statement:2 latency"].value == 0.146
    assert (measured["script:1 tps"].value, measured["script:1 tps"].definition) == (18827.544466, "upd.sql")


def test_failures_are_measurements_and_the_latency_says_that_it_includes_them() -> None:
    measured = by_name(measure("pgbench", {"stdout": sample("pgbench-15-failures_two_scripts.out")}))

    assert measured["failed"] == Measurement("failed", 2172, "transactions", "lower")
    assert measured["latency_avg"].definition == "including failures; closed loop"


@pytest.mark.parametrize("release", ["10", "14", "15", "16"])
def test_a_run_with_aborted_clients_yields_nothing(release: str) -> None:
    stderr = sample(f"pgbench-{release}-abort.err")

    with pytest.raises(WorkloadError, match=r"incomplete, clients were aborted.*division by zero"):
        measure("pgbench", {"stdout": sample("pgbench-14-abort.out"), "stderr": stderr})


def test_a_run_short_of_transactions_yields_nothing_even_without_stderr() -> None:
    with pytest.raises(WorkloadError, match="5 transactions did not run"):
        measure("pgbench", {"stdout": sample("pgbench-18-abort.out")})


def test_an_output_without_tps_yields_nothing() -> None:
    with pytest.raises(FormatError, match="no tps line"):
        measure("pgbench", {"stdout": sample("hostile-pgbench-cut_before_tps.out")})


def test_tpcc_has_new_orders_per_minute_the_mix_and_each_type_of_transaction() -> None:
    measured = by_name(measure("tpcc", {"stdout": sample("pgbench-18-tpcc.out")}))

    assert measured["nopm"] == Measurement("nopm", 60 * 72.540178, "new orders/min", "higher", ABOUT)
    assert measured["tpm"].value == 60 * measured["tps"].value == 60 * 165.770509
    assert measured["new_order share"].value == pytest.approx(100 * 291 / 665)
    assert measured["new_order share"].definition == "configured: 45 %"
    assert (measured["delivery latency_avg"].value, measured["delivery deadlock_failures"].value) == (52.748, 0)
    assert not [name for name in measured if name.startswith("script:")]


def test_latencies_of_tpcc_exclude_the_waits_of_terminals() -> None:
    outputs = {"stdout": sample("pgbench-18-tpcc_terminals.out")}

    measured = by_name(measure("tpcc", outputs, {"terminals": True}))

    assert measured["payment latency_avg"].value == pytest.approx(11339.525 - 3004.200 - 8318.088)
    assert measured["latency_avg"].value == pytest.approx((7 * 17.237 + 13 * 9.988) / 20)
    assert "latency_stddev" not in measured and "nopm" not in measured


def test_fio_measures_each_job_and_direction() -> None:
    measured = by_name(measure("fio", {"fio.json": sample("fio-3.33-document_job.json")}))

    name = "rw-rand-libaio-mysql-ext4"
    assert measured[f"{name} read iops"] == Measurement(f"{name} read iops", 43482.505831, "IOPS", "higher")
    assert measured[f"{name} write bw"] == Measurement(f"{name} write bw", 186988, "KiB/s", "higher")
    assert measured[f"{name} read clat_p99"] == Measurement(f"{name} read clat_p99", 2277376, "ns", "lower")


def test_fio_iops_of_a_job_are_the_sum_of_its_directions() -> None:
    measured = by_name(measure("fio", {"fio.json": sample("fio-3.33-document_job.json")}))

    totals = {name: one for name, one in measured.items() if name.endswith("iops") and one.definition == "read + write"}
    assert totals
    for name, total in totals.items():
        prefix = name.removesuffix("iops")
        assert total.value == measured[f"{prefix}read iops"].value + measured[f"{prefix}write iops"].value


def test_fio_clones_of_a_section_are_one_figure() -> None:
    raw = sample("fio-3.33-read_nogroup.json")
    first, second = (job["read"] for job in json.loads(raw)["jobs"])

    measured = by_name(measure("fio", {"fio.json": raw}))

    assert measured["read iops"].value == pytest.approx(first["iops"] + second["iops"])
    means = [(one["clat_ns"]["mean"], one["clat_ns"]["N"]) for one in (first, second)]
    weighted = sum(mean * count for mean, count in means) / sum(count for _, count in means)
    assert measured["read clat_mean"].value == pytest.approx(weighted)
    assert "read clat_p99" not in measured, "percentiles of two jobs cannot be had without their histograms"


def test_fio_percentiles_of_clones_come_from_their_histograms() -> None:
    report = json.loads(sample("fio-3.33-read_nogroup.json"))
    for job, bins in zip(report["jobs"], ({"100": 9800, "900": 200}, {"100": 5000, "500": 5000}), strict=True):
        job["read"]["clat_ns"]["bins"] = bins

    measured = by_name(measure("fio", {"fio.json": json.dumps(report, indent=1).encode()}))

    assert [measured[f"read clat_p{at}"].value for at in ("50", "95", "99", "99.9")] == [100, 500, 500, 900]


def test_fio_percentiles_that_so_few_reads_cannot_tell_are_left_out() -> None:
    report = json.loads(sample("fio-3.33-read_nogroup.json"))
    for job in report["jobs"]:
        job["read"]["clat_ns"]["bins"] = {"100": 183, "900": 1}

    measured = by_name(measure("fio", {"fio.json": json.dumps(report, indent=1).encode()}))

    assert "read clat_p99" in measured  # of 368 reads
    assert "read clat_p99.9" not in measured


def test_fio_sections_of_one_name_are_numbered_by_group() -> None:
    report = json.loads(sample("fio-3.33-document_job.json"))
    for job in report["jobs"]:
        job["jobname"] = "same"

    measured = by_name(measure("fio", {"fio.json": json.dumps(report, indent=1).encode()}))

    assert {f"{name} runtime" for name in ("same", "same#2", "same#3", "same#4")} <= measured.keys()


@pytest.mark.parametrize(("name", "error"), [("fio-3.33-err_half.json", 20), ("fio-3.1-err_missing_dir.json", 2)])
def test_a_fio_job_that_failed_spoils_the_run(name: str, error: int) -> None:
    with pytest.raises(WorkloadError, match=f"incomplete, job .* ended with error {error}"):
        measure("fio", {"fio.json": sample(name)})


def test_an_unknown_workload_is_refused_with_those_there_are() -> None:
    with pytest.raises(WorkloadError, match="supported: pgbench, fio"):
        measure("dbench", {})


def test_declared_metrics_agree_with_the_measurements() -> None:
    measured = measure("pgbench", {"stdout": sample("pgbench-12-progress.out")})
    declared = {one.name: WORKLOADS["pgbench"].metric(one.name) for one in measured}

    assert declared["tps"] and declared["tps_including"] and declared["latency_avg"] and declared["latency_stddev"]
    for one in measured:
        if metric := declared[one.name]:
            assert (metric.unit, metric.better) == (one.unit, one.better)


def test_the_outputs_of_every_workload_can_be_read() -> None:
    imported = {"figures"}  # imported tables, which no workload runs
    assert MEASURE.keys() - imported == {kind for kind, workload in WORKLOADS.items() if workload.measures}


COLUMNS = {"hits": {"unit": "blocks", "better": "higher"}, "pages": {"unit": "pages", "better": "lower"}}


def figures(printed: bytes) -> list[Measurement]:
    return measure("sql", {"stdout": printed + b"at 1795283844.43\n"}, {"query": "select ...", "figures": COLUMNS})


def test_columns_of_the_only_row_are_figures_and_null_was_not_taken() -> None:
    measured = figures(b'{"name":"t","hits":5406,"pages":null}\n')

    assert measured == [Measurement("hits", 5406.0, "blocks", "higher", "a column of its row")]


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        (b"", "the query returned 0 rows"),
        (b'{"hits":1,"pages":2}\n{"hits":1,"pages":2}\n', "the query returned 2 rows"),
        (b'{"hits":1}\n', "pages is not a column of the row"),
        (b'{"hits":"many","pages":2}\n', "hits is 'many', which is not a number"),
        (b'{"hits":true,"pages":2}\n', "hits is 'True', which is not a number"),
        (b'{"hits":1,"pa\n', "the query did not return a row"),
    ],
)
def test_a_row_that_is_not_one_of_figures_is_refused(printed: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        figures(printed)
