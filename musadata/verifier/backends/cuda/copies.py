"""What a candidate's C++ brings to the host, on a device: the runtime's functions that are wrapped to count it."""

import re
from pathlib import Path

WATCHED_COPIES = Path(__file__).with_name("copies.cpp")
COPIES = tuple(re.findall(r"^WRAP(?:_LOOKUP)?\((\w+),", WATCHED_COPIES.read_text(encoding="utf-8"), re.MULTILINE))
