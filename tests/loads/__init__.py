"""What tpcc and twins promise, measured on this machine: the whole stack, and real campaigns over SSH."""
