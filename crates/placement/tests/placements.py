"""Computes placements.txt from the definition of placement alone. Needs python-xxhash.

    python3 placements.py > placements.txt
"""

import math
import re

from xxhash import xxh3_64_intdigest as xxh3

SETS = [
    {"storage.0": 1.0},
    {"storage.0": 1.0, "storage.1": 1.0, "storage.2": 1.0},
    {"storage.0": 1.0, "storage.1": 1.0, "storage.2": 1.0, "storage.3": 1.0},
    {"small": 0.5, "middle": 1.25, "large": 7.0},
    {f"rack-{rack}_host-{host}": 1.0 + rack for rack in range(4) for host in range(4)},
]
POOLS = ["data", "nacre.system"]
NAMES = (
    [f"object-{i}" for i in range(40)]
    + [f"log/{{l{i}}}/stripe-{i}" for i in range(10)]
    + ["a", "ü/ß", "a{}b", "a{b", "{x}", "x" * 300, "日本語"]
)


def placement_key(name):
    tag = re.search(r"\{([^}]*)\}", name)
    return tag.group(1) if tag and tag.group(1) else name


def draw(target, weight, pool, key):
    obj = xxh3(key.encode(), seed=xxh3(pool.encode())).to_bytes(8, "little")
    unit = ((xxh3(obj, seed=xxh3(target.encode())) >> 12) + 0.5) / 2**52
    return -weight / math.log(unit)


print("# targets, pool, object name, target: see vectors.rs")
for targets in SETS:
    shown = ",".join(f"{name}={weight}" for name, weight in targets.items())
    for pool in POOLS:
        for name in NAMES:
            key = placement_key(name)
            best = max(targets, key=lambda target: draw(target, targets[target], pool, key))
            print(shown, pool, name, best, sep="\t")
