"""What a host says of itself: lscpu, cpuinfo, meminfo, numactl, numastat, numa_maps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from readers.host.cpuinfo import parse_cpuinfo
from readers.host.lscpu import parse_lscpu
from readers.host.meminfo import parse_meminfo
from readers.host.numa_maps import Mapping, parse_numa_maps
from readers.host.numactl import parse_numactl_hardware, parse_numactl_show
from readers.host.numastat import parse_numastat


def cpuinfo_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_cpuinfo(raw)
    first, sockets = parsed.cpus[0], parsed.sockets
    return {
        "cpus": len(parsed.cpus),
        "apicid": [cpu.apicid for cpu in parsed.cpus],
        "cache_kb": first.cache_kb,
        "mhz": first.mhz,
        "model": first.model,
        "cores_per_socket": first.cores_of_socket,
        "threads_per_core": parsed.threads_per_core,
        "sockets": len(sockets) if sockets else None,
        "socket_cpus": {str(number): list(cpus) for number, cpus in sockets.items()} if sockets else None,
        "cpu_socket_core": {str(cpu.number): [cpu.socket, cpu.core] for cpu in parsed.cpus},
    }


def lscpu_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_lscpu(raw)
    nodes = {f"node{node}_cpus": ",".join(map(str, cpus)) for node, cpus in parsed.nodes_cpus}
    return asdict(parsed) | {"arch": parsed.architecture, **nodes}


def meminfo_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_meminfo(raw)
    return {**parsed.kb, **parsed.counts}


def numa_maps_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_numa_maps(raw)
    shared = parsed.shared_segment
    return {
        "lines": len(parsed.mappings),
        "policies": parsed.policies,
        "process_policy": parsed.process_policy,
        "anon_pages": sum(mapping.anon_pages for mapping in parsed.mappings),
        "dirty_pages": sum(mapping.dirty_pages for mapping in parsed.mappings),
        "total_kb_per_node": {f"N{node}": kb for node, kb in parsed.kb_per_node.items()},
        "shm": segment_values(shared) if shared else None,
    }


def segment_values(segment: Mapping) -> dict[str, Any]:
    pages = {f"N{node}": count for node, count in segment.pages}
    identity = {"file": segment.file, "page_kb": segment.page_kb, "policy": segment.policy}
    return {**identity, "pages": pages, "total_pages": segment.total_pages}


def hardware_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_numactl_hardware(raw)
    nodes = [
        {"id": node.number, "cpus": node.cpus, "size_mb": node.size_mb, "free_mb": node.free_mb}
        for node in parsed.nodes
    ]
    return {"nodes": nodes, "node_count": len(nodes), "distances": [list(row) for row in parsed.distances]}


def policy_values(raw: bytes) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(parse_numactl_show(raw)).items()
    }


def numastat_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_numastat(raw)
    return {"nodes": list(parsed.nodes), "counters": {name: list(counts) for name, counts in parsed.pages.items()}}


READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "cpuinfo": cpuinfo_values,
    "lscpu_json": lscpu_values,
    "lscpu_text": lscpu_values,
    "meminfo": meminfo_values,
    "numa_maps": numa_maps_values,
    "numactl_hardware": hardware_values,
    "numactl_show": policy_values,
    "numastat": numastat_values,
}
