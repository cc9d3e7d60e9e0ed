"""tpcc: the load that is derived from TPC-C. Its data set is agents/datasets/tpcc.py."""
