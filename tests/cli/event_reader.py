# SPDX-License-Identifier: Apache-2.0
"""A reader of TensorBoard's event files of our own: TFRecord with crc32c by a table, protobuf by
hand. Whatever is not as the format says is an error."""
import os
import struct

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283  # RFC 3720's check value


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert masked(data[at : at + 8]) == check, f"length at {at}"
        body = data[at + 12 : at + 12 + length]
        assert len(body) == length, f"short record at {at}"
        (check,) = struct.unpack_from("<I", data, at + 12 + length)
        assert masked(body) == check, f"record at {at}"
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """[(number, value)]: bytes, or a number."""
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
            assert len(value) == length
        else:
            size = {1: 8, 5: 4}[kind]
            (value,) = struct.unpack_from({1: "<d", 5: "<f"}[kind], data, at)
            at += size
        found.append((key >> 3, value))
    return found


def events(path):
    """[(time, step, what)]: what is a version, "start", or {tag: value}."""
    with open(path, "rb") as file:
        data = file.read()
    for record in records(data):
        event = dict(fields(record))
        if 3 in event:
            what = event[3].decode()
        elif 7 in event:
            assert fields(event[7]) == [(1, 1)]
            what = "start"
        else:
            pairs = [dict(fields(value)) for number, value in fields(event[5])]
            what = {pair[1].decode(): pair[2] for pair in pairs}
            assert len(what) == len(pairs)
        yield event[1], event[2], what


def files(folder):
    """In the order in which they were made."""
    return [os.path.join(folder, f) for f in sorted(os.listdir(folder)) if ".tfevents." in f]
