"""Whatever the bytes, a reader gives a value or FormatError: damaged output must never crash the server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.errors import FormatError
from apps.results.formats.fio import parse_fio, parse_fio_stderr
from apps.results.formats.pgbench import parse_summary
from apps.results.formats.pgbench_stderr import parse_init, parse_stderr

SAMPLES = Path(__file__).parents[2] / "samples"
# One of each shape: mutating all of them would only repeat these.
SEEDS = {
    parse_summary: ("pgbench-15-failures_two_scripts.out", "pgbench-10-agg_rate.out", "pgbench-9.5-tpcb_r.out"),
    parse_stderr: ("pgbench-16-max_tries_detailed.err", "pgbench-15-rate_limit.err", "pgbench-15-abort.err"),
    parse_init: ("pgbench-15-init_partitions.err", "pgbench-15-init_tty.err"),
    parse_fio: ("fio-3.33-read_nogroup.json", "fio-2.2.10-document_job.json", "hostile-fio-text_before.json"),
    parse_fio_stderr: ("fio-3.33-err_bad_key.err",),
}
CASES = [(parse, name) for parse, names in SEEDS.items() for name in names]
# What breaks naive readers: other numerals, huge ones, nesting, and bytes of no encoding.
SPLICES = [
    b"nan",
    b"-1",
    b"1e999",
    b"9" * 5000,
    b"{" * 2000,
    b'{"a":' * 2000,
    b"null",
    b"\0",
    b"\xff\xfe",
    b"\r",
    b"\n}\n",
]
SPLICES += ["٣".encode(), b"0.5", b"true", b'""', b"[]"]


def gives_a_value_or_a_format_error(parse: Callable[[bytes], object], raw: bytes) -> None:
    try:
        found = parse(raw)
    except FormatError as error:
        assert error.subject and error.message
    else:
        assert found is not None


@pytest.mark.parametrize("parse", SEEDS)
@settings(deadline=None)
@given(raw=st.binary(max_size=400))
def test_arbitrary_bytes(parse: Callable[[bytes], object], raw: bytes) -> None:
    gives_a_value_or_a_format_error(parse, raw)


@pytest.mark.parametrize(("parse", "name"), CASES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_samples_with_a_piece_replaced(parse: Callable[[bytes], object], name: str, data: st.DataObject) -> None:
    raw = (SAMPLES / name).read_bytes()
    start = data.draw(st.integers(0, len(raw)))
    length = data.draw(st.integers(0, 40))
    piece = data.draw(st.sampled_from(SPLICES) | st.binary(max_size=20))

    gives_a_value_or_a_format_error(parse, raw[:start] + piece + raw[start + length :])


@pytest.mark.parametrize(("parse", "name"), CASES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_samples_cut_short(parse: Callable[[bytes], object], name: str, data: st.DataObject) -> None:
    raw = (SAMPLES / name).read_bytes()

    gives_a_value_or_a_format_error(parse, raw[: data.draw(st.integers(0, len(raw)))])


@pytest.mark.parametrize("figure", [b"nan", b"Infinity", b"1e999", b"-1", b"9" * 5000, b"true", b'"7"', b"null"])
def test_a_figure_that_is_none_is_refused_in_fio_json(figure: bytes) -> None:
    raw = (SAMPLES / "fio-3.33-read_nogroup.json").read_bytes()
    spoilt = raw.replace(b'"iops" : 23954.045954', b'"iops" : ' + figure)

    with pytest.raises(FormatError):
        parse_fio(spoilt)


def test_the_last_document_of_a_status_interval_counts() -> None:
    first = (SAMPLES / "fio-3.1-document_job.json").read_bytes()
    last = (SAMPLES / "fio-3.33-read_nogroup.json").read_bytes()

    report = parse_fio(first + b"\n" + last)

    assert (report.documents, report.version) == (2, "3.33")


def test_a_status_interval_whose_last_document_is_cut_is_refused() -> None:
    raw = (SAMPLES / "fio-3.33-read_nogroup.json").read_bytes()

    with pytest.raises(FormatError, match="cut or damaged"):
        parse_fio(raw + b"\n" + raw[:3000])


def test_an_unfinished_progress_line_is_told_and_left_out() -> None:
    whole = b"progress: 1.0 s, 700.0 tps, lat 1.400 ms stddev 0.200\n"

    found = parse_stderr(whole + b"progress: 2.0 s, 71")

    assert [one.tps for one in found.progress] == [700.0]
    assert found.cut


def test_a_report_whose_last_script_is_missing_is_refused() -> None:
    whole = (SAMPLES / "pgbench-15-two_scripts.out").read_bytes()

    with pytest.raises(FormatError, match="some scripts are missing"):
        parse_summary(whole[: whole.index(b"SQL script 2")])
