#!/usr/bin/python3
"""A client of Ceph that knows nothing of nacre: librados, and the class `lua` that Ceph brings.

    plain_client.py CONF NAMESPACE OBJECT eval HANDLER INPUT < SCRIPT     prints what the handler put out
    plain_client.py CONF NAMESPACE OBJECT show                            prints the object as JSON
"""

import json
import struct
import sys

import rados


def evaluate(pool, name, handler, data):
    """Runs a script from standard input by `eval_bufferlist`."""
    fields = [sys.stdin.buffer.read(), handler.encode(), data.encode()]
    body = b"".join(struct.pack("<I", len(field)) + field for field in fields)
    status, output = pool.execute(name, "lua", "eval_bufferlist",
                                  struct.pack("<BBI", 1, 1, len(body)) + body)
    if status < 0:
        raise SystemExit(f"the script failed: {status}")
    sys.stdout.buffer.write(output)


def show(pool, name):
    """Everything a plain client sees of an object."""
    with rados.ReadOpCtx() as operation:
        entries, _ = pool.get_omap_vals(operation, "", "", 1000)
        pool.operate_read_op(operation, name)
        omap = {key: value.decode("latin-1") for key, value in entries}
    size, _ = pool.stat(name)
    print(json.dumps({
        "data": pool.read(name, size).decode("latin-1"),
        "omap": omap,
        "xattrs": {key: value.decode("latin-1") for key, value in pool.get_xattrs(name)},
    }))


def main():
    conf, namespace, name, what, *rest = sys.argv[1:]
    with rados.Rados(conffile=conf, name="client.admin") as cluster:
        with cluster.open_ioctx("nacre") as pool:
            pool.set_namespace(namespace)
            if what == "eval":
                evaluate(pool, name, *rest)
            else:
                show(pool, name)


main()
