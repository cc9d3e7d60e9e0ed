"""The kind in FORMATS that reads each kind of expected.json."""

KINDS = {
    "csv_document001": "huge-page-csv",
    "explain_error": "psql-error",
    "explain_json": "explain",
    "explain_text": "explain",
    "explain_xml": "explain",
    "explain_yaml": "explain",
    "fio_json": "fio",
    "fio_stderr": "fio-stderr",
    "pgbench_agglog": "pgbench-aggregate-log",
    "pgbench_error": "pgbench-stderr",
    "pgbench_init": "pgbench-init",
    "pgbench_log": "pgbench-log",
    "pgbench_progress": "pgbench-stderr",
    "pgbench_stdout": "pgbench",
    "sysbench": "sysbench",
    "sysbench_error": "sysbench-failure",
    "sysbench_prepare": "sysbench-prepare",
}
