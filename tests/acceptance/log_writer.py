"""Writes instruction logs that no program would: the format of
recorder/instruction_log_format.h, from rows that a test makes up."""
import struct

MAGIC, VERSION, PAGE, CHUNK = b"tjitlog\n", 2, 4096, 65536
CHUNK_MAGIC = 0x4b4e4843
OP, DETECT, COMPILE, REPLAY, DRAIN, EXIT, WAIT = range(2, 9)
OPEN, DEFERRED, THREW = 1, 2, 4
MAIN, THREAD, WORKER = 0, 1, 2
RUNNING, CLOSED = 0, 1


def record(id_, extra, time_ns, kind, flags=0):
    return struct.pack("<IIQ", id_, extra, time_ns << 8 | kind << 4 | flags)


def definition(id_, command, details, bytes_=0):
    text = command.encode() + details.encode()
    body = struct.pack("<IIQ", 0, len(command.encode()), bytes_) + text
    padded = body + b"\0" * (-len(body) % 16)
    return record(id_, len(body), 0, 1) + padded


class Stream:
    """The rows of one thread. Times and lengths are ns."""

    def __init__(self, kind=MAIN, number=0):
        self.source = struct.pack("<HH", kind, number)
        self.ids = {}
        self.records = b""

    def add(self, event, time_ns, took_ns, command, details="", flags=0):
        key = (command, details)
        if key not in self.ids:
            self.ids[key] = len(self.ids) + 1
            self.records += definition(self.ids[key], command, details)
        took = struct.unpack("<I", struct.pack("<f", took_ns))[0]
        self.records += record(self.ids[key], took, time_ns, event, flags)
        return self

    def op(self, time_ns, took_ns, name="aten::add", flags=0):
        return self.add(OP, time_ns, took_ns, name, "f32[1] -> f32[1]", flags)

    def deferred(self, time_ns):
        return self.op(time_ns, 0, flags=DEFERRED)


def log(*streams, version=VERSION, pid=1, end=CLOSED, program="program"):
    """The bytes of a file with a chunk for each stream."""
    chunks = []
    for number, stream in enumerate(streams):
        head = struct.pack("<III", CHUNK_MAGIC, number, 0) + stream.source
        chunk = head + stream.records
        assert len(chunk) <= CHUNK
        chunks.append(chunk.ljust(CHUNK, b"\0"))
    header = MAGIC + struct.pack("<6I", version, CHUNK, pid, len(chunks), end,
                                 0)
    header += b"0.1.0".ljust(16, b"\0") + program.encode().ljust(512, b"\0")
    return header.ljust(PAGE, b"\0") + b"".join(chunks)


def write_long_log(path, chunks):
    """One stream of that many full chunks of ops, 1 us after each other."""
    first = definition(1, "aten::add", "f32[1] -> f32[1]")
    took = struct.unpack("<I", struct.pack("<f", 500.0))[0]
    time_ns, rows = 0, 0
    with open(path, "wb") as file:
        header = log(program="long")[:PAGE]
        file.write(header[:20] + struct.pack("<I", chunks) + header[24:])
        for ordinal in range(chunks):
            chunk = struct.pack("<IIII", CHUNK_MAGIC, 0, ordinal, 0)
            chunk += first if ordinal == 0 else b""
            while len(chunk) < CHUNK:
                time_ns += 1000
                rows += 1
                chunk += record(1, took, time_ns, OP)
            file.write(chunk)
    return rows
