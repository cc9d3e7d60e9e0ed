"""The commands of `proving`, one file per family."""
