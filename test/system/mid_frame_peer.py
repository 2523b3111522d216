#!/usr/bin/env python3
"""A producer that is killed in the middle of a frame: sends three frames, then half of the fourth, and waits.

    mid_frame_peer.py URL CHANNEL EPOCH      prints "half" when the half is on its way
"""

import asyncio
import sys

import harness  # pylint: disable=unused-import  (makes bridge_pb2 available)
from bridge_client import RawSocket, client_frame

import bridge_pb2 as pb


async def main(url, channel, epoch):
    raw = await RawSocket.session(url)
    for message in (
            pb.ClientMessage(advertise=pb.Advertise(channel=1, name=channel, epoch=epoch)),
            *(pb.ClientMessage(frame=pb.Frame(channel=1, sequence=number, opaque=pb.Opaque(data=bytes(1_000_000))))
              for number in (1, 2, 3))):
        raw.send(client_frame(message.SerializeToString()))
    fourth = client_frame(pb.ClientMessage(
        frame=pb.Frame(channel=1, sequence=4, opaque=pb.Opaque(data=bytes(8_000_000)))).SerializeToString())
    raw.send(fourth[:len(fourth) // 2])
    await raw.flush()
    print("half", flush=True)
    await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
