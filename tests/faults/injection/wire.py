"""A TCP proxy on loopback with faults of networks: it cuts an SSH connection inside a frame, or drops its data."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

ADDRESS = "127.0.0.1"
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close() sends RST at once
START_S = 60.0


class Proxy:
    """Listens on `port`, passes on to `target`; a context manager. Its methods are for other threads."""

    def __init__(self, target: int) -> None:
        self.target, self.port = target, 0
        self.connections = self.resets = 0
        self._left: int | None = None  # bytes from the host until the next reset
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_S)

    def reset_after(self, size: int) -> None:
        """RST to both sides of every connection when `size` further bytes have come from the host."""
        self._left = size

    def reset(self) -> None:
        """The same at once."""
        self._call(self._reset)

    def swallow(self) -> None:
        """From now on drop all data without closing the connection, as lost packets do."""
        self._call(self._open.clear)

    def heal(self) -> None:
        """Pass all data again, held back data first."""
        self._call(self._open.set)

    def _call(self, function: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(function)

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(START_S)

    async def _listen(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._server = await asyncio.start_server(self._serve, ADDRESS, 0)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        self._server.close()
        self._reset()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            host_reader, host_writer = await asyncio.open_connection(ADDRESS, self.target)
        except OSError:
            writer.transport.abort()
            return
        mine = {writer, host_writer}
        self._writers |= mine
        try:
            await asyncio.gather(
                self._pass_on(reader, host_writer, from_host=False),
                self._pass_on(host_reader, writer, from_host=True),
            )
        except (OSError, asyncio.CancelledError):
            return  # cut: that is what we are for
        finally:
            self._writers -= mine
            for each in mine:
                each.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, from_host: bool) -> None:
        while data := await reader.read(1 << 16):
            await self._open.wait()
            if from_host and self._left is not None:
                data = self._counted(data)
            writer.write(data)
            await writer.drain()
            if self._left == 0:
                self._left = None
                self._reset()
        await self._open.wait()
        writer.close()

    def _counted(self, data: bytes) -> bytes:
        assert self._left is not None
        data = data[: self._left]
        self._left -= len(data)
        return data

    def _reset(self) -> None:
        self.resets += bool(self._writers)
        for writer in self._writers:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()
