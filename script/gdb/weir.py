"""gdb pretty printers for weir's pools, streams, blocks and ranges.

    (gdb) source script/gdb/weir.py
    (gdb) print *pool
    (gdb) print *stream
    (gdb) print *block

The printers read memory only. Counts of a damaged process are not believed: a printer stops at the end of an array or at
the first address that cannot be read. They call no function of the program and take no lock, so they work on a core file and
while a thread is inside a call of the pool. They need debug information of weir (preset dev).
"""
import gdb
import gdb.printing

# core/src/state/block.h and allocators/src/ranges.h
BLOCK_STATES = ["unused", "taken", "live", "cached", "returned", "pending", "asleep"]
TAKEN, KEPT, BORDER = 1 << 31, 3 << 30, (1 << 32) - 1
MOST_LANES = 1 << 16


def atomic(value):
    """The number in a C11 atomic."""
    return int(value.cast(value.type.unqualified()))


def readable(pointers, first, end):
    """The values that the pointers from `first` to `end` - 1 point to, up to the first that cannot be read."""
    values = []
    try:
        for i in range(first, end):
            value = pointers[i].dereference()
            value.fetch_lazy()
            values.append(value)
    except gdb.MemoryError:
        pass
    return values


def block_state(word):
    state = word >> 24 & 0x3F if word & KEPT == TAKEN else 0
    return BLOCK_STATES[state] if state < len(BLOCK_STATES) else "state %d" % state


class Block:
    def __init__(self, value):
        self.record = value["record"]

    def to_string(self):
        word = int(self.record["state"])
        state = block_state(word)
        text = "block 0x%x, %d bytes, %s" % (int(self.record["address"]), int(self.record["size"]), state)
        if state == "live":
            text += ", requested %d, tag %d" % (int(self.record["as"]["pool"]["requested"]), word & 0xFFFF)
        return text


class Range:
    def __init__(self, value):
        self.record = value["record"]

    def to_string(self):
        word = int(self.record["state"])
        if word == BORDER:
            return "border of a region"
        text = "range 0x%x, %d bytes, " % (int(self.record["address"]), int(self.record["size"]))
        if word & KEPT == TAKEN:
            return text + "taken"
        slot = word & KEPT == KEPT
        lane = (word & ~KEPT if slot else word >> 1) - 1
        place = "unmapped" if lane < 0 else "lane %d" % lane
        return text + "%s, %s, tick %d" % ("slot" if slot else "free", place, int(self.record["as"]["free"]["tick"]))


class Stream:
    def __init__(self, value):
        self.stream = value

    def to_string(self):
        front = self.stream["front"]
        slots = front["large"].type.range()[1] + 1
        count = int(front["large_count"])
        large = readable(front["large"], 0, min(count, slots))
        return "stream %d%s, native 0x%x, tick %d, %d bytes live, %d bytes cached%s" % (
            int(self.stream["lane"]), ", retired" if self.stream["retired"] else "", int(self.stream["native"]),
            atomic(self.stream["tick"]), int(self.stream["counters"]["live"]),
            int(front["bytes"]) + sum(int(block["record"]["size"]) for block in large),
            "" if len(large) == count else ", damaged: %d large blocks" % count)


class Pool:
    def __init__(self, value):
        self.pool = value

    def to_string(self):
        held, config = self.pool["held"], self.pool["config"]
        return "pool, %d bytes reserved (peak %d, limit %d), %d blocks, %d pending bytes" % (
            int(held["bytes"]), int(held["peak"]), int(config["limit_bytes"]), int(self.pool["blocks"]["count"]),
            int(self.pool["pending_bytes"]))

    def children(self):
        lanes = min(int(self.pool["lanes"]), int(self.pool["lane_room"]), MOST_LANES)
        for lane, stream in enumerate(readable(self.pool["streams"], 1, lanes), 1):
            yield "streams[%d]" % lane, stream


printers = gdb.printing.RegexpCollectionPrettyPrinter("weir")
printers.add_printer("pool", "^weir_pool$", Pool)
printers.add_printer("stream", "^weir_stream$", Stream)
printers.add_printer("block", "^weir_block$", Block)
printers.add_printer("range", "^range$", Range)
gdb.printing.register_pretty_printer(None, printers, replace=True)
