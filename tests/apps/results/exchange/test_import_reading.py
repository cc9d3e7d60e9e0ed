"""Parsing of uploaded files before anything is written: names, manifests, tables and errors. Pure."""

from __future__ import annotations

import io
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps.results.imports import file_names, files
from apps.results.imports.files import gather
from apps.results.imports.understand import Understood, understand
from common.errors import PlanError

SAMPLES = Path(__file__).parents[3] / "samples"
PGBENCH = (SAMPLES / "pgbench-15-progress.out").read_bytes()
ABORTED = (SAMPLES / "pgbench-14-abort.out").read_bytes()
HEAD = b"pg_cache,idx1(ms),finish\n"


def understood(uploads: dict[str, bytes], **mapping: Any) -> Understood:
    return understand(gather(uploads.items()), mapping)


def zipped(method: int = zipfile.ZIP_DEFLATED, /, **contents: bytes | str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for path, content in contents.items():
            archive.writestr(path, content)
    return packed.getvalue()


def cells(parsed: Understood) -> list[tuple[dict[str, str], int]]:
    return [(dict(run.cell), run.block) for run in parsed.runs]


@pytest.mark.parametrize(
    ("pattern", "path", "levels"),
    [
        ("{policy}-{n}.out", "interleave-2.out", {"policy": "interleave", "n": "2"}),
        ("{policy}-{n}.out", "wal-off-2.out", {"policy": "wal-off", "n": "2"}),
        ("{policy}-{n}.out", "deep/er/default-1.out", {"policy": "default", "n": "1"}),
        ("{host}/*/{policy}.out", "db1/old/default.out", {"host": "db1", "policy": "default"}),
        ("{policy}-{n}.out", "default.out", None),
        ("{policy}-{n}.out", "-1.out", None),
        ("{policy}.out", "a/b.log", None),
    ],
)
def test_a_pattern_reads_levels_out_of_a_name(pattern: str, path: str, levels: dict[str, str] | None) -> None:
    assert file_names.compile_pattern(pattern).read(path) == levels


@pytest.mark.parametrize(
    "pattern", ["", "no field", "{a}{b}.out", "{a}-{a}", "{a", "{}", "{1x}", "x" * 201, "{a}**{b}"]
)
def test_an_ambiguous_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PlanError, match="pattern"):
        file_names.compile_pattern(pattern)


def test_a_pattern_is_matched_in_one_pass_for_any_name() -> None:
    pattern = file_names.compile_pattern("-".join(f"{{f{n}}}" for n in range(20)) + "!")

    assert pattern.read("-" * 300) is None


def test_names_that_end_in_numbers_propose_their_pattern() -> None:
    parsed = understood({"on-1.out": PGBENCH, "on-2.out": PGBENCH + b"\n", "off-10.out": PGBENCH + b"\n\n"})

    assert parsed.pattern == "{level}-{n}.out"
    assert cells(parsed) == [({"level": "off"}, 2), ({"level": "on"}, 0), ({"level": "on"}, 1)]


def test_without_a_pattern_each_file_is_a_level() -> None:
    assert cells(understood({"before.out": PGBENCH, "after.out": PGBENCH})) == [
        ({"file": "after"}, 0),
        ({"file": "before"}, 0),
    ]


def test_a_csv_manifest_adds_factors_that_file_names_lack() -> None:
    manifest = b"""file,host,policy,block,time
x.out,db1,default,1,2020-05-01T10:00:00
y.out,db1,interleave,1,2020-05-01T09:00:00Z
"""
    parsed = understood({"manifest.csv": manifest, "x.out": PGBENCH, "y.out": PGBENCH})

    assert cells(parsed) == [({"policy": "interleave"}, 0), ({"policy": "default"}, 0)]
    assert {run.host for run in parsed.runs} == {"db1"}
    assert parsed.runs[1].steps["measure"].entry.ended.isoformat() == "2020-05-01T10:00:00+00:00"  # type: ignore[union-attr]


def test_a_yaml_manifest_may_describe_the_campaign() -> None:
    manifest = """
name: policies
files:
  - {file: x.out, levels: {policy: default, wal_compression: on}}
  - {kind: pgbench, levels: {policy: local, wal_compression: on}, outcome: failed, error: the host went down}
"""
    parsed = understood({"manifest.yaml": manifest.encode(), "x.out": PGBENCH})

    assert parsed.about == {"name": "policies"}
    assert [run.cell["wal_compression"] for run in parsed.runs] == ["on", "on"]
    assert [(run.outcome, (run.error or {}).get("message")) for run in parsed.runs][1] == (
        "failed",
        "the host went down",
    )


def test_hosts_and_profiles_that_differ_are_factors() -> None:
    manifest = b"file,host,profile\nx.out,db1,oltp\ny.out,db2,oltp\n"

    parsed = understood({"manifest.csv": manifest, "x.out": PGBENCH, "y.out": PGBENCH})

    assert [factor["name"] for factor in parsed.factors] == ["host"]
    assert parsed.profiles == ("oltp",)


@pytest.mark.parametrize(
    ("name", "content", "place", "message"),
    [
        ("manifest.csv", b"host,policy\ndb1,default\n", "line 2", "no file name given"),
        ("manifest.csv", b"file,block\nx.out,first\n", "line 2", "not a repetition"),
        ("manifest.csv", b"file,time\nx.out,yesterday\n", "line 2, time", "not a time"),
        ("manifest.csv", b"file,outcome\nx.out,great\n", "line 2", "not an outcome"),
        ("manifest.csv", b"file,policy\nz.out,default\n", "z.out", "was not uploaded"),
        ("manifest.csv", b"file,kind\nx.out,excel\n", "x.out", "contains no figures"),
        ("manifest.yaml", b"files: [{file: x.out, levels: [a]}]", "levels", "not a mapping"),
        ("manifest.yaml", b"files: [{file: x.out, policy: a}]", "policy", "is not a known key of a file"),
        ("manifest.yaml", b"filez: []", "manifest.yaml", "lists no files"),
        ("manifest.yaml", b"{files: [], colour: red}", "colour", "is not a known key"),
        ("manifest.yaml", b"files: &a [*a]", "manifest.yaml", "alias"),
        ("manifest.yaml", b"files: [", "manifest.yaml", "not valid YAML"),
        ("manifest.yaml", b"!!python/object/apply:os.system [id]", "manifest.yaml", "not valid YAML"),
        ("manifest.yaml", b"{name: 3, files: [{file: x.out}]}", "name", "not of type"),
        ("manifest.yaml", b"\xff\xfe\x00", "manifest.yaml", "UTF-8"),
    ],
)
def test_an_error_in_a_manifest_is_named_with_its_place(name: str, content: bytes, place: str, message: str) -> None:
    parsed = understood({name: content, "x.out": PGBENCH})

    assert any(place in note.place and message in note.message for note in parsed.errors), parsed.notes


def test_a_repetition_that_two_files_claim_is_an_error() -> None:
    manifest = b"file,policy,block\nx.out,default,1\ny.out,default,1\n"

    parsed = understood({"manifest.csv": manifest, "x.out": PGBENCH, "y.out": PGBENCH})

    assert [(note.place, "x.out is already step measure" in note.message) for note in parsed.errors] == [
        ("y.out", True)
    ]


def test_unrecognised_files_are_left_out_with_a_warning() -> None:
    parsed = understood({"x.out": PGBENCH, "notes.txt": b"remember the milk\n"})

    assert [(note.severity, note.place) for note in parsed.notes] == [("warning", "notes.txt")]
    assert len(parsed.runs) == 1


def test_an_output_with_only_error_messages_is_a_failed_run() -> None:
    complaint = (SAMPLES / "pgbench-15-no_server.err").read_bytes()

    parsed = understood({"a.out": b"", "a.err": complaint, "b.out": PGBENCH})

    assert [(run.cell["file"], run.outcome) for run in parsed.runs] == [("a", "failed"), ("b", "ok")]


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (b"71,128MB,0.1\n72,64MB,0.2\n", "line 1", "is a value, not the name of a column"),
        (HEAD, "t.csv", "a line of names and at least one row"),
        (HEAD + b"128MB,0.1,2020-01-01T00:00:00,9\n", "line 2", "4 cells"),
        (b"a,a\n1,2\n", "line 1", "is not a valid name of a column"),
        (b'pg_cache,idx1(ms)\n"128MB,0.1\n', "line 2", "not valid CSV"),
        ("pg_cache,größe\n1,2\n".encode("latin-1"), "t.csv", "not UTF-8"),
        (b"pg_cache,idx1(ms)\n128MB,\0\n", "t.csv", "NUL"),
        (b"pg_cache,name\na,b\n", "t.csv", "none of its columns is a figure"),
    ],
)
def test_an_error_in_a_table_is_named_with_its_place(content: bytes, place: str, message: str) -> None:
    parsed = understood({"t.csv": content})

    assert any(place in note.place and message in note.message for note in parsed.errors), parsed.notes


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("table", ["pg_cache,idx1(ms)\r\n128MB,0.175\r\n", "pg_cache;idx1(ms)\n128MB;0,175\n"])
def test_tables_of_spreadsheets_are_read(encoding: str, table: str) -> None:
    parsed = understood({"t.csv": table.encode(encoding)})

    assert [(figure.name, figure.value, figure.unit) for figure in parsed.runs[0].steps["measure"].figures] == [
        ("idx1", 0.175, "ms")
    ]


@pytest.mark.parametrize("cell", ["=cmd|'/c calc'!A0", "@SUM(1)", "nan", "inf", "1e999", "0x10", "1_000", "١"])
def test_a_cell_without_a_number_fails_its_run(cell: str) -> None:
    parsed = understood({"t.csv": HEAD + f"128MB,0.1,\n64MB,{cell},\n".encode()})

    assert [run.outcome for run in parsed.runs] == ["ok", "failed"]
    assert repr(cell) in (parsed.runs[1].error or {})["message"] or not parsed.runs[1].steps["measure"].figures


def test_a_truncated_row_fails_and_one_without_a_level_is_left_out() -> None:
    rows = b"128MB,0.1,2020-01-01T00:00:00\nhugepage_error,2020-01-01T00:00:00\n128MB,0.1\n"

    parsed = understood({"t.csv": HEAD + rows})

    assert [run.outcome for run in parsed.runs] == ["ok", "failed"]
    assert [note.place for note in parsed.notes] == ["t.csv, line 3", "t.csv, line 4"]


def test_repetitions_of_a_table_are_counted_per_combination() -> None:
    parsed = understood({"t.csv": HEAD + b"1MB,0.1,\n2MB,0.2,\n1MB,0.3,\n"})

    assert cells(parsed) == [({"pg_cache": "1MB"}, 0), ({"pg_cache": "2MB"}, 0), ({"pg_cache": "1MB"}, 1)]


def test_the_baseline_is_the_level_that_is_named_first() -> None:
    parsed = understood({"t.csv": HEAD + b"1MB,0.1,\n2MB,0.2,\n4MB,0.2,\n"}, order={"pg_cache": ["4MB"]})

    assert [level["label"] for level in parsed.factors[0]["levels"]] == ["4MB", "1MB", "2MB"]


def bomb() -> bytes:
    """A few hundred kB that unpack to more than is taken."""
    return zipped(zeros=b"0" * (files.LARGEST_CONTENTS + 1))


def lying() -> bytes:
    """It declares a size in its directory that is not that of its contents."""
    packed = zipped(**{"a.out": PGBENCH})
    size = len(PGBENCH).to_bytes(4, "little")
    return packed.replace(size, (7).to_bytes(4, "little"))


def link() -> bytes:
    packed, member = io.BytesIO(), zipfile.ZipInfo("passwd")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(member, "/etc/passwd")
    return packed.getvalue()


def understated(size: int) -> bytes:
    """A zip whose only file claims to have 10 bytes."""
    packed = bytearray(zipped(a=b"0" * size))
    struct.pack_into("<I", packed, packed.rindex(b"PK\x01\x02") + 24, 10)
    return bytes(packed)


def with_entries(count: int) -> bytes:
    """A zip that lists its only file this often."""
    packed = zipped(a=b"0")
    start, end = packed.rindex(b"PK\x01\x02"), packed.rindex(b"PK\x05\x06")
    tail = bytearray(packed[end:])
    struct.pack_into("<I", tail, 12, (end - start) * count)
    return packed[:start] + packed[start:end] * count + bytes(tail)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: understated(64 << 20), "cannot be read"),
        (lambda: zipped(zipfile.ZIP_BZIP2, a=b"0" * (64 << 20)), "a compression method other than deflate"),
        (lambda: zipped(zipfile.ZIP_LZMA, a=b"0" * (64 << 20)), "a compression method other than deflate"),
        (lambda: with_entries(100_000), "100000 files; at most 5000"),
    ],
    ids=["false size", "bzip2", "lzma", "entries"],
)
def test_a_zip_takes_no_more_memory_than_its_contents_may_have(make: Callable[[], bytes], message: str) -> None:
    packed = make()
    tracemalloc.start()

    with pytest.raises(PlanError, match=message):
        files.gather([("upload.zip", packed)])

    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20


def test_many_zips_take_no_more_memory_together_than_one() -> None:
    packed = zipped(zeros=b"0" * (files.LARGEST_CONTENTS * 2 // 5))
    tracemalloc.start()

    with pytest.raises(PlanError, match="bytes when unpacked"):
        files.gather([(f"{n}.zip", packed) for n in range(4)])

    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1.5 * files.LARGEST_CONTENTS  # a file is joined from its parts


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: zipped(**{"../../etc/cron.d/x": b"x"}), "not a path inside a folder"),
        (lambda: zipped(**{"/etc/passwd": b"x"}), "not a path inside a folder"),
        (lambda: zipped(**{"C:\\x": b"x"}), "not a path inside a folder"),
        (lambda: zipped(**{"a//b": b"x"}), "not a path inside a folder"),
        (lambda: zipped(**{"a\x1b[2J.out": b"x"}), "cannot be stored"),
        (lambda: zipped(**{"x" * 400: b"x"}), "cannot be stored"),
        (lambda: zipped(**{"inner.zip": zipped(a=b"x")}), "a zip inside a zip"),
        (lambda: zipped(**{f"{n}.out": b"" for n in range(files.MOST_FILES + 1)}), "files; at most"),
        (link, "symbolic link"),
        (bomb, "more than"),
        (lying, "Bad CRC-32"),
        (lambda: zipped(a=b"x" * 100)[:-30], "cannot be read"),
        (lambda: b"PK\x03\x04 and then nothing of the kind", "cannot be read"),
    ],
)
def test_a_dangerous_zip_is_refused(make: Callable[[], bytes], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        gather([("old.zip", make())])


def test_two_files_of_one_name_are_refused() -> None:
    with pytest.raises(PlanError, match="two files have this name"):
        gather([("a.out", b"1"), ("a.out", b"2")])


def test_contents_are_the_same_however_they_were_packed() -> None:
    plain = gather([("a.out", PGBENCH), ("b.out", ABORTED)])
    packed = gather([("x.zip", zipped(**{"old/b.out": ABORTED, "old/a.out": PGBENCH, "__MACOSX/old/._a.out": b"?"}))])

    assert files.digest(plain) == files.digest(packed)
    assert files.digest(plain) != files.digest(gather([("a.out", PGBENCH), ("c.out", ABORTED)]))


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*")), ids=lambda path: path.name)
def test_any_file_is_parsed_or_has_a_named_error(path: Path) -> None:
    try:
        uploads = gather([(path.name, path.read_bytes())])
    except PlanError:
        return

    parsed = understand(uploads, {})

    assert parsed.runs or parsed.errors
