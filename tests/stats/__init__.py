"""The statistics against oracles: published tables, other libraries, simulation."""
