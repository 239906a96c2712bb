"""Puts load on a CephFS file system until standard input ends: makes directories, and looks at them.

It uses libcephfs, which comes with the package ceph-common. Debian has no Python module for it in all releases.
"""

import ctypes
import select
import sys

library = ctypes.CDLL("libcephfs.so.2")
mount = ctypes.c_void_p()


def done(what, result):
    if result < 0:
        sys.exit(f"{what}: error {-result}")


done("create", library.ceph_create(ctypes.byref(mount), b"admin"))
done("configuration", library.ceph_conf_read_file(mount, sys.argv[1].encode()))
done("mount", library.ceph_mount(mount, b"/"))
for folder in range(4):
    library.ceph_mkdir(mount, f"/load{folder}".encode(), 0o755)
print("mounted", flush=True)
number = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    path = f"/load{number % 4}/{number}".encode()
    done("mkdir", library.ceph_mkdir(mount, path, 0o755))
    done("rmdir", library.ceph_rmdir(mount, path))
    number += 1
library.ceph_unmount(mount)
