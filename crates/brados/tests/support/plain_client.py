#!/usr/bin/python3
"""A client of Ceph that knows nothing of nacre: librados, and the class `lua` that Ceph brings.

    plain_client.py CONF < CASES

CASES is JSON: a list of {"object", "script", "calls": [[METHOD, INPUT], ...]}, inputs in hexadecimal
digits. For each call there is a line `STATUS OUTPUT`. As Ceph has it, a call that changed something has
no output.
"""

import json
import struct
import sys

import rados


def call(pool, name, script, method, data):
    fields = [script.encode(), method.encode(), data]
    body = b"".join(struct.pack("<I", len(field)) + field for field in fields)
    request = struct.pack("<BBI", 1, 1, len(body)) + body
    try:
        return pool.execute(name, "lua", "eval_bufferlist", request)
    except rados.Error as error:
        return -error.errno, b""


def main():
    with rados.Rados(conffile=sys.argv[1], name="client.admin") as cluster:
        with cluster.open_ioctx("nacre") as pool:
            for case in json.load(sys.stdin):
                for method, data in case["calls"]:
                    status, output = call(pool, case["object"], case["script"], method,
                                          bytes.fromhex(data))
                    print(f"{status}\t{output.hex()}")


main()
