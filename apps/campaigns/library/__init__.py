"""What campaigns are built from: workloads, scripts, data sets, recipes of the team."""
