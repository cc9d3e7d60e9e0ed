"""fio's report, job file, logs and normal output."""
