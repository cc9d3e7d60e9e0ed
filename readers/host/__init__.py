"""Parsers of what Linux and numactl report about CPUs, memory and NUMA nodes."""
