"""Safe file operations in directories of other accounts: root writes there through this module only.

Such an account can replace any entry by a link, a FIFO or another directory at any moment. So a path is resolved one
descriptor at a time, the last component is never followed, and a file is created new, written, and only then given to
its owner by descriptor. An agent that is not root resolves paths as usual: a link gains no rights from it.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator, Optional, Union

Where = Union[str, Path]
Owner = tuple[int, int]

MOST_LINKS = 20
MOST_BYTES = 64 << 20
_WAY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# Of what may be a link to a FIFO, which would stop us, or to a terminal, which would become the one that controls us.
HARMLESS = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PLAIN = os.O_NOFOLLOW | HARMLESS


@contextmanager
def directory(path: Where) -> Iterator[int]:
    """A descriptor (O_PATH) of a directory. OSError ELOOP if another account can change a link in the path, unless the
    link leads to a directory of that same account."""
    if os.geteuid():
        fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    else:
        root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        fd = _walk(root, os.path.abspath(path).split("/"), str(path), 0)
    try:
        yield fd
    finally:
        os.close(fd)


def _walk(fd: int, parts: list[str], path: str, links: int) -> int:
    """The descriptor of the last directory; `fd` is closed, after an error too."""
    for part in filter(None, parts):
        try:
            following = _step(fd, part, path, links)
        finally:
            os.close(fd)
        fd = following
    return fd


def _step(fd: int, part: str, path: str, links: int) -> int:
    entry = os.open(part, _WAY, dir_fd=fd)
    about = os.fstat(entry)
    if stat.S_ISDIR(about.st_mode):
        return entry
    try:
        if not stat.S_ISLNK(about.st_mode):
            raise OSError(errno.ENOTDIR, f"{part} is not a directory", path)
        if links >= MOST_LINKS:
            raise OSError(errno.ELOOP, "too many links in the path", path)
        return _follow(fd, entry, about, path, links)
    finally:
        os.close(entry)


def _follow(fd: int, link: int, about: os.stat_result, path: str, links: int) -> int:
    to = os.readlink("", dir_fd=link)
    start = os.open("/" if to.startswith("/") else ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
    end = _walk(start, to.split("/"), path, links + 1)
    parent = os.fstat(fd)
    is_roots = about.st_uid == 0 and parent.st_uid == 0 and not parent.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if is_roots or os.fstat(end).st_uid == about.st_uid != 0:
        return end
    os.close(end)
    raise OSError(errno.ELOOP, "another account can change a link in the path: use the real path", path)


def new_file(path: Where, mode: int = 0o600) -> int:
    """A descriptor, for writing, of a new file. FileExistsError if the name exists, even as a link."""
    with directory(os.path.dirname(path)) as fd:
        return os.open(os.path.basename(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | _PLAIN, mode, dir_fd=fd)


def create(path: Where, data: bytes = b"", owner: Optional[Owner] = None, mode: int = 0o600) -> None:
    """Create a file with this content, and then give it to `owner` (uid, gid)."""
    _fill(new_file(path), data, owner, mode)


def replace(path: Where, data: bytes, owner: Optional[Owner] = None) -> None:
    """Replace a file atomically: readers and a power cut see the old content or the new. Only `owner` (uid, gid; the
    agent by default) can read it."""
    name = os.path.basename(path)
    fresh = f"{name}.new"
    with directory(os.path.dirname(path)) as fd:
        _unlink(fd, fresh)
        made = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o600, dir_fd=fd)
        try:
            _fill(made, data, owner, 0o600)
            os.rename(fresh, name, src_dir_fd=fd, dst_dir_fd=fd)
        finally:
            _unlink(fd, fresh)
        _sync(fd)


def _fill(fd: int, data: bytes, owner: Optional[Owner], mode: int) -> None:
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(fd, mode)
        if owner:
            os.fchown(fd, *owner)
        os.fsync(fd)


def _sync(fd: int) -> None:
    opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _unlink(fd: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=fd)


def make_directory(path: Where, owner: Optional[Owner] = None, mode: int = 0o700) -> None:
    """Create a directory and give it to `owner` (uid, gid). FileExistsError if the name exists."""
    name = os.path.basename(path)
    with directory(os.path.dirname(path)) as fd:
        os.mkdir(name, mode, dir_fd=fd)
        if owner is None:
            return
        made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _PLAIN, dir_fd=fd)
        try:
            if os.fstat(made).st_uid != os.geteuid() or os.listdir(made):
                raise OSError(errno.ESTALE, "replaced during its creation", str(path))
            os.fchown(made, *owner)
        finally:
            os.close(made)


def link(existing: Where, path: Where) -> None:
    """Create a hard link to a file. FileExistsError if the name exists."""
    names = os.path.basename(existing), os.path.basename(path)
    with directory(os.path.dirname(existing)) as source, directory(os.path.dirname(path)) as fd:
        os.link(*names, src_dir_fd=source, dst_dir_fd=fd, follow_symlinks=False)


def make_device(path: Where, number: int, owner: Owner) -> None:
    """Create a node of the block device with this number (st_rdev), which only `owner` (uid, gid) can open.
    FileExistsError if the name exists."""
    name = os.path.basename(path)
    with directory(os.path.dirname(path)) as fd:
        os.mknod(name, stat.S_IFBLK | 0o600, number, dir_fd=fd)
        os.chown(name, *owner, dir_fd=fd, follow_symlinks=False)


def make_directories(path: Where) -> None:
    """Create a directory with its missing parents, with the mode that the umask leaves. It may exist."""
    path = os.path.abspath(path)
    try:
        with directory(path):
            return
    except FileNotFoundError:
        make_directories(os.path.dirname(path))
    make_directory(path, mode=0o777)


def opened(path: Where, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file with one name. OSError for a link (ELOOP) and for anything else (EINVAL)."""
    with directory(os.path.dirname(path)) as fd:
        return _opened(fd, os.path.basename(path), flags, str(path))


def _opened(parent: int, name: str, flags: int, path: str) -> int:
    fd = os.open(name, flags | _PLAIN, dir_fd=parent)
    if _is_plain(os.fstat(fd)):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "not a regular file with one name", path)


def open_regular(path: Where) -> int:
    """A descriptor, for reading, of a regular file that links may lead to. OSError EINVAL for anything else, which is
    not opened: opening a device, such as a watchdog, can start it."""
    way = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(way).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return os.open(f"/proc/self/fd/{way}", os.O_RDONLY | HARMLESS)
    finally:
        os.close(way)


def _is_plain(about: os.stat_result) -> bool:
    return stat.S_ISREG(about.st_mode) and about.st_nlink == 1


def read(path: Where) -> bytes:
    """Read a regular file of at most 64 MiB."""
    with os.fdopen(opened(path), "rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"larger than {MOST_BYTES >> 20} MiB", str(path))
    return data


def append(path: Where, data: bytes) -> None:
    """Append to an existing file."""
    with os.fdopen(opened(path, os.O_WRONLY | os.O_APPEND), "wb") as file:
        file.write(data)


def remove(path: Where) -> None:
    """Remove a file or a link, if it exists."""
    with suppress(FileNotFoundError), directory(os.path.dirname(path)) as fd:
        os.unlink(os.path.basename(path), dir_fd=fd)


def remove_tree(path: Where, *, ignore_errors: bool = False) -> None:
    """Remove a directory with its content; a link in its place is neither followed nor removed. With `ignore_errors`,
    remove as much as possible."""
    ignored = (OSError,) if ignore_errors else ()
    with suppress(*ignored), directory(os.path.dirname(path)) as fd:
        # By descriptor, because the path may lead elsewhere now.
        shutil.rmtree(f"/proc/self/fd/{fd}/{os.path.basename(path)}", ignore_errors)


def rename(old: Where, name: str) -> None:
    """Rename an entry within its directory."""
    with directory(os.path.dirname(old)) as fd:
        os.rename(os.path.basename(old), name, src_dir_fd=fd, dst_dir_fd=fd)


def take(path: Where, to: Where) -> bool:
    """Move a regular file into a directory that only the agent can write. False if there is no such file: anything
    else, even a file with several names, stays out of that directory."""
    name = os.path.basename(path)
    with suppress(FileNotFoundError), directory(os.path.dirname(path)) as fd:
        try:
            os.rename(name, to, src_dir_fd=fd)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            return _copy(fd, name, to)
        return _is_taken(to)
    return False


def _is_taken(to: Where) -> bool:
    """Whether a regular file arrived; remove anything else. Nobody else can change it there, so a check is safe."""
    about = os.lstat(to)
    if _is_plain(about):
        return True
    if stat.S_ISDIR(about.st_mode):
        shutil.rmtree(to)
    else:
        os.unlink(to)
    return False


def _copy(fd: int, name: str, to: Where) -> bool:
    """Move a file from another file system."""
    if not _is_plain(os.stat(name, dir_fd=fd, follow_symlinks=False)):
        return False
    with os.fdopen(_opened(fd, name, os.O_RDONLY, name), "rb") as source, open(to, "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    _unlink(fd, name)
    return True
