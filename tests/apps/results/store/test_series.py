"""Samples from event to chart: stored once without loss, and thinned without hiding extremes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from agents.workloads import fio, pgbench, sql, sysbench
from apps.campaigns.execution import live
from apps.campaigns.models import Run, RunEvent
from apps.results import queries
from apps.results.live import news
from apps.results.models import Block
from apps.results.runs import thin, time_axis
from apps.results.store import codec, fold, ingest, samples, series
from tests.rows import filled

BEGAN = 1795273600.0
SYSBENCH_LINE = (
    "[ 1s ] thds: 2 tps: 712.36 qps: 14273.10 (r/w/o: 9995.96/2850.43/1426.71) "
    "lat (ms,95%): 3.43 err/s: 0.00 reconn/s: 0.00"
)
numbers = st.one_of(
    st.integers(-(2**53), 2**53).map(float),
    st.decimals(-(10**9), 10**9, places=4, allow_nan=False).map(float),
    st.floats(),
    st.just(float("nan")),
)


@pytest.mark.parametrize(
    ("source", "values"),
    [
        ("pgbench", pgbench.progress("progress: 1.0 s, 1234.5 tps, lat 0.810 ms stddev 0.102")),
        ("sysbench", sysbench.interval(SYSBENCH_LINE)),
        ("sql", (0.0, sql.sample('[{"Execution Time": 1.5, "Planning Time": 0.1, "Plan": {"Shared Hit Blocks": 4}}]'))),
        ("sql", (0.0, sql.sample("Time: 12.345 ms"))),
        ("fio", (0.0, fio.rates("Jobs: 1 (f=1): [R(1)][9.1%][r=1024KiB/s][r=256 IOPS][eta 00m:10s]"))),
    ],
)
def test_each_column_that_a_load_generator_reports_has_a_panel(source: str, values: tuple[float, Any]) -> None:
    assert values[1] and all(series.panel_of(source, name) for name in values[1])


def test_the_throughput_of_a_mixed_load_is_the_sum_of_its_directions() -> None:
    assert live.throughput("fio", {"read_iops": 100.0, "write_iops": 50.0}) == live.Throughput(150.0, "IOPS")
    assert live.throughput("cpu", {"busy": 1.0}) is None


@given(st.lists(st.lists(numbers, min_size=7, max_size=7), max_size=4))
def test_unpacked_arrays_equal_the_packed_ones(columns: list[list[float]]) -> None:
    arrays = [np.array(column) for column in columns]

    unpacked = codec.unpack(codec.pack(arrays), 7, [True] * len(arrays))

    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(arrays, unpacked, strict=True))


def test_only_requested_columns_are_unpacked() -> None:
    packed = codec.pack([np.arange(5.0), np.full(5, np.nan), np.array([0.1, 0.2, np.nan, 1e300, -4.0])])

    (unpacked,) = codec.unpack(packed, 5, [False, False, True])

    assert np.array_equal(unpacked, [0.1, 0.2, np.nan, 1e300, -4.0], equal_nan=True)


@pytest.mark.parametrize(
    ("values", "most"),
    [
        (np.random.default_rng(1).normal(50, 5, 4096).round(2), 2.0),  # shares of cpus
        (1000.0 + np.cumsum(np.random.default_rng(1).integers(-9, 9, 4096)) * 4, 1.0),  # memory, in pages of 4 kB
        (np.full(4096, 7.0), 0.02),
    ],
    ids=["decimals", "pages", "constant"],
)
def test_a_sample_takes_few_bytes(values: Any, most: float) -> None:
    assert len(codec.pack([values])) / 4096 < most


@given(st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(float("nan"))), max_size=300), st.integers(4, 40))
def test_thinning_keeps_each_extreme_and_each_gap(listed: list[float], most: int) -> None:
    values = np.array(listed)

    positions = thin.extremes(values, most)

    assert len(positions) <= 1.5 * most + 2 and list(positions) == sorted(set(positions))
    if len(values):
        assert np.array_equal(np.nanmax([*values[positions], -np.inf]), np.nanmax([*values, -np.inf]))
        assert np.array_equal(np.nanmin([*values[positions], np.inf]), np.nanmin([*values, np.inf]))
        assert np.isnan(values[positions]).any() == np.isnan(values).any()


def test_of_each_stretch_of_a_heat_map_the_peak_is_shown() -> None:
    values = np.zeros(43_200)
    values[12_345], values[20_000:30_000] = 99.0, np.nan

    peaks = thin.peaks(values, 1000)

    assert len(peaks) == len(thin.begins(np.arange(43_200.0), 1000)) <= 1000
    assert peaks.max(initial=0.0, where=~np.isnan(peaks)) == 99.0 and np.isnan(peaks).sum() > 200


def test_a_time_without_samples_is_a_hole() -> None:
    assert list(thin.holes(np.array([0.0, 1.0, 2.0, 4.0, 9.0, 10.0]))) == [4]


def tell(run: Run, *events: tuple[str, dict[str, Any]]) -> None:
    rows = [
        RunEvent(run=run, seq=run.last_seq + place, at=timezone.now(), kind=kind, data=data)
        for place, (kind, data) in enumerate(events, start=1)
    ]
    RunEvent.objects.bulk_create(rows)
    run.last_seq += len(rows)
    run.save(update_fields=["last_seq"])


def sample(t: float, source: str = "memory", step: str = "measure", **values: float) -> tuple[str, dict[str, Any]]:
    return "sample", {"step": step, "source": source, "t": t, "values": values}


@pytest.fixture
def run(db: None) -> Run:
    """An active run without samples."""
    live_run: Run = filled.team()["live_run"]
    live_run.events.filter(kind__in=("sample", "measuring")).delete()
    tell(live_run, ("measuring", {"step": "measure", "began": BEGAN}))
    return live_run


@pytest.fixture
def browser(run: Run, client: Client) -> Client:
    client.force_login(run.campaign.created_by)
    return client


def lines(browser: Client, run: Run, **query: Any) -> dict[str, list[tuple[float, float | None]]]:
    """Trace -> its points, as the page gets them."""
    figure = browser.get(reverse("run_figure", args=[run.pk]), query).json()
    return {trace["name"]: list(zip(trace["x"], trace["y"], strict=True)) for trace in figure["data"] if "y" in trace}


def test_samples_are_folded_once_and_the_newest_stay_events(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "BATCH", 7)
    tell(run, *(sample(float(t), MemFree=100.0 + t) for t in range(40)))

    assert fold.fold(run, leave=10) == 30
    assert fold.fold(run, leave=10) == 0

    assert run.events.filter(kind="sample").count() == 10
    (stored,) = run.series.all()
    columns = samples.values_of(stored, None, None)
    assert (stored.samples, list(columns["MemFree"])) == (30, [100.0 + t for t in range(30)])


def test_a_fold_that_dies_half_way_loses_nothing_and_counts_nothing_twice(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "BATCH", 10)
    for t in range(35):
        tell(run, sample(float(t), MemFree=float(t)), sample(float(t), "cpu", busy=float(t)))
    append, calls = fold.append, []

    def dies(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 4:  # in the midst of the second batch, between its two sources
            raise KeyboardInterrupt
        append(*args)

    monkeypatch.setattr(fold, "append", dies)
    with pytest.raises(KeyboardInterrupt):
        fold.fold(run)
    assert {stored.samples for stored in run.series.all()} == {5}
    monkeypatch.setattr(fold, "append", append)
    fold.fold(run)

    for source, name in (("memory", "MemFree"), ("cpu", "busy")):
        columns = samples.values_of(run.series.get(source=source), None, None)
        assert list(columns[name]) == [float(t) for t in range(35)]
    assert not run.events.filter(kind="sample").exists()


def test_blocks_are_filled_and_a_column_that_comes_late_has_nothing_before(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "FULL", 8)
    for begin in (0, 5, 10):
        late = {"Cached": 1.0} if begin == 10 else {}
        tell(run, *(sample(float(t), MemFree=float(t), **late) for t in range(begin, begin + 5)))
        fold.fold(run)

    stored = run.series.get()

    blocks = stored.blocks.filter(group="memory").order_by("first")
    assert [(block.first, block.samples, block.begin, block.end) for block in blocks] == [
        (0, 8, 0.0, 7.0),
        (8, 7, 8.0, 14.0),
    ]
    columns = samples.values_of(stored, None, None)
    assert list(columns["MemFree"]) == [float(t) for t in range(15)]
    assert np.isnan(columns["Cached"][:10]).all() and list(columns["Cached"][10:]) == [1.0] * 5


def test_a_chart_of_an_active_run_has_folded_and_new_samples(browser: Client, run: Run) -> None:
    tell(run, *(sample(float(t), MemFree=1024.0**2 * t) for t in range(30)))
    fold.fold(run, leave=10)

    points = lines(browser, run, panel="memory.memory")["MemFree"]

    assert points == [(float(t), float(t)) for t in range(30)]


def test_samples_folded_while_a_page_reads_are_shown_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(run, *(sample(float(t), MemFree=float(t)) for t in range(30)))
    read = samples._stored

    def folded_meanwhile(*args: Any) -> Any:
        fold.fold(run)
        return read(*args)

    monkeypatch.setattr(samples, "_stored", folded_meanwhile)
    panels = [panel for panel in series.panels_of(run) if panel.key == "memory.memory"]
    (column,) = samples.run_columns(run, panels, time_axis.axis_of(time_axis.steps_of(run)))

    assert list(column.t) == [float(t) for t in range(30)]


def test_only_active_runs_with_many_samples_are_folded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(run, *(sample(float(t), MemFree=float(t)) for t in range(30)))

    assert not queries.to_fold().exists()
    monkeypatch.setattr(fold, "TAIL", 10)
    monkeypatch.setattr(fold, "MANY", 20)
    assert list(queries.to_fold()) == [run]


def test_a_long_run_is_thinned_and_a_short_part_of_it_is_not(browser: Client, run: Run) -> None:
    values = np.full(20_000, 1024.0**2)
    values[12_345] *= 50
    fold.append(run, "measure", "memory", {"t": np.arange(20_000.0), "MemFree": values})

    whole = lines(browser, run, panel="memory.memory")["MemFree"]
    part = lines(browser, run, panel="memory.memory", **{"from": 12_300, "to": 12_400})["MemFree"]

    assert len(whole) < 2100 and (12_345.0, 50.0) in whole
    assert [t for t, _ in part] == [float(t) for t in range(12_299, 12_402)]


def test_a_figure_of_a_part_reads_only_the_blocks_of_that_part(
    browser: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold.append(
        run, "measure", "memory", {"t": np.arange(20_000.0), "MemFree": np.zeros(20_000), "Slab": np.zeros(20_000)}
    )
    read: list[tuple[str, int]] = []
    unpack = Block.unpack
    monkeypatch.setattr(
        Block, "unpack", lambda block, names: read.append((block.group, block.first)) or unpack(block, names)
    )

    lines(browser, run, panel="memory.memory", **{"from": 5000, "to": 6000})

    assert sorted(read) == [("", 4096), ("memory", 4096)]


def test_many_lines_of_a_long_run_are_a_heat_map_of_peaks(browser: Client, run: Run) -> None:
    busy = {f"cpu{n}.busy": np.zeros(20_000) for n in range(8)}
    busy["cpu3.busy"][12_345] = 97.0
    fold.append(run, "measure", "cpu", {"t": np.arange(20_000.0), **busy})

    (heat_map,) = browser.get(reverse("run_figure", args=[run.pk]), {"panel": "cpu.busy per cpu"}).json()["data"]

    at = heat_map["z"][heat_map["y"].index("cpu3.busy")].index(97.0)
    assert heat_map["x"][at] <= 12_345 < heat_map["x"][at + 1] and len(heat_map["x"]) == 1000


def test_where_no_sample_was_taken_the_line_has_a_gap(browser: Client, run: Run) -> None:
    tell(run, *(sample(float(t), MemFree=1024.0**2) for t in (0, 1, 2, 3, 30, 31)))

    assert [value for _, value in lines(browser, run, panel="memory.memory")["MemFree"]] == [
        1,
        1,
        1,
        1,
        None,
        None,
        1,
        1,
    ]


@pytest.mark.parametrize("query", ["from=x", "from=5&to=5", "to=nan"])
def test_the_api_refuses_an_invalid_range_of_time(browser: Client, run: Run, query: str) -> None:
    fold.append(run, "measure", "memory", {"t": np.arange(5.0), "MemFree": np.arange(5.0)})

    assert browser.get(f"/api/v1/series/{run.series.get().pk}/?{query}").status_code == 400


def test_the_api_gives_a_part_of_a_series(browser: Client, run: Run) -> None:
    fold.append(run, "measure", "memory", {"t": np.arange(50.0), "MemFree": np.arange(50.0)})

    part = browser.get(f"/api/v1/series/{run.series.get().pk}/?from=10&to=12.5").json()

    assert part["values"] == {"t": [10.0, 11.0, 12.0], "MemFree": [10.0, 11.0, 12.0]}


def migrated(name: str = "") -> Any:
    """The tables as they were after a migration of this room, or the newest; the models of then."""
    executor = MigrationExecutor(connection)
    state = executor.migrate([("results", name)] if name else executor.loader.graph.leaf_nodes("results"))
    return state.apps


@pytest.fixture
def newest_afterwards(transactional_db: None) -> Iterator[None]:
    """Whoever comes next finds the tables as they are today."""
    yield
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


@pytest.mark.thorough
@pytest.mark.usefixtures("newest_afterwards")
def test_stored_series_are_converted_there_and_back() -> None:
    run = filled.team()["live_run"]
    table = {"t": np.arange(5000.0), "MemFree": np.arange(5000.0) * 0.5, "odd": np.full(5000, np.nan)}
    fold.append(run, "measure", "memory", table)

    before = migrated("0002_marks").get_model("results", "Series").objects.get(run_id=run.pk, source="memory")
    migrated()  # by way of 0003

    flat = np.frombuffer(zlib.decompress(bytes(before.packed)), dtype="<f8")
    assert np.array_equal(flat.reshape(3, 5000), np.array(list(table.values())), equal_nan=True)
    columns = samples.values_of(run.series.get(source="memory"), None, None)
    assert all(np.array_equal(columns[name], values, equal_nan=True) for name, values in table.items())
    assert [block.samples for block in run.series.get(source="memory").blocks.filter(group="memory")] == [4096, 904]


def steps(run: Run) -> None:
    """Warm-up from 0 to 20 s, then after a pause measured from 30 s on, with a checkpoint that reaches over."""
    run.events.filter(kind="measuring").delete()
    run.spec["steps"] = [{"name": "fill", "role": "warm"}, {"name": "idx1", "role": "measure"}]
    run.spec["steps"] = [{**step, "kind": "pgbench", "options": {}} for step in run.spec["steps"]]
    run.save(update_fields=["spec"])
    tell(
        run,
        ("measured", {"step": "fill", "began": BEGAN, "ended": BEGAN + 20, "costs": {}}),
        ("measured", {"step": "idx1", "began": BEGAN + 30, "ended": BEGAN + 50, "costs": {}}),
        *(sample(float(t), step="fill", MemFree=1024.0**2) for t in range(20)),
        *(sample(float(t), step="idx1", MemFree=2 * 1024.0**2) for t in range(20)),
    )
    fold.fold(run)
    run.marks.create(step="fill", kind="checkpoint", t=15.0, until=35.0, label="time", data={})
    run.marks.create(step="idx1", kind="checkpoint", t=-15.0, until=5.0, label="time", data={})


def test_steps_follow_each_other_on_one_axis_with_a_gap_between(browser: Client, run: Run) -> None:
    steps(run)

    figure = browser.get(reverse("run_figure", args=[run.pk]), {"panel": "memory.memory"}).json()

    (line,) = [trace for trace in figure["data"] if trace["name"] == "MemFree"]
    assert (line["x"][0], line["x"][19], line["y"][20:22], line["x"][22]) == (0.0, 19.0, [None, None], 30.0)
    assert figure["layout"]["xaxis"]["title"]["text"] == "seconds since the first step began"
    assert figure["steps"] == {"fill": 0.0, "idx1": 30.0}


def test_warm_up_is_shaded_and_named_and_a_mark_that_reaches_over_is_drawn_once(browser: Client, run: Run) -> None:
    steps(run)

    figure = browser.get(reverse("run_figure", args=[run.pk]), {"panel": "memory.memory"}).json()

    names = {note["text"]: note["x"] for note in figure["layout"]["annotations"] if note.get("xref") == "x"}
    assert names == {"fill (warm)": 0.0, "idx1": 30.0}
    shades = [shape for shape in figure["layout"]["shapes"] if shape["type"] == "rect"]
    assert [(shade["x0"], shade["x1"]) for shade in shades] == [(0.0, 20.0)]
    (marks,) = [trace for trace in figure["data"] if trace["name"] == "marks"]
    assert marks["x"] == [15.0, 35.0, None]


def test_the_panels_of_a_source_are_those_of_all_steps(run: Run) -> None:
    run.ingested_at = timezone.now()
    for step, name in (("explained", "shared_hit"), ("timed", "elapsed_ms")):
        fold.append(run, step, "sql", {"t": np.arange(3.0), name: np.ones(3)})

    assert {"sql.shared blocks", "sql.execution time"} <= {panel.key for panel in series.panels_of(run)}


def test_the_csv_has_the_step_of_each_row(browser: Client, run: Run) -> None:
    steps(run)

    answer = browser.get(reverse("run_csv", args=[run.pk]), {"panel": "memory.memory", "from": "18", "to": "31"})

    rows = answer.getvalue().decode().splitlines()
    assert rows[0] == "step,t (s),memory MemFree (GiB)"
    assert [row.rsplit(",", 1)[0] for row in rows[1:]] == [
        "fill,17.0", "fill,18.0", "fill,19.0", "idx1,30.0", "idx1,31.0", "idx1,32.0",
    ]  # fmt: skip


def test_a_page_that_lags_behind_has_to_redraw(browser: Client, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "BATCH", 20)
    tell(run, *(sample(float(t), MemFree=float(t)) for t in range(30)))
    url = reverse("run_live", args=[run.pk])

    late, prompt = browser.get(url).json(), browser.get(url, {"after": run.last_seq - 5}).json()

    assert (late["skipped"], len(late["samples"]), late["seq"]) == (True, 20, run.last_seq)
    assert (prompt["skipped"], [point["seq"] for point in prompt["samples"]]) == (
        False,
        list(range(run.last_seq - 4, run.last_seq + 1)),
    )


def test_a_step_alone_is_shown_in_its_own_seconds(browser: Client, run: Run) -> None:
    steps(run)

    figure = browser.get(reverse("run_figure", args=[run.pk]), {"panel": "memory.memory", "step": "idx1"}).json()

    (line,) = [trace for trace in figure["data"] if trace["name"] == "MemFree"]
    assert (line["x"][0], line["x"][-1], set(line["y"])) == (0.0, 19.0, {2.0})
    (marks,) = [trace for trace in figure["data"] if trace["name"] == "marks"]
    assert marks["x"] == [0.0, 5.0, None]


def test_the_page_offers_the_steps_and_keeps_the_part_of_time(browser: Client, run: Run) -> None:
    steps(run)

    page = browser.get(reverse("run_detail", args=[run.pk]), {"step": "idx1", "from": "3", "to": "9"})

    text = page.content.decode()
    assert '<option value="idx1" selected>idx1</option>' in text and "fill (warm)" in text
    assert "step=idx1&amp;from=3&amp;to=9" in text and "Show the whole time" in text


def test_reading_an_ended_run_folds_all_of_it(run: Run) -> None:
    tell(run, *(sample(float(t), MemFree=float(t)) for t in range(30)))
    Run.objects.filter(pk=run.pk).update(state=Run.State.ENDED, outcome=Run.Outcome.CANCELLED)

    assert ingest.ingest(run)
    assert not ingest.ingest(run)

    assert run.series.get().samples == 30
    assert not run.events.filter(kind="sample").exists()
