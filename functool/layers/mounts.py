"""Find the mount that holds a file."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")  # A space, a tab, a line end or a backslash.


def mount_of(path: str) -> tuple[str, str]:
    """Return the place and the file system of the mount that holds a path without links.

    Both are empty where the system does not say it. If the place is the path itself, the file is
    mounted without its directory. The log that SQLite writes beside it is not shared then.
    """
    found = "", ""
    with suppress(OSError):
        for line in MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            fields = line.split(" ")
            place = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields[4])
            inside = path == place or path.startswith(place.rstrip("/") + "/")
            if inside and len(place) >= len(found[0]):  # A later mount hides one at the same place.
                found = place, fields[fields.index("-") + 1]
    return found
