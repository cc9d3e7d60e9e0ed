"""Kinds of the corpus that no reader knows yet. Whoever writes a reader takes its line out; the last one the file."""

NOT_YET = frozenset(
    {
        "csv_document001",
        "explain_error",
        "explain_json",
        "explain_text",
        "explain_xml",
        "explain_yaml",
        "pgbench_agglog",
        "pgbench_log",
        "sysbench",
        "sysbench_error",
        "sysbench_prepare",
        #
        #
        #
    }
)
