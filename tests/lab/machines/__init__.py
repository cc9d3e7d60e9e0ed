"""Virtual machines with several NUMA nodes: Debian 12 in QEMU, reached over SSH on loopback."""
