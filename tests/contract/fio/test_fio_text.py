"""fio's text output: units, releases, several groups, and what a cut output says of itself."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from common.errors import FormatError
from readers.fio.report import parse_fio
from readers.fio.text import Disk, GroupRate, TextReport, parse_fio_text

SAMPLES = Path(__file__).parents[2] / "samples"
FOUR_GROUPS = (SAMPLES / "document002-fio-essd.out").read_bytes()

OLD = """\
seqread: (g=0): rw=read, bs=8K-8K/8K-8K/8K-8K, ioengine=libaio, iodepth=4
fio-2.2.10
Starting 1 process

seqread: (groupid=0, jobs=1): err= 0: pid=311: Mon Mar  7 10:01:02 2016
  read : io=512.5MB, bw=262400KB/s, iops=32800, runt=  2000msec
    slat (usec): min=2 , max=61 , avg= 3.50, stdev= 1.25
    clat (usec): min=40 , max=2900 , avg=112.75, stdev=30.50
     lat (usec): min=44 , max=2905 , avg=116.50, stdev=30.75
    clat percentiles (usec):
     |  1.00th=[   80], 50.00th=[  110], 99.00th=[  201], 99.99th=[ 2480]
    bw (KB  /s): min=250112, max=270336, per=99.50%, avg=261120.00, stdev=9011.25
    lat (usec) : 50=0.05%, 100=9.95%, 250=90.00%
  cpu          : usr=4.10%, sys=21.60%, ctx=40100, majf=0, minf=11
  IO depths    : 1=0.1%, 2=0.1%, 4=99.9%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%
     submit    : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     complete  : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     issued    : total=r=65600/w=0/d=0, short=r=0/w=0/d=0, drop=r=0/w=0/d=0
     latency   : target=0, window=0, percentile=100.00%, depth=4

Run status group 0 (all jobs):
   READ: io=512.5MB, aggrb=262400KB/s, minb=262400KB/s, maxb=262400KB/s, mint=2000msec, maxt=2000msec

Disk stats (read/write):
    md0: ios=65601/2, merge=0/0, ticks=0/0, in_queue=0, util=0.00%, aggrios=16400/0, aggrutil=75.86%
  vda: ios=16400/1, merge=3/4, ticks=1200/5, in_queue=1205, util=75.86%
"""

NEWER_LINES = """\
x: (groupid=0, jobs=1): err= 0: pid=9: Mon Mar  7 10:01:02 2022
  mixed: IOPS=1500k, BW=11.4GiB/s (12.3GB/s)(343GiB/30001msec); 0 zone resets
    clat (msec): min=2, max=1200k, avg=3.50, stdev= 1.50
    clat prio 0/4 (msec): min=1, max=2, avg=1.50, stdev= 0.50
     lat (usec): min=4, max=2905, avg=116.50, stdev=30.75
    lat percentiles (msec):
     | 50.00000th=[    7], 99.00000th=[   12]
    clat prio 0/4 (10.00% of IOs) percentiles (msec):
     | 50.00000th=[    1], 99.00000th=[    2]
   bw (  MiB/s): min= 1000, max= 3000, per=100.00%, avg=2000.50, stdev=100.50, samples=59
   iops        : min=100000, max=300000, avg=200000.50, stdev=1000.50, samples=59
  lat (msec)   : 10=99.00%, >=2000=1.00%
  cpu          : usr=4.10%, sys=21.60%, ctx=40100, majf=0, minf=11
     issued rwts: total=10,20,3,0 short=0,0,0,0 dropped=0,0,0,0
     latency   : target=0, window=0, percentile=100.00%, depth=32
  steadystate  : attained=no, bw=1MiB/s (1049kB/s), iops=1, bw mean dev=1.0%

Run status group 0 (all jobs):
  MIXED: bw=11.4GiB/s (12.3GB/s), 11.4GiB/s-11.4GiB/s (12.3GB/s-12.3GB/s), io=343GiB (369GB), run=30001-30001msec
"""


def read(text: str) -> TextReport:
    return parse_fio_text(text.encode())


def test_the_text_of_2x_has_other_labels_and_binary_kilobytes() -> None:
    report = read(OLD)

    (job,) = report.jobs
    reads = job.directions["read"]
    assert (report.version, job.name, job.usr_cpu_pct, job.depth) == ("2.2.10", "seqread", 4.1, 4)
    assert (reads.io_bytes, reads.bw_kib_s, reads.iops, reads.runtime_ms) == (537395200, 262400, 32800, 2000)
    assert reads.total_ios == 65600
    assert reads.clat and (reads.clat.min_ns, reads.clat.mean_ns) == (40_000, 112_750)
    assert reads.clat.percentiles_ns == ((1.0, 80_000), (50.0, 110_000), (99.0, 201_000), (99.99, 2_480_000))
    assert reads.bw_kib_s_spread and (reads.bw_kib_s_spread.max, reads.bw_kib_s_spread.samples) == (270336, None)
    assert report.groups[0].rates == {"read": GroupRate(262400, 537395200, 2000, 2000)}
    assert report.disks[1] == Disk("vda", 16400, 1, 3, 4, 1200, 5, 1205, 75.86)
    assert not report.missing


def test_each_line_and_each_block_has_its_own_unit() -> None:
    mixed = read(NEWER_LINES).jobs[0].directions["mixed"]

    assert (mixed.iops, mixed.total_ios, mixed.bw_kib_s) == (1_500_000, 33, 11_953_766)
    assert mixed.clat and (mixed.clat.min_ns, mixed.clat.max_ns) == (2_000_000, 1.2e12)
    assert mixed.lat and (mixed.lat.max_ns, mixed.lat.percentiles_ns) == (2_905_000, ((50, 7e6), (99, 12e6)))
    assert mixed.bw_kib_s_spread and mixed.bw_kib_s_spread.mean == 2000.5 * 1024
    assert mixed.iops_spread and mixed.iops_spread.mean == 200000.5


def test_a_mixed_line_of_zeros_is_not_a_direction() -> None:
    beside = "  mixed: IOPS=0, BW=0 (0)(0B/2000msec)\n    clat (usec): min=1, max=2, avg= 1.50, stdev= 0.50\n  cpu  "

    job = read(OLD.replace("  cpu  ", beside)).jobs[0]

    assert list(job.directions) == ["read"]


def test_bandwidth_in_bits_is_converted_to_bytes() -> None:
    report = read(NEWER_LINES.replace("BW=11.4GiB/s (12.3GB/s)", "BW=182Mibit/s (191Mbit/s)"))

    assert report.jobs[0].directions["mixed"].bw_kib_s == 182 * 128


def test_text_and_json_of_the_same_run_agree_within_the_text_s_rounding() -> None:
    raw = (SAMPLES / "fio-3.33-document_job_both.txt").read_bytes()

    for ours, exact in zip(parse_fio_text(raw).jobs, parse_fio(raw).jobs, strict=True):
        assert (ours.name, ours.groupid, ours.error) == (exact.name, exact.groupid, exact.error)
        assert list(ours.directions) == list(exact.directions) == ["read", "write"]
        for name, rounded in ours.directions.items():
            unrounded = exact.directions[name]
            assert rounded.total_ios == unrounded.total_ios and rounded.runtime_ms == unrounded.runtime_ms
            assert rounded.iops == pytest.approx(unrounded.iops, rel=0.005)
            assert rounded.io_bytes == pytest.approx(unrounded.io_bytes, rel=0.005)
            assert (
                rounded.clat
                and unrounded.clat
                and rounded.clat.mean_ns == pytest.approx(unrounded.clat.mean_ns, rel=0.001)
            )
            assert dict(rounded.clat.percentiles_ns) == pytest.approx(dict(unrounded.clat.percentiles_ns), rel=0.01)
            assert asdict(rounded)["iops_spread"] == pytest.approx(asdict(unrounded)["iops_spread"], abs=0.005)


def test_a_failed_job_has_its_error_and_no_figures() -> None:
    report = parse_fio_text((SAMPLES / "fio-3.33-err_enospc.txt").read_bytes())

    assert (report.jobs[0].error, report.jobs[0].directions) == (28, {})
    assert "No space left on device" in (report.jobs[0].error_text or "")
    assert report.other_lines[0].startswith("fio: pid=18806, err=28")


def test_an_output_cut_anywhere_before_its_last_status_is_refused_or_says_what_is_missing() -> None:
    end = FOUR_GROUPS.rindex(b"WRITE: ")

    for length in range(0, end, 37):
        try:
            report = parse_fio_text(FOUR_GROUPS[:length])
        except FormatError:
            continue
        assert report.missing, FOUR_GROUPS[:length][-60:]


def test_a_job_that_is_cut_is_left_out_and_named() -> None:
    report = parse_fio_text(FOUR_GROUPS[: FOUR_GROUPS.index(b"issued rwt: total=23881029")])

    assert [job.name for job in report.jobs] == ["rw-rand-libaio-mysql-ext4"]
    assert report.missing[0] == "the rest of job rw-seq-libaio-mysql-ext4 (groupid=1)"
    assert "the jobs of group 3" in report.missing and "the run status of group 0" in report.missing


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("iops=32800", "iops=32,8k"),
        ("avg=112.75", "avg=112,75"),
        ("50.00th=[  110]", "50.00th=[  1l0]"),
        ("clat (usec): min=40", "clat (usec): mn=40"),
        ("clat percentiles (usec)", "clat percentiles (hours)"),
        ("usr=4.10%", "usr=four%"),
        ("total=r=65600", "total=r=many"),
        ("ios=65601/2,", "ios=65601,"),
        ("aggrb=262400KB/s", "aggrb=262400K/s"),
        ("     lat (usec): min", "    clat (usec): min"),
        ("  cpu  ", "  read : io=512.5MB, bw=262400KB/s, iops=32800, runt=  2000msec\n  cpu  "),
    ],
)
def test_a_line_that_fio_does_not_print_is_refused_with_its_place(wrong: str, right: str) -> None:
    assert wrong in OLD

    with pytest.raises(FormatError, match=r"fio text, line \d+: cannot read"):
        read(OLD.replace(wrong, right))


def test_the_latency_of_syncs_below_writes_is_refused() -> None:
    raw = (SAMPLES / "fio-3.33-fsync.txt").read_bytes()
    heading = next(line for line in raw.splitlines(keepends=True) if line.strip().startswith(b"fsync/fdatasync"))

    with pytest.raises(FormatError, match=r"line \d+"):
        parse_fio_text(raw.replace(heading, b""))


def test_two_runs_in_one_file_are_refused() -> None:
    with pytest.raises(FormatError, match="give one run at a time"):
        read(OLD + OLD)


@pytest.mark.parametrize(
    "name", ["fio-3.33-err_notdir.txt", "fio-3.33-err_permission.txt", "fio-3.33-err_no_jobfile.txt"]
)
def test_an_output_without_a_job_is_refused(name: str) -> None:
    with pytest.raises(FormatError, match="the output contains no report of a job"):
        parse_fio_text((SAMPLES / name).read_bytes())
