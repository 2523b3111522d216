#!/usr/bin/env python3
"""Subscribes to everything that a bridge has and prints each frame and each gap.

    examples/watch.py [URL] [COUNT]      default ws://127.0.0.1:8080, without end

Needs python3-websockets, python3-protobuf and protoc (Debian: protobuf-compiler).
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import websockets

PROTO = Path(__file__).resolve().parent.parent / "proto"


def load_protocol():
    """Makes bridge_pb2 from bridge.proto and imports it."""
    folder = tempfile.mkdtemp()
    subprocess.run(
        ["protoc", f"--proto_path={PROTO}", f"--python_out={folder}", str(PROTO / "simbridge/v1/bridge.proto")],
        check=True,
    )
    sys.path.insert(0, f"{folder}/simbridge/v1")
    import bridge_pb2

    return bridge_pb2


async def watch(url, count):
    pb = load_protocol()
    names = {}
    async with websockets.connect(f"{url}/v1/connect", subprotocols=["simbridge.v1"], max_size=None) as ws:
        await ws.send(pb.ClientMessage(hello=pb.Hello(name="example", agent="watch.py")).SerializeToString())
        everything = pb.Subscribe(id=1, channel="**", history=pb.HISTORY_LAST)
        await ws.send(pb.ClientMessage(subscribe=everything).SerializeToString())
        async for data in ws:
            message = pb.ServerMessage.FromString(data)
            body = message.WhichOneof("body")
            if body == "welcome":
                print(f"bridge {message.welcome.bridge} {message.welcome.version}")
            elif body == "channels":
                names.update((channel.id, channel.name) for channel in message.channels.channel)
            elif body == "frame":
                frame = message.frame
                kind = frame.WhichOneof("payload")
                size = len(getattr(frame, kind).data)
                points = f", {frame.cloud.width * max(1, frame.cloud.height)} points" if kind == "cloud" else ""
                print(f"{names[frame.channel]} #{frame.sequence}: {kind}, {size} bytes{points}")
                count -= 1
                if count == 0:
                    return
            elif body == "gap":
                gap = message.gap
                print(f"{names[gap.channel]}: {gap.frames} frames lost, {pb.GapReason.Name(gap.reason)}")
            elif body == "reject":
                print(f"refused: {pb.RejectCode.Name(message.reject.code)}: {message.reject.detail}")


if __name__ == "__main__":
    url = sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:8080"
    asyncio.run(watch(url, int(sys.argv[2]) if len(sys.argv) > 2 else -1))
