"""Campaigns, workloads, data sets and runs as JSON."""
