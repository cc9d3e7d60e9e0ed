"""What campaigns are made of: workloads, scripts, data sets, recipes of the team."""
