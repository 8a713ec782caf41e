"""training_trace.py EVENTS: prints a trace of about EVENTS events, as a training run makes them.

Weights and the state of the optimizer live from the first step on. Each step has forward and backward passes over 24
layers and one update. The sequence length changes from step to step, so the sizes of activations do too. Gradients are
reduced on a second stream. The output depends on EVENTS alone.
"""
import sys

LAYERS, WIDTH, BATCH = 24, 1024, 4
SITES = ["norm", "qkv", "scores", "softmax", "context", "project", "up", "gelu", "down", "residual"]


class Trace:
    def __init__(self, events):
        self.left = events
        self.block = 0
        self.time = 0
        self.lines = []

    def alloc(self, size, tag, stream=0):
        self.lines.append(f"a {self.time} {self.block} {int(size)} {stream} {stream} @{tag}\n")
        return self.step(1)

    def free(self, block, stream=0):
        self.lines.append(f"f {self.time} {block} {stream} {stream}\n")
        self.step(0)

    def step(self, blocks):
        self.block += blocks
        self.time += 1500
        self.left -= 1
        if len(self.lines) > 100000:
            self.flush()
        return self.block - 1

    def flush(self):
        sys.stdout.write("".join(self.lines))
        self.lines = []


def tag(layer, site):
    return layer * (len(SITES) + 1) + site


def forward(trace, length, dice):
    """Returns the blocks that the backward pass needs."""
    tokens, heads = BATCH * length * 2, 16
    kept = []
    for layer in range(LAYERS):
        sizes = [tokens * WIDTH, tokens * WIDTH * 3, tokens * length * heads, tokens * length * heads, tokens * WIDTH,
                 tokens * WIDTH, tokens * WIDTH * 4, tokens * WIDTH * 4, tokens * WIDTH, tokens * WIDTH]
        for site, size in enumerate(sizes):
            work = trace.alloc(4096 + 512 * (dice() % 8), tag(layer, site)) if site in (1, 5, 6, 8) else None
            block = trace.alloc(size, tag(layer, site))
            if work is not None:
                trace.free(work)
            if site in (2, 5, 8):  # only the next operator reads it
                trace.free(block)
            else:
                kept.append((block, size, tag(layer, site)))
    return kept


def backward(trace, kept, width, bucket):
    gradient = None
    for number, (block, size, name) in enumerate(reversed(kept)):
        before, gradient = gradient, trace.alloc(size, name)
        if before is not None:
            trace.free(before)
        trace.free(block)
        if number % 7 == 6:
            bucket.append(trace.alloc(width, name, 1))
        if len(bucket) > 3:
            trace.free(bucket.pop(0), 1)
    trace.free(gradient)


def main():
    trace = Trace(int(sys.argv[1]))
    print("#wtr 1\n#src training, made for a test")
    for layer in range(LAYERS):
        for site, name in enumerate(SITES):
            print(f"@{tag(layer, site)} model.py:layer{layer}.{name}")
    seed = [12345]

    def dice():
        seed[0] = (seed[0] * 1103515245 + 12345) & 0x7FFFFFFF
        return seed[0] >> 8

    for layer in range(LAYERS):
        for weights in range(12):
            trace.alloc((1 + weights % 4) * WIDTH * WIDTH * 2, tag(layer, weights % len(SITES)))
    while trace.left > 0:
        length, bucket = 128 + 16 * (dice() % 56), []
        backward(trace, forward(trace, length, dice), 25 << 20, bucket)
        for block in bucket:
            trace.free(block, 1)
        losses = [trace.alloc(512, tag(0, 0)) for _ in range(dice() % 4)]
        for block in losses:
            trace.free(block)
    trace.flush()


main()
