"""`proving parse` and `proving stat` work without a server."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.cli.program import CLI, Program

pytestmark = pytest.mark.thorough

SAMPLES = CLI.parent / "tests" / "samples"
PGBENCH = (SAMPLES / "pgbench-15-transactions.out").read_text()
# Relative rates of six runs, about 1 % apart.
RUNS = (0.995, 1.008, 1.001, 0.989, 1.004, 1.003)


@pytest.fixture
def offline(tmp_path: Path) -> Program:
    return Program(tmp_path)


def runs(folder: Path, side: str, factor: float) -> list[str]:
    """Files of six pgbench runs whose rate is `factor` times 1000 tps."""
    names = [str(folder / f"{side}{number}.out") for number in range(len(RUNS))]
    for name, run in zip(names, RUNS, strict=True):
        tps = 1000 * factor * run
        text = re.sub(r"tps = [0-9.]+", f"tps = {tps:.6f}", PGBENCH)
        Path(name).write_text(re.sub(r"latency average = [0-9.]+", f"latency average = {3000 / tps:.3f}", text))
    return names


def sample(name: str) -> str:
    return str(SAMPLES / name)


def test_parse_recognises_each_file_and_prints_its_figures(offline: Program) -> None:
    first, second = offline.json("parse", sample("pgbench-14-select.out"), sample("sysbench-oltp_read_only.out"))

    assert (first["kind"], second["kind"]) == ("pgbench", "sysbench")
    assert first["result"]["tps_definition"] == "without initial connection time"
    assert second["result"]["latency_avg_ms"] == 0.95


def test_parse_prints_a_table_without_json(offline: Program) -> None:
    done = offline.run("parse", sample("pgbench-15-transactions.out"))

    assert re.search(r"^ tps +5818.407502", done.stdout, re.MULTILINE)


def test_parse_reads_standard_input_as_a_dash(offline: Program) -> None:
    (parsed,) = offline.json("parse", "-", stdin=(SAMPLES / "explain-15-plain.txt").read_text())

    assert parsed["result"]["shape"] == "Seq Scan on pgbench_accounts"


def test_parse_names_a_file_that_cannot_be_read_and_prints_the_others(offline: Program) -> None:
    done = offline.run(
        "parse", sample("hostile-csv-formula.csv"), sample("pgbench-14-select.out"), "nosuch.out", "--json"
    )

    first, second = map(json.loads, done.stderr.splitlines())
    assert done.returncode == 1
    assert [load["kind"] for load in json.loads(done.stdout)] == ["pgbench"]
    assert "hostile-csv-formula.csv: the CSV, line 2, idx1(ms)" in first["error"]["message"]
    assert second["error"]["message"] == "nosuch.out: No such file or directory"


def test_parse_uses_the_kind_of_the_option(offline: Program) -> None:
    done = offline.run("parse", "--as", "explain", sample("hostile-explain-syntax_error.txt"))

    assert done.returncode == 1
    assert 'EXPLAIN failed: syntax error at or near "explan"' in done.stderr


def test_stat_exits_3_where_a_figure_is_worse_by_more_than_delta(offline: Program, tmp_path: Path) -> None:
    comparison = offline.json("stat", *runs(tmp_path, "old", 1.0), "vs", *runs(tmp_path, "new", 0.9), code=3)

    rows = {row["figure"]: row for row in comparison["figures"]}
    assert {name: row["verdict"] for name, row in rows.items()} == {"tps": "worse", "latency_avg": "worse"}
    assert rows["tps"]["relative_percent"] == pytest.approx(-10)
    assert rows["tps"]["relative_low"] < -10 < rows["tps"]["relative_high"]
    assert rows["tps"]["old"]["n"] == 6
    assert rows["tps"]["old"]["low"] < 1000 < rows["tps"]["old"]["high"]


def test_stat_prints_centres_intervals_change_and_verdict(offline: Program, tmp_path: Path) -> None:
    done = offline.run("stat", *runs(tmp_path, "old", 1.0), "vs", *runs(tmp_path, "new", 1.1))

    assert done.returncode == 0
    assert re.search(
        r"^ tps +1,000 +993 \.\. 1,007 +6 +1,100 .* \+10\.0 % \[\+8\.\d+, \+11\.\d\] +▲ better", done.stdout, re.M
    )


def test_rows_of_a_table_do_not_wrap_in_a_pipe(tmp_path: Path) -> None:
    program = Program(tmp_path, env={"COLUMNS": ""})

    done = program.run("stat", *runs(tmp_path, "old", 1), "vs", *runs(tmp_path, "new", 1))

    rows = [line for line in done.stdout.splitlines() if "equivalent" in line]
    assert [row.split()[0] for row in rows] == ["tps", "latency_avg,"]


def test_stat_finds_the_same_runs_equivalent(offline: Program, tmp_path: Path) -> None:
    names = runs(tmp_path, "old", 1.0)

    comparison = offline.json("stat", *names, "vs", *names, "--figure", "tps", "--strict")

    assert [row["verdict"] for row in comparison["figures"]] == ["equivalent"]


def test_stat_exits_5_with_strict_where_runs_are_too_few(offline: Program) -> None:
    name = sample("pgbench-15-transactions.out")

    assert offline.run("stat", name, "vs", name).returncode == 0
    assert offline.run("stat", name, "vs", name, "--strict").returncode == 5


def test_stat_does_not_compare_rates_of_different_definitions(offline: Program) -> None:
    done = offline.run("stat", sample("pgbench-13-transactions.out"), "vs", sample("pgbench-15-transactions.out"))

    assert "not compared: tps: not the same figure in all runs" in done.stdout


@pytest.mark.parametrize(
    "name", ["fio-3.33-document_job.json", "document002-fio-essd.out", "sysbench-oltp_read_only.out"]
)
def test_stat_reads_outputs_of_other_tools(offline: Program, name: str) -> None:
    comparison = offline.json("stat", sample(name), "vs", sample(name))

    assert {row["relative_percent"] for row in comparison["figures"]} == {0.0}


def test_stat_reads_csv_with_a_run_per_row_and_takes_directions_from_units(offline: Program, tmp_path: Path) -> None:
    for name, factor in (("old", 1.0), ("new", 0.8)):
        rows = "".join(f"{1000 * run * factor},{run / factor},{run}\n" for run in RUNS)
        (tmp_path / f"{name}.csv").write_text("tps,wait (ms),score\n" + rows)

    comparison = offline.json("stat", "old.csv", "vs", "new.csv", "--all", "--higher", "score", code=3)

    assert {row["figure"]: row["better"] for row in comparison["figures"]} == {
        "tps": "higher",
        "wait": "lower",
        "score": "higher",
    }


@pytest.mark.parametrize(
    "arguments", [["a.out"], ["vs", "a.out"], ["a.out", "vs"], ["a.out", "vs", "b.out", "vs", "c.out"]]
)
def test_stat_needs_files_on_both_sides_of_vs(offline: Program, arguments: list[str]) -> None:
    done = offline.run("stat", *arguments)

    assert done.returncode == 2
    assert "proving stat old*.out vs new*.out" in done.stderr


def test_stat_names_the_file_of_a_run_that_did_not_end(offline: Program) -> None:
    done = offline.run(
        "stat", sample("hostile-pgbench-cut_before_tps.out"), "vs", sample("pgbench-15-transactions.out")
    )

    assert done.returncode == 1
    assert "hostile-pgbench-cut_before_tps.out: pgbench stdout: no tps line" in done.stderr


def test_stat_reports_failed_transactions(offline: Program) -> None:
    done = offline.run("stat", sample("pgbench-15-failures.out"), "vs", sample("pgbench-15-transactions.out"))

    assert re.search(r"failed: [1-9][0-9,]* in the old runs, 0 in the new runs", done.stdout)


def test_stat_has_the_interval_of_welch_t_on_logs(offline: Program, tmp_path: Path) -> None:
    old, new = [101.0, 99.5, 100.2, 98.9, 100.8], [104.1, 107.3, 103.2, 109.0, 105.5, 101.9]
    for name, values in (("old", old), ("new", new)):
        (tmp_path / f"{name}.csv").write_text("tps\n" + "".join(f"{value}\n" for value in values))

    (row,) = offline.json("stat", "old.csv", "vs", "new.csv")["figures"]

    expected = stats.ttest_ind(np.log(new), np.log(old), equal_var=False).confidence_interval(0.95)
    assert [row["relative_low"], row["relative_high"]] == pytest.approx(
        [100 * (math.exp(expected.low) - 1), 100 * (math.exp(expected.high) - 1)]
    )
    assert row["old"]["mean"] == pytest.approx(stats.gmean(old))
