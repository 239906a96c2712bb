"""A client of nacre in another language: stock grpcio, and the .proto files; nothing of ours.

usage: foreign_client.py GENERATED_FOLDER SOCKET

Writes and reads an object and calls a method of a class, first by single calls, then over a
session. Prints `ok` at the end; any difference from what is expected is an exception.
"""

import json
import queue
import re
import sys
import urllib.parse

sys.path.insert(0, sys.argv[1])

import grpc  # noqa: E402
from nacre.v1 import error_pb2, nacre_pb2, nacre_pb2_grpc, object_pb2  # noqa: E402

OBJECT = ("data", "from-python")


def stub_of(socket, options=()):
    return nacre_pb2_grpc.NacreStub(grpc.insecure_channel("unix:" + socket, options=options))


def with_authority_of_newer_releases(socket):
    """A stub that sends the escaped path as authority, as grpcio does by default since 1.57."""
    return stub_of(socket, [("grpc.default_authority", urllib.parse.quote(socket, safe=""))])


def request(message_id, *ops):
    pool, name = OBJECT
    body = object_pb2.ObjectRequest(pool=pool, object=name, ops=ops)
    return nacre_pb2.ClientMessage(id=message_id, request=body)


def op_call(class_name, method, data):
    call = object_pb2.Op.ClassCall(class_name=class_name, method=method, input=data)
    return object_pb2.Op(call=call)


def results(answer):
    assert answer.WhichOneof("body") == "reply", answer
    return answer.reply.results


def by_single_calls(stub):
    write = object_pb2.Op(write_full=b"written by python")
    results(stub.Call(request(1, write)))
    read = object_pb2.Op(read=object_pb2.Op.Read(offset=11, length=100))
    assert results(stub.Call(request(2, read)))[0].data == b"python"
    called = results(stub.Call(request(3, op_call("counter", "add", b"5"))))[0].called
    assert (called.status, called.output) == (0, b"5"), called
    failed = stub.Call(request(4, op_call("noclass", "f", b"")))
    assert failed.WhichOneof("body") == "error", failed
    assert failed.error.kind in (
        error_pb2.ERROR_KIND_NOT_FOUND,
        error_pb2.ERROR_KIND_UNSUPPORTED,
    ), failed


def over_a_session(stub):
    sent = queue.Queue()
    answers = stub.Session(iter(sent.get, None))
    hello = nacre_pb2.Hello(protocol_version=1, client_name="python")
    calls = [request(n, op_call("counter", "add", b"1")) for n in range(2, 102)]
    first = nacre_pb2.ClientMessage(id=1, hello=hello)
    sent.put(nacre_pb2.ClientBatch(messages=[first] + calls))
    welcome, outputs = None, []
    for batch in answers:
        for message in batch.messages:
            if message.WhichOneof("body") == "welcome":
                welcome = message.welcome
            else:
                outputs.append(int(results(message)[0].called.output))
        if len(outputs) == len(calls):
            break
    sent.put(None)
    assert welcome.protocol_version == 1, welcome
    assert sorted(outputs) == list(range(6, 106)), outputs


def refused_by_others(place):
    """Every other node names the holder, and does nothing."""
    for number in range(3):
        socket = re.sub(r"storage\.\d", f"storage.{number}", place["socket"])
        if socket == place["socket"]:
            continue
        refusal = stub_of(socket).Call(request(5, op_call("counter", "add", b"1"))).error
        assert refusal.kind == error_pb2.ERROR_KIND_INVALID, refusal
        assert refusal.message.startswith(place["target"] + " holds this object"), refusal


def main():
    any_node = stub_of(sys.argv[2])
    ask = nacre_pb2.Ask(service="node", method="locate", input="/".join(OBJECT).encode())
    place = json.loads(any_node.Call(nacre_pb2.ClientMessage(id=1, ask=ask)).answer.output)
    stub = with_authority_of_newer_releases(place["socket"])
    by_single_calls(stub)
    refused_by_others(place)
    over_a_session(stub)
    print("ok")


main()
