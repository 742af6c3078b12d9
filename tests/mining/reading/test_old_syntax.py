"""Files of Python 2 in the syntax of today."""

import ast

import pytest

from musadata.mining.reading.old_syntax import parse_today
from tests.mining.slicing.test_slicing import cut, run

STATEMENTS = {
    'print "%d" % (1,\n    2), 3': 'print("%d" % (1,\n    2), 3)',
    "if 1: print 'a'; x = 2": "if 1: print('a'); x = 2",
    "try: pass\nexcept ValueError, e: pass": "try: pass\nexcept ValueError as e: pass",
    "raise ValueError, 'no %s' % 3": "raise ValueError('no %s' % 3)",
    "x = 0777 + 10L": "x = 0o777 + 10",
    "x = 1 <> 2": "x = 1 != 2",
    "x = x.cuda(0, async=True)": "x = x.cuda(0, non_blocking=True)",
    "exec 'x = 1'": "exec('x = 1')",
}


@pytest.mark.parametrize("text", STATEMENTS)
def test_statements_of_python_2_are_those_of_today_on_the_same_lines(text):
    tree, written = parse_today(f"{text}\n")
    assert written == f"{STATEMENTS[text]}\n"
    assert ast.dump(tree) == ast.dump(ast.parse(written))


def test_a_tab_beside_spaces_is_as_wide_as_eight():
    text = "def f(x):\n    if x:\n\treturn 1\n    return 2\n"
    space: dict = {}
    exec(parse_today(text)[1], space)
    assert (space["f"](1), space["f"](0)) == (1, 2)


def test_what_is_no_python_of_any_version_is_refused():
    for text in ("def f(:\n", "print 'a' 3 4\n", "x = = 3\n"):
        with pytest.raises(SyntaxError):
            parse_today(text)


def test_a_module_of_python_2_is_cut_out_and_runs():
    text = "from torch import nn\n\nclass Net(nn.Module):\n\tdef forward(self, x):\n\t\tprint 'in', x\n"
    text += "\t\treturn sum(x * i for i in xrange(3))\n"
    written = cut({"net.py": text}, "net.py", "Net")
    assert run(written)["Model"]()(2) == 6
