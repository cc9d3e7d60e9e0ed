"""Parsers of sysbench, SystemTap, tracers, and a table of huge pages."""
