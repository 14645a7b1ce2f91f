#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_sizes.py catches each excess, one line beyond its limit, and nothing at the limit."""

import unittest

import fixture

LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"
README = {"src/codec/README.md": "# codec\n"}


def function(lines):
    """A C function of so many lines, head and braces included."""
    return "int f(int a,\n      int b)\n{\n" + "    a += b;\n" * (lines - 4) + "}\n"


class SizesTest(fixture.CheckerCase):
    tool = "check_sizes.py"

    def test_functions(self):
        self.accepts({"cli/x.c": LICENCE + function(60)})
        self.refuses({"cli/x.c": LICENCE + function(61)}, "cli/x.c:2: f has 61 lines")
        table = "static const int table[] =\n{\n" + "    1,\n" * 99 + "};\n"
        self.accepts({"cli/x.c": LICENCE + table})
        python = "# SPDX-License-Identifier: Apache-2.0\ndef f():\n"
        self.accepts({"tools/x.py": python + "    pass\n" * 59})
        self.refuses({"tools/x.py": python + "    pass\n" * 60}, "f has 61 lines")

    def test_the_median_of_the_library(self):
        source = "src/codec/x.c"
        self.accepts({**README, source: LICENCE + (function(15) + "\n") * 3})
        self.refuses({**README, source: LICENCE + (function(16) + "\n") * 3}, "median")

    def test_files(self):
        self.accepts({"cli/x.c": LICENCE + "int a;\n" * 599})
        self.refuses({"cli/x.c": LICENCE + "int a;\n" * 600}, "601 lines, at most 600")

    def test_what_a_program_wrote(self):
        made = "# SPDX-License-Identifier: Apache-2.0\n# Made by tools/make_x.py\n"
        self.accepts({"cli/x.py": made + "x = 1\n" * 700})
        self.refuses({"cli/x.py": made.split("\n", 1)[1] + "x = 1\n" * 700}, "first line lacks")

    def test_headers_of_rooms(self):
        self.accepts({"src/codec/x.h": LICENCE + "int a;\n" * 199})
        self.refuses({"src/codec/x.h": LICENCE + "int a;\n" * 200}, "x.h: 201 lines, a header of")
        self.accepts({"cli/x.h": LICENCE + "int a;\n" * 200})

    def test_fields_of_structs(self):
        def struct(fields, head="struct s"):
            return LICENCE + f"{head} {{\n" + fields + "};\n"

        self.accepts({"src/codec/x.h": struct("    int a;\n" * 40)})
        self.refuses({"src/codec/x.h": struct("    int a;\n" * 41)}, "x.h:2: s has 41 fields")
        self.refuses({"cli/x.c": struct("    int a;\n" * 41, "typedef struct")}, "41 fields")
        several = "    int a, *b, c[2 + 1];\n" * 13
        self.accepts({"cli/x.c": struct(several + "    int d; /* e; f; */\n")})
        self.refuses({"cli/x.c": struct(several + "    int d, e;\n")}, "41 fields")
        call = "    void (*f)(int a, int b);\n"
        self.accepts({"cli/x.c": struct(call * 40)})
        self.refuses({"cli/x.c": struct(call * 41)}, "41 fields")
        inside = "    struct {\n" + "        int a, b;\n" * 20 + "    } in;\n"
        self.accepts({"cli/x.c": struct(inside + "    int a;\n" * 39)})
        self.refuses({"cli/x.c": struct(inside + "    int a;\n" * 40)}, "2: s has 41 fields")
        inside = inside.replace("    } in", "        int c;\n    } in")
        self.refuses({"cli/x.c": struct(inside)}, "3: in has 41 fields")
        self.accepts({"include/shoal/x.h": struct("    int a; /* a */\n" * 50)})

    def test_columns(self):
        self.accepts({"cli/x.c": LICENCE + "/*" + "x" * 96 + "*/\n"})
        self.refuses({"cli/x.c": LICENCE + "/*" + "x" * 97 + "*/\n"}, "cli/x.c:2: 101 columns")
        self.refuses({"cli/x.c": LICENCE + "int a; \n"}, "cli/x.c:2: blanks at the end")

    def test_prose_of_public_headers(self):
        self.accepts({"include/shoal/x.h": LICENCE + "int a; /* one */\n\nint b;\n"})
        self.refuses({"include/shoal/x.h": LICENCE + 'char c[] = "/* no */";\n'}, "0 % of")
        self.refuses({"include/shoal/x.h": LICENCE + "/* x */\n" * 400}, "401 lines")

    def test_licences(self):
        self.refuses({"cli/x.c": "int a;\n"}, "cli/x.c:1: first line lacks SPDX")
        script = "#!/usr/bin/env python3\n# SPDX-License-Identifier: Apache-2.0\n"
        self.accepts({"tools/x.py": script})

    def test_readmes_of_rooms(self):
        self.refuses({"src/codec/x.c": LICENCE}, "src/codec/README.md: missing")
        self.accepts({"src/codec/x.c": LICENCE, "src/codec/README.md": "x\n" * 80})
        self.refuses({"src/codec/x.c": LICENCE, "src/codec/README.md": "x\n" * 81}, "more than 80")


if __name__ == "__main__":
    unittest.main()
