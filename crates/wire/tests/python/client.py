"""A foreign client: stock grpcio and the .proto files, nothing of nacre's.

    client.py ENDPOINT GENERATED

ENDPOINT is what grpcio takes, such as `unix:/run/nacre.sock` or `127.0.0.1:7000`; GENERATED is the
folder of the modules that protoc made. Writes and reads an object and calls a method, once without
a session and once in one; fails loudly if anything is not as it should be.
"""

import queue
import sys

ENDPOINT, GENERATED = sys.argv[1:]
sys.path.insert(0, GENERATED)

import grpc  # noqa: E402
from nacre.v1 import nacre_pb2 as pb  # noqa: E402
from nacre.v1 import nacre_pb2_grpc, object_pb2, error_pb2  # noqa: E402


def transaction(name, *ops, **fields):
    request = object_pb2.ObjectRequest(pool="data", object=name, ops=ops)
    return pb.ClientMessage(request=request, **fields)


def check(answer, body):
    """The body of an answer, which must be of this kind."""
    assert answer.WhichOneof("body") == body, answer
    return getattr(answer, body)


Op = object_pb2.Op
CALL = Op(call=Op.ClassCall(class_name="conformance", method="echo", input=b"from python"))


def without_a_session(channel):
    stub = nacre_pb2_grpc.NacreStub(channel)
    written = check(stub.Call(transaction("py", Op(write_full=b"hello"), Op(append=b" world"))), "reply")
    assert written.version > 0 and written.results[1].offset == 5, written
    read = check(stub.Call(transaction("py", Op(read=Op.Read(offset=0, length=100)))), "reply")
    assert read.results[0].data == b"hello world", read
    called = check(stub.Call(transaction("py", CALL)), "reply")
    assert called.results[0].called.output == b"from python", called
    error = check(stub.Call(transaction("absent", Op(stat=Op.Stat()))), "error")
    assert error.kind == error_pb2.ERROR_KIND_NOT_FOUND, error


def in_a_session(channel):
    outbound = queue.SimpleQueue()
    answers = nacre_pb2_grpc.NacreStub(channel).Session(iter(outbound.get, None))
    hello = pb.ClientMessage(hello=pb.Hello(protocol_version=1, client_name="python"))
    outbound.put(pb.ClientBatch(messages=[hello]))
    outbound.put(
        pb.ClientBatch(messages=[transaction("s", Op(append=b"x"), CALL, id=n) for n in range(1, 101)])
    )
    told = [message for _, batch in zip(range(1), answers) for message in batch.messages]
    while len(told) < 101:
        told.extend(next(answers).messages)
    outbound.put(None)
    assert check(told[0], "welcome").protocol_version == 1, told[0]
    replies = {message.id: check(message, "reply") for message in told[1:]}
    assert sorted(reply.results[0].offset for reply in replies.values()) == list(range(100))
    assert list(answers) == [], "the node says nothing more"


with grpc.insecure_channel(ENDPOINT) as channel:
    grpc.channel_ready_future(channel).result(timeout=30)
    without_a_session(channel)
    in_a_session(channel)
print("ok")
