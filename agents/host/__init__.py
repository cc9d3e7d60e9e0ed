"""The machine: its one seam (system.py), its cpus, devices and sysctls, and where a run may write."""
