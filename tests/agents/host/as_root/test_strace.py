"""System calls that count as calls of root in the output of strace."""

from __future__ import annotations

from pathlib import Path

from tests.agents.host.as_root import strace

OUTPUT = """\
1 execve("/bin/as_root", ["as_root"], 0x7 /* 3 vars */) = 0
1 setresuid(-1, 1000, -1) = 0
1 execve("/bin/as_user", ["as_user"], 0x7 /* 3 vars */) = 0
1 setresuid(-1, 0, -1) = 0
1 execve("/bin/as_root_again", ["as_root_again"], 0x7 /* 3 vars */) = 0
1 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>
2 setreuid(65534, 65534) = 0
1 <... clone resumed>) = 2
2 execve("/bin/as_nobody", ["as_nobody"], 0x7 /* 3 vars */) = 0
1 openat(AT_FDCWD, "/etc/machine-id", O_RDONLY|O_CLOEXEC) = 3</etc/machine-id>
1 openat(AT_FDCWD, "/missing", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)
"""


def test_calls_count_as_roots_by_the_effective_user_of_their_process(tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.write_text(OUTPUT)

    trace = strace.of(output)

    assert trace.executed == {"/bin/as_root", "/bin/as_root_again"}
    assert [one.path for one in trace.read] == ["/etc/machine-id"] and trace.written == set()
