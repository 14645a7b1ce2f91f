#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make install` into a folder: a program is built against it through pkg-config and runs under the
command; the manual pages are sound and name every option."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import packages

BUILD = os.environ.get("SHOAL_BUILD", "build/dev")
SOURCE = os.path.join(packages.ROOT, "examples", "c_allreduce.c")


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="shoal-install-test-"))
        cls.prefix = os.path.join(cls.root, "usr", "local")
        env = {"DESTDIR": cls.root}
        packages.run("cmake", "--install", BUILD, "--prefix", "/usr/local", env=env)
        (cls.lib,) = [
            os.path.dirname(p)
            for p in glob.glob(f"{cls.prefix}/lib*/**/libshoal.a", recursive=True)
        ]
        cls.pages = sorted(glob.glob(os.path.join(cls.prefix, "share/man/man1/*.1")))
        cls.pages3 = sorted(glob.glob(os.path.join(cls.prefix, "share/man/man3/*.3")))
        cls.shoal = os.path.join(cls.prefix, "bin", "shoal")

    def flags(self, *options):
        env = {"PKG_CONFIG_PATH": os.path.join(self.lib, "pkgconfig")}
        return packages.run("pkg-config", *options, "shoal", env=env).split()

    def exported(self, name):
        path = os.path.join(self.lib, f"lib{name}.so")
        return set(re.findall(r"\bT (shoal_\w+)", packages.run("nm", "-D", path)))

    def test_who_only_talks_loads_little(self):
        """libshoal needs none of what reads images, fonts or models; its twin needs it."""
        needed = packages.run("readelf", "-d", os.path.join(self.lib, "libshoal.so"))
        found = set(re.findall(r"NEEDED.*\[lib([a-z]+)", needed))
        talks = {"c", "m", "ssl", "crypto", "zstd", "jansson", "openblas"}
        self.assertEqual(set(), found - talks)
        needed = packages.run("readelf", "-d", os.path.join(self.lib, "libshoal_train.so"))
        self.assertIn("[libshoal.so.0]", needed)

    def test_headers_say_in_which_library_they_are(self):
        trains = self.exported("shoal_train")
        for path in glob.glob(f"{self.prefix}/include/shoal/*.h"):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            functions = set(re.findall(r"\b(shoal_\w+)\(", text))
            said = "Of libshoal_train: pkg-config shoal_train." in text
            self.assertEqual(bool(functions & trains), said, path)

    def test_a_program_that_plans_links_both(self):
        source = os.path.join(self.root, "plan.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(
                "#include <shoal/model.h>\n#include <stdio.h>\n"
                'int main(void) { puts(shoal_model_zoo_name(0)); puts(shoal_version()); }\n'
            )
        program = os.path.join(self.root, "plan")
        env = {"PKG_CONFIG_PATH": os.path.join(self.lib, "pkgconfig")}
        flags = packages.run("pkg-config", "--cflags", "--libs", "shoal_train", env=env).split()
        packages.run("cc", source, "-o", program, *flags)
        said = packages.run(program, env={"LD_LIBRARY_PATH": self.lib}).split()
        self.assertEqual(self.flags("--modversion"), said[1:])

    def test_a_program_is_built_and_runs(self):
        program = os.path.join(self.root, "c_allreduce")
        packages.run(
            "cc", "-std=c17", SOURCE, "-o", program, *self.flags("--cflags", "--libs"), "-lm"
        )
        needed = packages.run("readelf", "-d", program)
        self.assertIn("[libshoal.so.0]", needed)
        env = {"LD_LIBRARY_PATH": self.lib}
        said = packages.run(self.shoal, "run", "-n", "2", "--", program, env=env)
        self.assertIn("2 ranks, identity: largest error 0.0000", said)

    def test_nothing_names_the_folder_that_it_was_built_in(self):
        folders = {os.path.realpath(packages.ROOT), os.path.realpath(BUILD)}
        for at, _, names in os.walk(self.prefix):
            for name in names:
                with open(os.path.join(at, name), "rb") as file:
                    data = file.read()
                for folder in folders:
                    self.assertFalse(folder.encode() in data, os.path.join(at, name))

    def readme_program(self):
        """sum.c as it stands in README.md."""
        with open(os.path.join(packages.ROOT, "README.md"), encoding="utf-8") as file:
            (text,) = re.findall(r"^In C, `sum\.c`:\n\n```c\n(.*?)^```", file.read(), re.M | re.S)
        source = os.path.join(self.root, "sum.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        return source

    def check_sum(self, program):
        said = packages.run(self.shoal, "run", "-n", "4", "--", program)
        self.assertEqual(["4.00 8.00 12.00 16.00"] * 4, said.split("\n")[:4])

    def test_the_program_of_the_readme(self):
        program = os.path.join(self.root, "sum")
        flags = self.flags("--cflags", "--libs")
        packages.run("cc", self.readme_program(), "-o", program, *flags, f"-Wl,-rpath,{self.lib}")
        self.check_sum(program)

    def test_cmake_finds_the_library(self):
        project = os.path.join(self.root, "project")
        os.makedirs(project, exist_ok=True)
        shutil.copy(self.readme_program(), project)
        with open(os.path.join(project, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(
                "cmake_minimum_required(VERSION 3.20)\nproject(sum C)\n"
                "find_package(shoal 0.1 REQUIRED)\nadd_executable(sum sum.c)\n"
                "target_link_libraries(sum PRIVATE shoal::shoal)\n"
                "add_executable(both sum.c)\ntarget_link_libraries(both PRIVATE shoal::train)\n"
            )
        build = os.path.join(project, "build")
        packages.run("cmake", "-S", project, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        packages.run("cmake", "--build", build)
        self.check_sum(os.path.join(build, "sum"))
        self.check_sum(os.path.join(build, "both"))
        other = ["-S", project, "-B", build + "2", f"-DCMAKE_PREFIX_PATH={self.prefix}"]
        with open(os.path.join(project, "CMakeLists.txt"), "a", encoding="utf-8") as file:
            file.write("find_package(shoal 7.0 REQUIRED)\n")
        done = subprocess.run(["cmake", *other], capture_output=True, check=False)
        self.assertNotEqual(0, done.returncode, "version 7 was found")

    def test_every_public_function_has_a_page(self):
        pages = {os.path.basename(p) for p in glob.glob(f"{self.prefix}/share/man/man3/*.3")}
        names = self.exported("shoal") | self.exported("shoal_train")
        self.assertGreater(len(names), 100)
        self.assertEqual(set(), {f"{name}.3" for name in names} - pages)

    def test_completion_knows_verbs_and_options(self):
        script = os.path.join(self.prefix, "share/bash-completion/completions/shoal")

        def completed(*words):
            line = " ".join(f"'{word}'" for word in words)
            said = packages.run(
                "bash", "-c",
                f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _shoal; "
                'printf "%s\n" "${COMPREPLY[@]}"',
                env={"PATH": f"{self.prefix}/bin:{os.environ['PATH']}"},
            )
            return said.split()

        self.check_completion(completed)
        self.assertEqual(["train", "trace"], completed("shoal", "tr"))
        self.assertIn("--codec=", completed("shoal", "train", "--co"))
        self.assertEqual([], completed("shoal", "status", "--codec"))

    def test_completion_of_zsh(self):
        """The functions of zsh's own that it calls are replaced: zsh has them only while a user
        types."""
        if shutil.which("zsh") is None:
            self.skipTest("zsh is not installed")
        script = os.path.join(self.prefix, "share/zsh/vendor-completions/_shoal")
        stubs = """
            _describe() { while [[ $1 == -* ]]; do [[ $1 == -t ]] && shift 2 || shift; done
                          print -rl -- "${(@P)2}" }
            compset() { PREFIX=${PREFIX#*=} }
            compdef() { : }
            _files() { print FILES }
        """

        def completed(*words):
            said = packages.run(
                "zsh", "-f", "-c",
                f'{stubs}\nsource {script}\nwords=("$@"); CURRENT=$#words; PREFIX=$words[-1]'
                "\n_shoal",
                "zsh", *words, env={"PATH": f"{self.prefix}/bin:{os.environ['PATH']}"},
            )  # fmt: skip
            return [line.partition(":")[0] for line in said.splitlines()]

        self.check_completion(completed)
        self.assertIn("fp16", completed("shoal", "train", "--codec=fp"))
        self.assertEqual(["FILES"], completed("shoal", "train", "x"))

    def test_completion_of_fish(self):
        if shutil.which("fish") is None:
            self.skipTest("fish is not installed")
        script = os.path.join(self.prefix, "share/fish/vendor_completions.d/shoal.fish")

        def completed(*words):
            said = packages.run(
                "fish", "--no-config", "-c", f"source {script}; complete -C '{' '.join(words)}'",
                env={"PATH": f"{self.prefix}/bin:{os.environ['PATH']}"},
            )  # fmt: skip
            return [line.partition("\t")[0] for line in said.splitlines()]

        self.check_completion(completed)
        self.assertIn("--codec=fp16", completed("shoal", "train", "--codec=fp"))
        self.assertEqual([], completed("shoal", "status", "--codec"))

    def check_completion(self, completed):
        """completed(*words): what the last one may become, and perhaps more."""
        self.assertIn("train", completed("shoal", "tr"))
        self.assertIn("train", completed("shoal", "help", "tr"))
        self.assertIn("--codec=", completed("shoal", "train", "--co"))
        self.assertIn("--no-overlap", completed("shoal", "train", "--no-o"))
        self.assertIn("--iters=", completed("shoal", "bench", "allreduce", "--it"))
        self.assertIn("fp16", completed("shoal", "train", "--codec", "fp"))
        self.assertNotIn("name", completed("shoal", "train", "--codec", "na"))
        self.assertIn("codecs", completed("shoal", "list", "co"))
        self.assertIn("fp16", completed("shoal", "list", "codecs", "fp"))

    def test_so_is_one_with_the_library_inside(self):
        program = os.path.join(self.root, "static")
        flags = self.flags("--static", "--cflags", "--libs")
        flags = [os.path.join(self.lib, "libshoal.a") if f == "-lshoal" else f for f in flags]
        packages.run("cc", "-std=c17", SOURCE, "-o", program, *flags)
        self.assertNotIn("libshoal", packages.run("readelf", "-d", program))
        said = packages.run(self.shoal, "run", "-n", "2", "--", program)
        self.assertIn("2 ranks, identity: largest error 0.0000", said)

    def test_versions_agree(self):
        said = packages.run(self.shoal, "--version").split()[1]
        self.assertEqual([said], self.flags("--modversion"))
        name = f"libshoal.so.{said}"
        self.assertTrue(os.path.isfile(os.path.join(self.lib, name)))
        for link in ("libshoal.so", f"libshoal.so.{said.split('.')[0]}"):
            self.assertEqual(name, os.path.basename(os.path.realpath(os.path.join(self.lib, link))))
        self.assertTrue(os.path.isfile(os.path.join(self.lib, f"libshoal_train.so.{said}")))

    def test_the_unit_names_what_is_installed(self):
        unit = os.path.join(self.prefix, "lib/systemd/system/shoal-aggregator.service")
        with open(unit, encoding="utf-8") as file:
            page = re.search(r"Documentation=file:/usr/share/doc/shoal/(\S+)", file.read()).group(1)
        self.assertTrue(os.path.isfile(os.path.join(self.prefix, "share/doc/shoal", page)))

    def test_every_option_stands_in_a_page(self):
        listed = packages.run(self.shoal, "--help")
        verbs = re.findall(r"^  (?!shoal)(\w+) +\w", listed, re.M)
        self.assertGreater(len(verbs), 10)
        names = {os.path.basename(page) for page in self.pages}
        for verb in verbs:
            self.assertIn(f"shoal-{verb}.1", names)
            with open(f"{self.prefix}/share/man/man1/shoal-{verb}.1", encoding="ascii") as file:
                page = file.read().replace("\\-", "-")
            self.assertIn(".SH EXAMPLES\n", page, verb)
            for option in re.findall(r"^ {2,6}(?:-.*, )?(--[\w-]+)", self.help(verb), re.M):
                self.assertIn(f"\\fB{option}\\fR", page, verb)

    def help(self, verb):
        """What stands above the examples."""
        return packages.run(self.shoal, verb, "--help").split("\nExample")[0]

    def test_pages_are_sound(self):
        if shutil.which("mandoc") is None:
            self.skipTest("mandoc is missing (packages.txt)")
        packages.run("mandoc", "-T", "lint", "-W", "warning", *self.pages, *self.pages3)
        planted = os.path.join(self.root, "planted.1")
        with open(planted, "w", encoding="ascii") as file:
            file.write(".TH X 1\n.SH NAME\n.nope\n")
        done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", planted], capture_output=True)
        self.assertNotEqual(0, done.returncode)

    def test_pages_are_the_same_again(self):
        again = os.path.join(self.root, "again")
        tool = os.path.join(packages.ROOT, "tools", "make_man.py")
        packages.run("python3", tool, "--command", self.shoal, "--out", again)
        for page in self.pages:
            with open(page, "rb") as one, open(
                os.path.join(again, os.path.basename(page)), "rb"
            ) as two:
                self.assertEqual(one.read(), two.read(), page)
        tool = os.path.join(packages.ROOT, "tools", "make_man3.py")
        packages.run("python3", tool, "--out", again)
        for page in self.pages3:
            with open(page, "rb") as one, open(
                os.path.join(again, os.path.basename(page)), "rb"
            ) as two:
                self.assertEqual(one.read(), two.read(), page)


if __name__ == "__main__":
    if shutil.which("cmake") is None or not os.path.exists(os.path.join(BUILD, "man", "shoal.1")):
        print(f"skipped: cmake, or {BUILD}/man, is missing (cmake --build {BUILD})")
        sys.exit(packages.SKIP)
    unittest.main()
