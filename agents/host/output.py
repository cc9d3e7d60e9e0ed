"""The output of a short command, within limits: the command may belong to an account that floods it."""

from __future__ import annotations

import os
import select
import selectors
import subprocess
import time


def read_output(child: subprocess.Popen[bytes], stdin: bytes, limit_s: float, most_bytes: int) -> tuple[bytes, bytes]:
    """What a command with three pipes writes to stdout and stderr until it ends. OverflowError once the two
    exceed `most_bytes`. TimeoutExpired, also if what has left its process group keeps the pipes open."""
    assert child.stdin and child.stdout and child.stderr  # noqa: S101 - for the type checker
    deadline = time.monotonic() + limit_s
    outputs = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as waiting, child.stdin, child.stdout, child.stderr:
        for fd in outputs:
            waiting.register(fd, selectors.EVENT_READ)
        waiting.register(child.stdin, selectors.EVENT_WRITE)
        while waiting.get_map():
            ready = waiting.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(child.args, limit_s)
            for key, _ in ready:
                if key.fd not in outputs:
                    stdin = _write(key.fd, stdin)
                    if not stdin:
                        waiting.unregister(child.stdin)
                        child.stdin.close()
                elif part := os.read(key.fd, 1 << 16):
                    outputs[key.fd] += part
                else:
                    waiting.unregister(key.fd)
            if sum(map(len, outputs.values())) > most_bytes:
                raise OverflowError(f"printed more than {most_bytes >> 20} MiB")
        child.wait(max(0.0, deadline - time.monotonic()))
    out, err = outputs.values()
    return bytes(out), bytes(err)


def _write(fd: int, data: bytes) -> bytes:
    """What remains of the data; nothing if the command reads no more."""
    try:
        return data[os.write(fd, data[: select.PIPE_BUF]) :]
    except BrokenPipeError:
        return b""
