"""What Linux and numactl say about cpus, memory and NUMA nodes."""
