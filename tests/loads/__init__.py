"""Measurements of tpcc and twins on this machine: the whole stack, and real campaigns over SSH."""
