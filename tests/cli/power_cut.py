# SPDX-License-Identifier: Apache-2.0
"""What a disk may hold after its power was cut, by the notes of tests/support/preload/power_cut.c:
what was synced is there; of the rest any part may be, drawn by a generator of random numbers.

A folder's entries are there as they were when it was last synced, and of what was done to them
since (make, rename, remove) each is kept or lost for itself, a rename as a whole. A file's bytes
are those of its last fsync, or else: what was written since, a part of it, or zeros in its place.
POSIX promises no more, and disks and file systems differ in what they do beyond it."""
import os
import shutil

import shoal

LAYER = os.path.abspath(os.path.join(shoal.BUILD, "tests", "libpower_cut.so"))
FOLDER = "folder"  # in an entry's place for a file


def inode(path):
    """As the notes name it."""
    return str(os.lstat(path).st_ino)


class Disk:
    """One folder, watched from now on, as long as it is there."""

    def __init__(self, below, room):
        """room: an empty folder for notes and copies."""
        self.below, self.notes = below, os.path.join(room, "notes")
        self.synced = {}  # folder: {name: file or FOLDER}
        self.since = {}  # folder: what was done to its entries since
        self.bytes = []  # of each file: path of its synced bytes; None: none were
        self.inodes = {}  # inode: file
        os.mkdir(self.notes)
        before = os.path.join(room, "before")
        shutil.copytree(below, before)
        for folder, folders, files in os.walk(below):
            name = os.path.relpath(folder, below)
            self.synced[name] = dict.fromkeys(folders, FOLDER)
            self.since[name] = []
            for file in files:
                self.inodes[inode(os.path.join(folder, file))] = len(self.bytes)
                self.synced[name][file] = len(self.bytes)
                self.bytes.append(os.path.join(before, name, file))

    def environment(self, at=0, who="all"):
        """For the processes to watch; the at-th operation kills."""
        return {"LD_PRELOAD": LAYER, "SHOAL_CUT_BELOW": self.below, "SHOAL_CUT_NOTES": self.notes,
                "SHOAL_CUT_AT": str(at), "SHOAL_CUT_WHO": who}

    def operations(self):
        """How many there were."""
        with open(os.path.join(self.notes, "count"), "rb") as file:
            return int.from_bytes(file.read(), "little")

    def lines(self):
        path = os.path.join(self.notes, "log")
        if not os.path.exists(path):  # killed before it did anything
            return []
        with open(path, encoding="utf-8") as file:
            return [line.rstrip("\n").split("\t") for line in file]

    def moment(self):
        """At what it was killed, in words; None: it was not."""
        cut = [line for line in self.lines() if line[0] == "cut"]
        return "operation {1}, {2} of {3}".format(*cut[0]) if cut else None

    # ---------------------------------------------------------------- following

    def change(self, path, what, file=None):
        folder, name = os.path.split(path)
        self.since[folder or "."].append((what, name, file))

    def follow(self):
        """All that was noted."""
        for what, *words in self.lines():
            if what == "create":
                self.inodes[words[0]] = len(self.bytes)
                self.change(words[1], "set", len(self.bytes))
                self.bytes.append(None)
            elif what == "mkdir":
                self.change(words[0], "set", FOLDER)
                self.synced[words[0]], self.since[words[0]] = {}, []
            elif what == "rename":
                assert os.path.dirname(words[1]) == os.path.dirname(words[2]), words
                file = self.inodes[words[0]]
                self.change(words[2], "move from " + os.path.basename(words[1]), file)
            elif what == "remove":
                self.change(words[0], "del")
            elif what == "file":
                self.bytes[self.inodes[words[0]]] = os.path.join(self.notes, words[1])
            elif what == "folder":
                self.synced[words[0]] = self.entries(words[0], lambda: True)
                self.since[words[0]] = []

    def entries(self, folder, kept):
        """Of a folder, if kept() says of each change since it was synced whether it lasts."""
        found = dict(self.synced[folder])
        for what, name, file in self.since[folder]:
            if not kept():
                continue
            if what == "del":
                found.pop(name, None)
                continue
            if what.startswith("move from "):
                found.pop(what[len("move from "):], None)
            found[name] = file
        return found

    # ---------------------------------------------------------------- afterwards

    def cut(self, rng):
        """Leave in the folder what the disk may hold; all processes are dead."""
        self.follow()
        live = {}  # file: its bytes as the dead saw them
        for folder, _, files in os.walk(self.below):
            for name in files:
                path = os.path.join(folder, name)
                file = self.inodes.get(inode(path))
                with open(path, "rb") as stream:
                    live[file] = stream.read()
        share = rng.choice((0, 0.5, 0.5, 1))  # of changes that last
        shutil.rmtree(self.below)
        self.write(".", live, lambda: rng.random() < share, rng)

    def write(self, folder, live, kept, rng):
        os.mkdir(os.path.normpath(os.path.join(self.below, folder)))
        for name, file in self.entries(folder, kept).items():
            path = os.path.normpath(os.path.join(folder, name))
            if file == FOLDER:
                self.write(path, live, kept, rng)
                continue
            synced = b""
            if self.bytes[file] is not None:
                with open(self.bytes[file], "rb") as stream:
                    synced = stream.read()
            with open(os.path.join(self.below, path), "wb") as stream:
                stream.write(torn(synced, live.get(file, synced), rng))


def torn(synced, live, rng):
    """Bytes of a file of which only some are synced."""
    if synced == live:
        return synced
    end = len(os.path.commonprefix([synced, live]))  # nobody has written there since
    some = rng.randint(end, max(end, len(live)))
    return rng.choice((synced, live, live[:some],
                       live[:some] + bytes(max(len(live) - some, 0)),
                       synced + bytes(max(len(live) - len(synced), 0))))
