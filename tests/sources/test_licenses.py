"""Which licence a file is under."""

import pytest

from musadata.sources.licenses import UNKNOWN, header_license, identify_text, license_of, metadata_license

MIT = "MIT License\n\nPermission is hereby granted, free of charge, to any person obtaining a copy of this software"
BSD2 = "Redistribution and use in source and binary forms, with or without modification, are permitted"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (MIT, "MIT"),
        (BSD2, "BSD-2-Clause"),
        (BSD2 + "\n3. Neither the names of X nor its contributors may be used to endorse", "BSD-3-Clause"),
        ("                Apache License\n       Version 2.0, January 2004", "Apache-2.0"),
        ("GNU GENERAL PUBLIC LICENSE\n Version 3, 29 June 2007", "GPL-3.0"),
        ("GNU AFFERO GENERAL PUBLIC LICENSE\n Version 3", "AGPL-3.0"),
        ("All rights reserved.", UNKNOWN),
        (MIT + " for non-commercial purposes only", UNKNOWN),
    ],
)
def test_texts_are_recognised(text, name):
    assert identify_text(text) == name


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("# SPDX-License-Identifier: Apache-2.0 OR MIT\nimport x", "Apache-2.0 OR MIT"),
        ("// SPDX-License-Identifier: BSD-3-Clause\n", "BSD-3-Clause"),
        ("# Licensed under the Apache License, Version 2.0 (the\n# License)", "Apache-2.0"),
        ("import x\n", ""),
    ],
)
def test_headers_are_read(head, name):
    assert header_license(head) == name


def test_the_nearest_licence_file_above_decides_and_the_file_itself_before_it():
    folders = {"": "MIT", "third_party/nv": "NOASSERTION"}
    assert license_of("a/b.py", "", folders, "") == "MIT"
    assert license_of("third_party/nv/deep/k.cu", "", folders, "MIT") == "NOASSERTION"
    assert license_of("third_party/nv/k.cu", "Apache-2.0", folders, "") == "Apache-2.0"
    assert license_of("a.py", "", {}, "") == UNKNOWN


def test_metadata_is_read_in_order_of_trust():
    assert metadata_license("BSD-3-Clause", "MIT", []) == "BSD-3-Clause"
    assert metadata_license("", "Apache License 2.0", []) == "Apache-2.0"
    assert metadata_license("", "", ["License :: OSI Approved :: MIT License"]) == "MIT"
    assert metadata_license("", "see the file", []) == UNKNOWN
