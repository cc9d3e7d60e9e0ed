"""fio's job files: what each job gets, what runs together, what would run programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import FormatError
from readers.fio.job import JobFile, parse_fio_job

SAMPLES = Path(__file__).parents[2] / "samples"


def read(text: str) -> JobFile:
    return parse_fio_job(text.encode())


def test_a_job_has_the_options_of_the_global_sections_above_it() -> None:
    jobs = read("[global]\nbs=8k\ndirect=1\n[a]\nrw=read\n[global]\nbs=16k\n[b]\ndirect=0\n").jobs

    assert [(job.name, job.options) for job in jobs] == [
        ("a", {"bs": "8k", "direct": "1", "rw": "read"}),
        ("b", {"bs": "16k", "direct": "0"}),
    ]


def test_a_wall_or_a_new_group_separates_jobs() -> None:
    jobs = read("[a]\nstonewall\n[b]\n[c]\nstonewall=0\n[d]\nwait_for_previous\n[e]\nnew_group=1\n[f]\n").jobs

    assert {job.name: job.group for job in jobs} == {"a": 0, "b": 0, "c": 0, "d": 1, "e": 2, "f": 2}


def test_a_wall_for_all_separates_every_job() -> None:
    assert [job.group for job in read("[global]\nstonewall\n[a]\n[b]\n[c]\n").jobs] == [0, 1, 2]


def test_the_published_job_file_runs_its_four_jobs_one_after_the_other() -> None:
    parsed = parse_fio_job((SAMPLES / "document002-fio_job.fio").read_bytes())

    assert [job.group for job in parsed.jobs] == [0, 1, 2, 3]
    assert parsed.jobs[0].options["numjobs"] == "64"
    assert not parsed.risks


def test_comments_are_cut_where_fio_cuts_them() -> None:
    parsed = read("; first\n# second\n[a] # third\nbs=8k;4th\nfilename=one#two\n")

    assert parsed.sections[0].options == (("bs", "8k"), ("filename", "one"))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("exec_prerun=reboot", "runs a command in a shell"),
        ("exec_postrun = reboot", "runs a command in a shell"),
        ("ioengine=exec", "runs a program"),
        ("program=/bin/sh", "runs a program"),
        ("ioengine=external:/srv/x.so", "loads a library"),
        ("ioengine=./x.so", "loads a library"),
        ("filename=/dev/sda", "uses a device"),
        ("filename=/data/a:/dev/nvme0n1", "uses a device"),
        ("directory=/dev/shm", "uses devices"),
        ("opendir=/etc", "uses every file below a directory"),
        ("read_iolog=x.log", "uses the files that a log names"),
        ("include other.fio", "reads another file"),
        ("ioscheduler=none", "changes the host's I/O scheduler"),
        ("uid=0", "runs as another user"),
    ],
)
def test_options_that_do_more_than_file_io_are_reported_with_the_reason(line: str, why: str) -> None:
    (risk,) = read(f"[a]\nrw=read\n{line}\n").risks

    assert (risk.section, risk.why) == ("a", why)
    assert risk.option in line and risk.value in line


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no job"),
        ("[global]\nbs=8k\n", "no job"),
        ("bs=8k\n[a]\n", "line 1: 'bs=8k' is above the first section"),
        ("[a\nbs=8k\n", "line 1: cannot read"),
        ("[a]\n=8k\n", "line 2: cannot read"),
        ("[a]\nbs 8k\n", "line 2: cannot read"),
        ('{"a": 1}\n', "line 1: cannot read"),
    ],
)
def test_a_file_that_is_not_a_job_file_is_refused(text: str, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        read(text)
