"""Kinds of the corpus that no reader knows yet. Whoever writes a reader takes its line out; the last one the file."""

NOT_YET = frozenset(
    {
        "csv_document001",
        "pgbench_agglog",
        "pgbench_log",
        "sysbench",
        "sysbench_error",
        "sysbench_prepare",
        #
        #
        #
        "cpuinfo",
        "fio_job",
        "fio_mixed",
        "fio_text",
        "lscpu_json",
        "lscpu_text",
        "meminfo",
        "numa_maps",
        "numactl_hardware",
        "numactl_show",
        "numastat",
        "pg_test_fsync",
        "pg_test_timing",
        "stap",
    }
)
