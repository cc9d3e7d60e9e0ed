"""Files in directories that another account owns: every write of root there goes through here.

Such an account can put a link, a FIFO or another directory anywhere in its place, at any moment. So a path is walked
from descriptor to descriptor, nothing is opened through a last link, files are made anew and written before they are
given away, and are given away by their descriptor. Where we are not root, we have nothing that a link could borrow.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Optional, Union

Where = Union[str, Path]
Owner = tuple[int, int]

MOST_LINKS = 20
MOST_BYTES = 64 << 20
_WAY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def directory(path: Where) -> Iterator[int]:
    """A descriptor (O_PATH) of a directory. OSError ELOOP where a link on the way is another account's to change, and
    does not lead to a directory of that very account."""
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
    """The descriptor at the end of the way; `fd` is closed."""
    try:
        for part in filter(None, parts):
            following = _step(fd, part, path, links)
            os.close(fd)
            fd = following
    except BaseException:
        os.close(fd)
        raise
    return fd


def _step(fd: int, part: str, path: str, links: int) -> int:
    found = os.open(part, _WAY, dir_fd=fd)
    about = os.fstat(found)
    if stat.S_ISDIR(about.st_mode):
        return found
    try:
        if not stat.S_ISLNK(about.st_mode):
            raise OSError(errno.ENOTDIR, "not a directory on the way", path)
        if links >= MOST_LINKS:
            raise OSError(errno.ELOOP, "too many links on the way", path)
        return _follow(fd, found, about, path, links)
    finally:
        os.close(found)


def _follow(fd: int, link: int, about: os.stat_result, path: str, links: int) -> int:
    to = os.readlink("", dir_fd=link)
    start = os.open("/" if to.startswith("/") else ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
    end = _walk(start, to.split("/"), path, links + 1)
    place = os.fstat(fd)
    ours = about.st_uid == 0 and place.st_uid == 0 and not place.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if ours or os.fstat(end).st_uid == about.st_uid != 0:
        return end
    os.close(end)
    raise OSError(errno.ELOOP, "a link on the way can be changed by another account: name the real path", path)


def new_file(path: Where, mode: int = 0o600) -> int:
    """A descriptor, for writing, of a file that was not there. FileExistsError for anything that is, links included."""
    with directory(os.path.dirname(path)) as fd:
        return os.open(os.path.basename(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | _PLAIN, mode, dir_fd=fd)


def create(path: Where, data: bytes = b"", owner: Optional[Owner] = None, mode: int = 0o600) -> None:
    """A new file of this content, given away (uid, gid) when it is written."""
    _fill(new_file(path), data, owner, mode)


def replace(path: Where, data: bytes, owner: Optional[Owner] = None) -> None:
    """Put `data` under `path` so that a reader, or a power cut, finds the old file or the new, never a part. Only its
    owner (uid, gid; us without one) may read it."""
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
    try:
        os.unlink(name, dir_fd=fd)
    except FileNotFoundError:
        return


def make_directory(path: Where, owner: Optional[Owner] = None, mode: int = 0o700) -> None:
    """A directory that was not there, given away (uid, gid)."""
    name = os.path.basename(path)
    with directory(os.path.dirname(path)) as fd:
        os.mkdir(name, mode, dir_fd=fd)
        if owner is None:
            return
        made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _PLAIN, dir_fd=fd)
        try:
            if os.fstat(made).st_uid != os.geteuid() or os.listdir(made):
                raise OSError(errno.ESTALE, "replaced while it was made", str(path))
            os.fchown(made, *owner)
        finally:
            os.close(made)


def opened(path: Where, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file with one name. OSError for a link (ELOOP) and for anything else (EINVAL)."""
    with directory(os.path.dirname(path)) as fd:
        found = os.open(os.path.basename(path), flags | _PLAIN, dir_fd=fd)
    about = os.fstat(found)
    if stat.S_ISREG(about.st_mode) and about.st_nlink == 1:
        return found
    os.close(found)
    raise OSError(errno.EINVAL, "not a regular file with one name", str(path))


def read(path: Where) -> bytes:
    """All of a regular file of at most 64 MiB."""
    with os.fdopen(opened(path), "rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"larger than {MOST_BYTES >> 20} MiB", str(path))
    return data


def append(path: Where, data: bytes) -> None:
    """At the end of a file that is there."""
    with os.fdopen(opened(path, os.O_WRONLY | os.O_APPEND), "wb") as file:
        file.write(data)


def remove(path: Where) -> None:
    """A file, or a link, that may be there."""
    try:
        with directory(os.path.dirname(path)) as fd:
            _unlink(fd, os.path.basename(path))
    except FileNotFoundError:
        return


def remove_tree(path: Where, *, ignore_errors: bool = False) -> None:
    """A directory with all it holds; of a link nothing is followed, nor removed."""
    try:
        with directory(os.path.dirname(path)) as fd:
            # The descriptor's own name: whatever becomes of the path, this is the directory that was walked to.
            shutil.rmtree(f"/proc/self/fd/{fd}/{os.path.basename(path)}")
    except OSError:
        if not ignore_errors:
            raise


def rename(old: Where, name: str) -> None:
    """Another name in the same directory."""
    with directory(os.path.dirname(old)) as fd:
        os.rename(os.path.basename(old), name, src_dir_fd=fd, dst_dir_fd=fd)


def take(path: Where, to: Where) -> bool:
    """Move a regular file into a directory that is ours alone; False when there is none. What is no regular file with
    one name is removed: there nobody can change it any more, so that looking is enough."""
    try:
        with directory(os.path.dirname(path)) as fd:
            _move(fd, os.path.basename(path), str(to))
    except FileNotFoundError:
        return False
    about = os.lstat(to)
    if stat.S_ISREG(about.st_mode) and about.st_nlink == 1:
        return True
    if stat.S_ISDIR(about.st_mode):
        shutil.rmtree(to)
    else:
        os.unlink(to)
    return False


def _move(fd: int, name: str, to: str) -> None:
    try:
        return os.rename(name, to, src_dir_fd=fd)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    with os.fdopen(os.open(name, os.O_RDONLY | _PLAIN, dir_fd=fd), "rb") as source, open(to, "wb") as target:
        about = os.fstat(source.fileno())
        if stat.S_ISREG(about.st_mode) and about.st_nlink == 1:
            shutil.copyfileobj(source, target, 1 << 20)
    return _unlink(fd, name)
