"""Parsers of fio's reports, job files, logs and text output."""
