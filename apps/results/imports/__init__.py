"""Parse a team's old results: from uploaded bytes to the runs of a campaign. Pure; services.py stores them."""
