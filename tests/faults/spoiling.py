"""Bytes that were something: changed, cut off, put in, doubled, mixed."""

from __future__ import annotations

from random import Random

# What parsers stumble over.
_TOKENS = (
    b"\x00", b"\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc3",
    b"\r", b"\n\n", b"\t", b"\t\t", b'"', b"'", b"[" * 2_000, b"{" * 2_000, b"[/x]", b"NaN", b"Infinity", b"-1",
    b"1e999", b"9" * 40, b"../../x", b"&x;", b"<", b"<!DOCTYPE x>", b"%s%n", b"\x1b[31m", b"\xe2\x80\xae",
    b"\xe2\x80\xa8", b"null", b"true", b": *a", b"!!python/object:x",
)  # fmt: skip


def spoilt(content: bytes, random: Random) -> tuple[bytes, str]:
    """→ other bytes, and what was done to them"""
    data = bytearray(content)
    how = random.choice(["bits", "bytes", "head", "cut", "hole", "doubled", "token", "tokens", "noise", "turned"])
    place = random.randrange(len(data) or 1)
    match how:
        case "bits":
            for _ in range(random.choice([1, 1, 2, 8])):
                data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        case "bytes":
            for _ in range(random.choice([1, 4, 32])):
                data[random.randrange(len(data))] = random.randrange(256)
        case "head":
            for _ in range(random.choice([1, 2, 4])):
                data[random.randrange(min(128, len(data)))] = random.choice([0, 1, 0x7F, 0x80, 0xFF])
        case "cut":
            del data[place:]
        case "hole":
            del data[place : place + random.choice([1, 4, 100, 2_000])]
        case "doubled":
            data[place:place] = data[place : place + random.choice([1, 10, 1_000])]
        case "token":
            data[place:place] = random.choice(_TOKENS)
        case "tokens":
            for _ in range(random.randrange(2, 6)):
                place = random.randrange(len(data))
                token = random.choice(_TOKENS)
                data[place : place + random.choice([0, len(token)])] = token
        case "noise":
            data[place : place + 64] = random.randbytes(64)
        case "turned":
            data = data[place:] + data[:place]
    return bytes(data), f"{how} at {place}"
