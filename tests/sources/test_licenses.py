"""Which licence a file is under."""

import pytest

from musadata.config import SourceConfig, SourceType
from musadata.sources.code import CodeFiles
from musadata.sources.licenses import (
    UNKNOWN,
    folder_licenses,
    header_license,
    identify_text,
    is_allowed,
    license_of,
    metadata_license,
)
from musadata.sources.trees import MemoryTree

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
        (MIT + "\nThis binary distribution of X also bundles Y.\n\nGNU GENERAL PUBLIC LICENSE\n Version 3", "MIT"),
        (MIT + "\nGNU GENERAL PUBLIC LICENSE\n Version 3", "GPL-3.0"),
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


NVIDIA = (
    '# Copyright (c) 2021, NVIDIA CORPORATION.  All rights reserved.\n"""NVIDIA CORPORATION and its licensors retain '
    "all intellectual property\nand proprietary rights. Any use without an express license agreement from\n"
    'NVIDIA CORPORATION is strictly prohibited."""\nimport torch\n'
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (NVIDIA, UNKNOWN),
        ("# This work is licensed under the NVIDIA Source Code License-NC\nx = 1\n", UNKNOWN),
        ('class A:\n    """Adapted from X.\n\n    Licensed under CC BY-NC-SA 3.0 US.\n    """\n', UNKNOWN),
        ("x = 1\n\n# Adapted from a repository under CC BY-NC 4.0\ny = 2\n", UNKNOWN),
        ("# Licensed under the MIT License, for non-commercial purposes\n", UNKNOWN),
        ("# SPDX-License-Identifier: Apache-2.0\n# For research purposes only.\n", UNKNOWN),
        ("# Licensed under the Odd Licence 7\nx = 1\n", UNKNOWN),
        ("# Released under the GPL v3\nx = 1\n", UNKNOWN),
        ("// Any use is strictly prohibited.\n__global__ void f() {}\n", UNKNOWN),
        ("# Copyright (c) OpenMMLab. All rights reserved.\nx = 1\n", ""),
        ("# This source code is licensed under the license found in the LICENSE file in the root directory.\n", ""),
        ("# See LICENSE for license information.\nx = 1\n", ""),
        ('"""Reads license plates."""\nx = 1\n', ""),
        ("# Modified from X (MIT License) and Y (Apache License 2.0)\n", "Apache-2.0 AND MIT"),
        ("x = 'strictly prohibited'\n", ""),
        ("print 'Python 2'\nsetup(classifiers=['License :: OSI Approved :: MIT License'])\n", ""),
        ("# Released under the GPL v3, see http://x.org\nprint 'Python 2'\n", UNKNOWN),
        ('"""For non-commercial use."""\nprint "Python 2"\n', UNKNOWN),
    ],
)
def test_a_header_that_restricts_or_is_not_understood_is_unknown(text, name):
    assert header_license(text) == name


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("MIT", True),
        ("MIT AND Apache-2.0", True),
        ("MIT AND GPL-3.0", False),
        ("GPL-3.0 OR MIT", True),
        ("(GPL-3.0 OR MIT) AND Apache-2.0", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        (UNKNOWN, False),
        ("", False),
        ("MIT AND", False),
    ],
)
def test_an_expression_is_allowed_if_the_allowed_licences_satisfy_it(expression, holds):
    assert is_allowed(expression, {"MIT", "Apache-2.0"}) is holds


def test_licence_files_of_one_folder_hold_together_and_notices_restrict_what_they_name():
    restricting = "net/odd.py is under the Nvidia Source Code License-NC"
    files = [("LICENSE", MIT), ("LICENSE-APACHE", "Apache License\nVersion 2.0"), ("NOTICE", restricting)]
    by_folder, restricted = folder_licenses([*files, ("third/LICENSES/X.txt", "All rights reserved.")])
    assert by_folder == {"": "Apache-2.0 AND MIT", "third": UNKNOWN}
    assert restricted == {"net/odd.py": UNKNOWN}
    assert folder_licenses([*files[:1], ("THIRD_PARTY_NOTICE", "parts are for research purposes only")])[0] == {
        "": UNKNOWN
    }


def test_the_licence_of_a_row_holds_for_every_file_that_it_comes_from():
    files = {"a.py": "x = 1\n", "b.py": NVIDIA, "c.py": "# Apache License 2.0\n", "LICENSE": MIT}
    tree = MemoryTree({path: text.encode() for path, text in files.items()})
    source = CodeFiles("test", tree, SourceConfig(SourceType.DIRECTORY), seed=1)
    assert source.provenance("a.py", "1-1").license == "MIT"
    assert source.provenance("a.py", "1-1", ["c.py", "a.py"]).license == "Apache-2.0 AND MIT"
    assert source.provenance("a.py", "1-1", ["b.py"]).license == UNKNOWN
