"""NumPy computes in the thread of the request: threads of its own would keep CPUs busy that PostgreSQL needs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COUNT_THREADS = """
import django
django.setup()
import stats
import numpy
numpy.linalg.inv(numpy.eye(500))
import os
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.thorough
def test_a_process_of_the_server_starts_no_threads_for_linear_algebra() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}

    done = subprocess.run(
        [sys.executable, "-c", COUNT_THREADS], env=environment, capture_output=True, text=True, check=True
    )

    assert done.stdout == "1\n"
