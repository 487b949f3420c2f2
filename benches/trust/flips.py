"""Flips bits in every kind of file that the program reads back, and looks at what it makes of them.

    STRIDE_PIPE=target/release/stride-pipe python3 benches/trust/flips.py [FLIPS] [SEED] [WORLD | "WORLD, KIND" …]

Needs pyarrow, and moto[server] for object storage. After each flip a command that reads the file must refuse it with a message, or
give what it gives of the whole one (because it makes it again), or say what it left out. Ends with 1 if a flipped bit was used, or
the program crashed. `worlds.py` says what is flipped; worlds, or the beginning of what it prints of a kind, choose a part.
"""

import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from common import copy
from worlds import WORLDS

FLIPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 22
WANTED = sys.argv[3:]
# What a command says of a file that it did not use.
SAID = ("damaged", "not as run", "not a manifest", "its hash is another one", "unknown status", "first time")
CRASHED = (70, 101, 134, 139, -6, -11)
# A memory file system, where there is one: directories are copied for every flip.
FAST = Path("/dev/shm")


class Bench:
    def __init__(self, root):
        self.root, self.random = root, random.Random(SEED)
        self.faults, self.tally, self.expected = [], {}, {}

    def undisturbed(self, world, action):
        known = (world.name, action.__name__)
        if known not in self.expected:
            copy(world.base, world.trial)
            done, found = action()
            if done.returncode != 0:
                sys.exit(f"{known} fails undisturbed: {done.stdout}{done.stderr}")
            copy(world.base, world.trial)
            if action()[1] != found:
                sys.exit(f"{known} is not the same twice")
            self.expected[known] = found
        return self.expected[known]

    def verdict(self, world, expected, done, found):
        text = (done.stderr or "") + (done.stdout or "") + (found if isinstance(found, str) else "")
        if done.returncode in CRASHED or "panicked" in text:
            return "crashed"
        if done.returncode in world.refusals:
            return "refused"
        if done.returncode != 0:
            return f"code {done.returncode}"
        if found == expected:
            return "same"
        more = (word for word in SAID if text.count(word) > str(expected).count(word))
        return "said" if isinstance(found, str) and any(more) else "USED"

    def flip(self, world, kind, files, actions):
        file = self.random.choice(files)
        bit = self.random.randrange(8 * file.stat().st_size)
        action = self.random.choice(actions)
        expected = self.undisturbed(world, action)
        copy(world.base, world.trial)
        target = world.trial / file.relative_to(world.base)
        data = bytearray(target.read_bytes())
        data[bit // 8] ^= 1 << bit % 8
        # In place, as a disk does it: a file that is linked elsewhere is flipped there, too.
        with open(target, "r+b") as handle:
            handle.write(data)
        done, found = action()
        verdict = self.verdict(world, expected, done, found)
        self.tally.setdefault(kind, Counter())[verdict] += 1
        if verdict not in ("same", "refused", "said"):
            place = f"{kind}: bit {bit} of {file.relative_to(world.base)}, {action.__name__}: {verdict}"
            self.faults.append(place)
            print(f"{place}\n    {(done.stderr or '').strip()[-300:]}", flush=True)

    def run(self):
        for kind_of_world in WORLDS:
            name = kind_of_world.name
            words = [word for word in WANTED if word.startswith(name)]
            if WANTED and not words:
                continue
            world = kind_of_world(self.root)
            for kind, (files, actions) in world.kinds().items():
                kind = f"{name}, {kind}"
                if words and not any(kind.startswith(word) for word in words):
                    continue
                if not files:
                    sys.exit(f"{kind}: no such file")
                for _ in range(FLIPS):
                    self.flip(world, kind, files, actions)
                print(f"{kind}: {sum(self.tally[kind].values())} flips: {dict(self.tally[kind])}", flush=True)


def main():
    root = Path(tempfile.mkdtemp(prefix="stride-flips-", dir=FAST if FAST.is_dir() else None))
    bench = Bench(root)
    bench.run()
    total = sum(sum(counts.values()) for counts in bench.tally.values())
    print(f"{total} flips in {len(bench.tally)} kinds of files, {len(bench.faults)} fault(s)")
    shutil.rmtree(root)
    sys.exit(1 if bench.faults else 0)


main()
