"""Convert uploads (several files, or a zip) to files with safe names. Pure."""

from __future__ import annotations

import hashlib
import io
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from common.errors import PlanError

MOST_FILES = 5000
MOST_ENTRIES = 4 * MOST_FILES  # of a zip, with its directories and the files that are left out
LARGEST_UPLOAD = 64 * 1024**2
# Of all unpacked files; benchmark outputs shrink to a tenth or less.
LARGEST_CONTENTS = 256 * 1024**2
LONGEST_PATH = 300
# Files that operating systems add to a zip by themselves.
_LITTER = re.compile(r"(^|/)(__MACOSX/|\.DS_Store$|Thumbs\.db$|desktop\.ini$)")
_ENCRYPTED = 0x1
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those that zipfile can unpack in parts
ZIP = b"PK\x03\x04"
_ENTRY = b"PK\x01\x02"  # begins each entry of a zip's list of files


@dataclass(frozen=True)
class File:
    """`path` is relative, with / between its parts."""

    path: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def stem(self) -> str:
        """The path without its last suffix. An output and its stderr have the same one."""
        return str(PurePosixPath(self.path).with_suffix(""))

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.path).suffix.lower()


def natural(text: str) -> list[tuple[int, int | str]]:
    """Return a key that sorts run-2 before run-10."""
    parts = re.split(r"([0-9]{1,18})", text)
    return [(0, int(part)) if part.isascii() and part.isdigit() else (1, part) for part in parts]


def gather(uploads: Iterable[tuple[str, bytes]]) -> list[File]:
    """Return the files in natural order, zips unpacked, without their common directories.

    PlanError names the file that is refused and why: an unsafe path, a zip bomb, too many files."""
    gathered: list[File] = []
    left = LARGEST_CONTENTS
    for name, content in uploads:
        added = _unzip(name, content, left) if content.startswith(ZIP) else [File(_valid_path(name), content)]
        left -= sum(len(file.content) for file in added)
        gathered += added
        _check_amount(len(gathered), LARGEST_CONTENTS - left)
    if not gathered:
        raise PlanError("files", "no file was uploaded", hint="accepted: one or more files, or a zip")
    stripped = _without_common_directories(gathered)
    paths: set[str] = set()
    for file in stripped:
        if file.path in paths:
            raise PlanError(
                file.path,
                "two files have this name",
                hint="compress the folders into one zip: paths keep the names distinct",
            )
        paths.add(file.path)
    return sorted(stripped, key=lambda file: natural(file.path))


def digest(files: Sequence[File]) -> str:
    """Return a digest that only depends on paths and contents, not on packing."""
    lines = sorted(f"{file.sha256} {file.path}\n" for file in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _check_amount(files: int, total: int) -> None:
    if files > MOST_FILES:
        raise PlanError("files", f"{files} files; at most {MOST_FILES} are accepted", hint="import them in parts")
    if total > LARGEST_CONTENTS:
        raise PlanError("files", f"{total} bytes; at most {LARGEST_CONTENTS} are accepted", hint="import them in parts")


def _unzip(name: str, content: bytes, left: int) -> list[File]:
    """Unpack a zip whose files have at most `left` bytes together."""
    entries = content.count(_ENTRY)
    if entries > MOST_ENTRIES:  # zipfile would create an object for each
        raise PlanError(name, f"{entries} files; at most {MOST_FILES} are accepted", hint="import them in parts")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return list(_members(name, archive, left))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError) as error:
        raise PlanError(name, f"the zip cannot be read: {error}", hint="create the zip again") from error


def _members(name: str, archive: zipfile.ZipFile, left: int) -> Iterator[File]:
    members = [each for each in archive.infolist() if not each.is_dir() and not _LITTER.search(each.filename)]
    if len(members) > MOST_FILES:
        raise PlanError(name, f"{len(members)} files; at most {MOST_FILES} are accepted", hint="import them in parts")
    for member in members:
        file = _member(name, archive, member, left)
        left -= len(file.content)
        yield file


def _member(name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo, left: int) -> File:
    """Unpack a member up to its declared size. One with more content fails its checksum and is refused."""
    where = f"{name}: {member.filename[:80]}"
    path = _valid_path(member.filename)
    if member.flag_bits & _ENCRYPTED:
        raise PlanError(where, "the file is encrypted", hint="create the zip without a password")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise PlanError(where, "the file is a symbolic link", hint="include the file that it points to")
    if member.compress_type not in METHODS:
        raise PlanError(where, "a compression method other than deflate", hint="create the zip with the usual method")
    if member.file_size > left:
        raise PlanError(where, f"more than {LARGEST_CONTENTS} bytes when unpacked", hint="import them in parts")
    with archive.open(member) as opened:
        content = opened.read(member.file_size)  # without a limit, zipfile first unpacks up to 2 GiB
    if content.startswith(ZIP):
        raise PlanError(where, "a zip inside a zip", hint="unpack the inner one first")
    return File(path, content)


def _valid_path(path: str) -> str:
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path or ":" in parts[0] or {"", ".", ".."} & set(parts):
        raise PlanError(
            path[:80] or "files", "not a path inside a folder", hint="use a relative path such as run/1.out"
        )
    if not path.isprintable() or len(path) > LONGEST_PATH:
        hint = f"accepted: printable characters, at most {LONGEST_PATH}"
        raise PlanError(ascii(path[:80]), "this file name cannot be stored", hint=hint)
    return path


def _without_common_directories(files: Sequence[File]) -> list[File]:
    parents = [PurePosixPath(file.path).parent.parts for file in files]
    depth = 0
    while all(len(parts) > depth and parts[depth] == parents[0][depth] for parts in parents) and files:
        depth += 1
    return [File("/".join(PurePosixPath(file.path).parts[depth:]), file.content) for file in files]
