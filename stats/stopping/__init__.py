"""Interim analyses, planned and unplanned, and what each may cost."""
