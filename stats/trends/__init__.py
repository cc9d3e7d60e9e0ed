"""What changes with time: over the runs of a campaign, over days, within a run."""
