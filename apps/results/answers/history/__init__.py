"""What is measured repeatedly over time: baselines of a host, trends of a schedule."""
