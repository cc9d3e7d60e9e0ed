"""Twins: a data set and a workload made from a captured production database."""
