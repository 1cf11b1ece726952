"""The body of a request, within limits of size and time, and which hosts are this machine."""

import asyncio
from collections.abc import Mapping
from ipaddress import ip_address

from starlette.types import Message, Receive

from truthgym.serve.service.limits import Limits, Refusal


async def read_body(headers: Mapping[str, str], receive: Receive, limits: Limits) -> bytes:
    """The whole body of a request."""
    too_large = Refusal(413, "too_large", f"The body is too large; send at most {limits.body_bytes} bytes.")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length[:20]) > limits.body_bytes:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.body_time):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "disconnected", "The request ended before its body.")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limits.body_bytes:
                    raise too_large
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise Refusal(408, "too_slow", f"The body took more than {limits.body_time:g} seconds.") from None


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once, and then waits for the client to leave."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's own, which no other machine reaches."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
