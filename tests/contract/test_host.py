"""What a host says of itself: numa_maps, numastat, numactl, lscpu, cpuinfo, meminfo; and the tracer's output."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from agents.host import numa_maps as agent_numa_maps
from common.errors import FormatError
from readers.host.cpuinfo import parse_cpuinfo
from readers.host.lscpu import cpu_list, parse_lscpu
from readers.host.meminfo import HugePages, parse_meminfo
from readers.host.numa_maps import parse_numa_maps
from readers.host.numactl import Node, parse_numactl_hardware, parse_numactl_show
from readers.host.numastat import parse_numastat
from readers.others.stap import Query, parse_stap

SAMPLES = Path(__file__).parents[1] / "samples"
HARDWARE = """\
available: 2 nodes (0-1)
node 0 cpus: 0 2
node 0 size: 4040 MB
node 0 free: 2978 MB
node 1 cpus:
node 1 size: 0 MB
node 1 free: 0 MB
node distances:
node   0   1
  0:  10  20
  1:  20  10
"""
HUGE = "7f00 default file=/SYSV00000001\\040(deleted) huge dirty=4 N0=1 N1=3 kernelpagesize_kB=2048\n"


def test_numa_maps_weighs_pages_by_their_size() -> None:
    maps = parse_numa_maps(f"{HUGE}8000 bind:0 anon=2 dirty=2 N0=2 kernelpagesize_kB=4\n".encode())

    assert maps.kb_per_node == {0: 2056, 1: 6144}
    assert maps.shared_segment and maps.shared_segment.file == "/SYSV00000001 (deleted)"
    assert maps.process_policy == "bind:0"


def test_the_one_page_segment_beside_shared_memory_is_not_taken_for_it() -> None:
    decoy = "8f00 default file=/SYSV001d4fe9\\040(deleted) dirty=1 mapmax=8 N1=1 kernelpagesize_kB=4\n"
    real = "7f00 interleave:0-1 file=/dev/zero\\040(deleted) dirty=9 N0=5 N1=4 kernelpagesize_kB=4\n"

    segment = parse_numa_maps((decoy + real).encode()).shared_segment

    assert segment and segment.policy == "interleave:0-1" and segment.total_pages == 9


@pytest.mark.parametrize("policy", ["default", "interleave=0-1", "weighted interleave:0-1", "prefer (many):0", "local"])
def test_policies_of_any_kernel_are_read_as_they_are_spelt(policy: str) -> None:
    assert parse_numa_maps(f"7f00 {policy} anon=1 N0=1\n".encode()).policies == {policy: 1}


@pytest.mark.parametrize("name", [path.name for path in sorted(SAMPLES.glob("*numa_maps*"))])
def test_the_agent_and_the_server_read_the_same_from_numa_maps(name: str) -> None:
    raw = (SAMPLES / name).read_bytes()

    ours, theirs = parse_numa_maps(raw), agent_numa_maps.parse(raw.decode())

    assert {str(node): kb for node, kb in ours.kb_per_node.items()} == agent_numa_maps.total(theirs)
    assert [mapping.total_pages * mapping.page_kb for mapping in ours.mappings] == [sum(m.kb.values()) for m in theirs]


def test_a_last_line_without_its_end_is_left_out_for_its_digits_may_be_cut() -> None:
    maps = parse_numa_maps(b"7f00 default anon=1 N0=1\n8000 default anon=26 N0=2")

    assert maps.cut and maps.kb_per_node == {0: 4}


@pytest.mark.parametrize(
    "line", ["default anon=1", "7f00", "7f00 default N0=many", "7f00 default anon=-1", "7f00 Default"]
)
def test_a_line_that_is_not_the_kernel_s_is_refused(line: str) -> None:
    with pytest.raises(FormatError, match="numa_maps, line 2: cannot read"):
        parse_numa_maps(f"7f00 default\n{line}\n7f00 default\n".encode())


def test_numastat_counts_since_an_earlier_reading() -> None:
    before, after = (
        parse_numastat((SAMPLES / f"document000-numastat-interleave-{when}.txt").read_bytes())
        for when in ("before", "after")
    )

    grown = after.since(before)

    assert grown["interleave_hit"] == (946319 - 192452, 347903 - 192169)
    assert grown["numa_miss"] == (0, 0)
    with pytest.raises(FormatError, match="has shrunk"):
        before.since(after)
    with pytest.raises(FormatError, match="nodes are"):
        after.since(parse_numastat(b"node0\nnuma_hit 1\n"))


def test_numastat_cut_short_says_which_counters_are_missing() -> None:
    whole = (SAMPLES / "document000-numastat-interleave-after.txt").read_bytes()

    assert parse_numastat(whole).missing == ()
    assert parse_numastat(whole[:-2]).missing == ("other_node",)


@pytest.mark.parametrize(
    "raw", [b"", b"numa_hit 1\n", b"node0 node1\n", b"node0\nnuma_hit 1.5\n", b"node0\na 1\na 1\n"]
)
def test_a_file_that_is_not_a_numastat_table_is_refused(raw: bytes) -> None:
    with pytest.raises(FormatError):
        parse_numastat(raw)


def test_numactl_hardware_distinguishes_nodes_without_cpus_from_old_releases() -> None:
    newer = parse_numactl_hardware(HARDWARE.encode())
    older = parse_numactl_hardware((SAMPLES / "document000-numactl_hardware.txt").read_bytes())

    assert newer.nodes == (Node(0, (0, 2), 4040, 2978), Node(1, (), 0, 0))
    assert newer.distances == ((10, 20), (20, 10)) and newer.missing == ()
    assert older.nodes[0].cpus is None


@pytest.mark.parametrize(
    ("until", "missing"), [("node 1 cpus", ("nodes: 1 of 2",)), ("  1:  20", ("distances",)), ("node distances", ())]
)
def test_numactl_hardware_cut_short_says_what_is_missing(until: str, missing: tuple[str, ...]) -> None:
    assert parse_numactl_hardware(HARDWARE[: HARDWARE.index(until)].encode()).missing == missing


@pytest.mark.parametrize("extra", ["nonsense\n", "node 0 size: 1 MB\n"])
def test_numactl_hardware_with_other_lines_is_refused(extra: str) -> None:
    with pytest.raises(FormatError):
        parse_numactl_hardware((HARDWARE + extra).encode())


def test_numactl_show_has_the_policy_of_a_new_process() -> None:
    policy = parse_numactl_show(
        b"policy: interleave\npreferred node: 0 (interleave next)\ninterleavemask: 0 1\nmembind: 0 1\n"
    )

    assert (policy.policy, policy.membind, policy.physcpubind) == ("interleave", (0, 1), None)
    with pytest.raises(FormatError, match="no policy"):
        parse_numactl_show(b"membind: 0\n")
    with pytest.raises(FormatError, match="membind is 'all'"):
        parse_numactl_show(b"policy: default\nmembind: all\n")


def test_lscpu_says_the_same_in_text_and_in_json() -> None:
    text, document = (parse_lscpu((SAMPLES / f"lscpu-real.{form}").read_bytes()) for form in ("txt", "json"))

    assert text == document
    assert text.nodes_cpus == ((0, (0, 1)),)


def test_lscpu_json_may_nest_its_entries() -> None:
    entries = [
        {"field": "Architecture:", "data": "x86_64"},
        {"field": "CPU(s):", "data": "8", "children": [{"field": "On-line CPU(s) list:", "data": "0-7"}]},
        {"field": "NUMA:", "data": None, "children": [{"field": "NUMA node1 CPU(s):", "data": "1,3-5"}]},
    ]

    parsed = parse_lscpu(json.dumps({"lscpu": entries}).encode())

    assert (parsed.cpus, parsed.nodes_cpus, parsed.sockets) == (8, ((1, (1, 3, 4, 5)),), None)


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b'{"lscpu": 1}',
        b'{"lscpu": [1]}',
        b"Architecture: x86_64\n",
        b"no colon\n",
        b"Architecture: a\nCPU(s): x\n",
    ],
)
def test_a_file_that_is_not_from_lscpu_is_refused(raw: bytes) -> None:
    with pytest.raises(FormatError):
        parse_lscpu(raw)


def test_lists_of_cpus_are_the_kernel_s() -> None:
    assert cpu_list("0-2,4") == (0, 1, 2, 4)
    assert cpu_list("") == ()
    for wrong in ("0-", "a", "0,,1", "0-999999,0-999999"):
        with pytest.raises(FormatError, match="is not a list of CPUs"):
            cpu_list(wrong)


def test_cpuinfo_has_sockets_only_if_every_cpu_has() -> None:
    both = b"processor : 0\nphysical id : 1\n\nprocessor : 1\nphysical id : 0\n"

    assert parse_cpuinfo(both).sockets == {0: (1,), 1: (0,)}
    assert parse_cpuinfo(both + b"\nprocessor : 2\n").sockets is None
    with pytest.raises(FormatError, match="a processor appears twice"):
        parse_cpuinfo(both + both)
    with pytest.raises(FormatError, match="no processor"):
        parse_cpuinfo(b"CPU implementer : 0x41\n")


def test_huge_pages_of_meminfo_are_complete_or_absent() -> None:
    raw = (SAMPLES / "meminfo_hugepages-real.txt").read_bytes()

    parsed = parse_meminfo(raw)

    assert parsed.huge_pages == HugePages(total=71, free=40, reserved=40, surplus=0, page_kb=2048)
    assert parsed.huge_pages.in_use == 31 and not parsed.cut
    assert parse_meminfo(b"MemTotal:  16 kB\nHugePages_Total:  7\n").huge_pages is None
    assert parse_meminfo(raw[:-3]).cut


@pytest.mark.parametrize("raw", [b"", b"MemTotal: 16 MB\n", b"MemTotal 16 kB\n", b"A: 1 kB\nA: 2 kB\n"])
def test_a_file_that_is_not_meminfo_is_refused(raw: bytes) -> None:
    with pytest.raises(FormatError):
        parse_meminfo(raw)


@pytest.mark.needs("numactl")
def test_outputs_of_this_machine_are_read() -> None:
    def output_of(*argv: str) -> bytes:
        environment = {**os.environ, "LC_ALL": "C"}
        return subprocess.run(argv, check=True, capture_output=True, timeout=60, env=environment).stdout

    cpus = parse_cpuinfo(Path("/proc/cpuinfo").read_bytes()).cpus

    assert parse_lscpu(output_of("lscpu")).cpus == parse_lscpu(output_of("lscpu", "-J")).cpus == len(cpus)
    assert parse_meminfo(Path("/proc/meminfo").read_bytes()).kb["MemTotal"] > 0
    assert parse_numa_maps(Path("/proc/self/numa_maps").read_bytes()).process_policy
    assert parse_numactl_hardware(output_of("numactl", "--hardware")).missing == ()
    assert parse_numactl_show(output_of("numactl", "--show")).policy == "default"
    assert parse_numastat(output_of("numastat")).missing == ()


START, DONE = "query__start select 1;pid:7\n", "query__done select 1;pid:7\n"


def test_a_trace_gives_the_reads_of_each_query() -> None:
    other = "query__start select 2;pid:8\n8**5**100\n7**94417**5461\n"

    trace = parse_stap(f"{START}{other}{DONE}".encode())

    assert trace.queries == (Query("select 1", 7, 94417, 5461),)
    assert trace.unfinished == ("select 2",) and not trace.cut


def test_a_query_that_begins_again_before_its_end_is_unfinished() -> None:
    trace = parse_stap(f"{START}7**1**2\n{START}7**3**4\n{DONE}".encode())

    assert trace.queries == (Query("select 1", 7, 3, 4),) and trace.unfinished == ("select 1",)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (START, "the output contains no complete query"),
        (f"7**1**2\n{DONE}", "has no beginning"),
        (f"{START}{DONE}", "no figures"),
        (f"{START}7**1\n{DONE}", "line 2: cannot read"),
        (f"{START}7**1**2\n{DONE.strip()}", "the output contains no complete query"),
    ],
)
def test_a_trace_without_its_lines_is_refused(raw: str, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        parse_stap(raw.encode())
