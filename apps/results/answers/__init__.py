"""The results of a campaign, and comparisons between campaigns, runs or levels."""
