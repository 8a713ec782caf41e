#!/usr/bin/env bash
# Writes a network in ncnn's text form to standard output.    generate.sh resnet50|mobilenet_v2
#
# The architectures are those of the papers: ResNet-50 (He et al. 2015) with the stride in the 3x3 convolution, which is
# common practice today, and MobileNetV2 (Sandler et al. 2018). Batch normalisation is folded into the convolutions.
# The last pooling is global, so the networks accept any input size.
set -euo pipefail

awk -v network="${1:?which network: resnet50 or mobilenet_v2}" '
# Adds a line of the file and updates the counts for the second line.
function line(text, outputs) { lines[layers++] = text; blobs += outputs }

# Each of these functions takes the name of its input blob, names its output blob after the layer and returns that name.
function conv(name, from, out, kernel, stride, activation, groups, extra) {
    extra = " 6=" (channels[from] / groups) * out * kernel * kernel
    if (groups > 1) extra = extra " 7=" groups
    line(sprintf("%-20s %-24s 1 1 %s %s 0=%d 1=%d 3=%d 4=%d 5=1%s%s", groups > 1 ? "ConvolutionDepthWise" : "Convolution",
        name, from, name, out, kernel, stride, int(kernel / 2), extra, activation), 1)
    channels[name] = out
    return name
}
function twice(name, from) {
    line(sprintf("%-20s %-24s 1 2 %s %s.a %s.b", "Split", name, from, name, name), 2)
    channels[name ".a"] = channels[name ".b"] = channels[from]
    return name
}
function add(name, a, b) {
    line(sprintf("%-20s %-24s 2 1 %s %s %s 0=1", "Eltwise", name, a, b, name), 1)
    channels[name] = channels[a]
    return name
}
function tail(from) {
    line(sprintf("%-20s %-24s 1 1 %s pool 0=1 4=1", "Pooling", "pool", from), 1)
    line(sprintf("%-20s %-24s 1 1 pool fc 0=1000 1=1 2=%d", "InnerProduct", "fc", channels[from] * 1000), 1)
    line(sprintf("%-20s %-24s 1 1 fc prob", "Softmax", "prob"), 1)
}
function head() {
    line(sprintf("%-20s %-24s 0 1 data 0=224 1=224 2=3", "Input", "data"), 1)
    channels["data"] = 3
    return "data"
}

function resnet50(    x, s, b, name, width, blocks, relu, skip, kept) {
    relu = " 9=1"
    x = conv("conv1", head(), 64, 7, 2, relu, 1)
    line(sprintf("%-20s %-24s 1 1 %s pool1 0=0 1=3 2=2 3=1 5=1", "Pooling", "pool1", x), 1)
    channels["pool1"] = 64
    x = "pool1"
    numbers("3 4 6 3", blocks)
    for (s = 1; s <= 4; s++) {
        width = 64 * 2 ^ (s - 1)
        for (b = 1; b <= blocks[s]; b++) {
            name = "s" s ".b" b
            kept = twice(name ".split", x)
            skip = kept ".a"
            if (b == 1) skip = conv(name ".down", skip, width * 4, 1, s > 1 ? 2 : 1, "", 1)
            x = conv(name ".conv1", kept ".b", width, 1, 1, relu, 1)
            x = conv(name ".conv2", x, width, 3, b == 1 && s > 1 ? 2 : 1, relu, 1)
            x = conv(name ".conv3", x, width * 4, 1, 1, "", 1)
            x = add(name ".add", skip, x)
            line(sprintf("%-20s %-24s 1 1 %s %s", "ReLU", name ".relu", x, name ".relu"), 1)
            channels[name ".relu"] = channels[x]
            x = name ".relu"
        }
    }
    tail(x)
}

# The parameters of each stage: expansion, channels, blocks, stride of the first block.
function mobilenet_v2(    x, s, b, v, name, wide, relu6, kept, stride, from) {
    relu6 = " 9=3 -23310=2,0.0,6.0"
    x = conv("conv1", head(), 32, 3, 2, relu6, 1)
    numbers("1 16 1 1 6 24 2 2 6 32 3 2 6 64 4 2 6 96 3 1 6 160 3 2 6 320 1 1", v)
    for (s = 0; s < 7; s++) {
        for (b = 1; b <= v[4 * s + 3]; b++) {
            name = "s" (s + 1) ".b" b
            stride = b == 1 ? v[4 * s + 4] : 1
            from = x
            kept = ""
            if (stride == 1 && channels[x] == v[4 * s + 2]) {
                kept = twice(name ".split", x)
                x = kept ".b"
            }
            wide = channels[x] * v[4 * s + 1]
            if (v[4 * s + 1] > 1) x = conv(name ".expand", x, wide, 1, 1, relu6, 1)
            x = conv(name ".dwise", x, wide, 3, stride, relu6, wide)
            x = conv(name ".project", x, v[4 * s + 2], 1, 1, "", 1)
            if (kept != "") x = add(name ".add", kept ".a", x)
        }
    }
    tail(conv("conv_last", x, 1280, 1, 1, relu6, 1))
}

# Stores the numbers of a text in out[1], out[2], ...
function numbers(text, out,    n) {
    while (match(text, /[0-9]+/)) {
        out[++n] = substr(text, RSTART, RLENGTH) + 0
        text = substr(text, RSTART + RLENGTH)
    }
}

BEGIN {
    if (network == "resnet50") resnet50()
    else if (network == "mobilenet_v2") mobilenet_v2()
    else { print "no such network: " network > "/dev/stderr"; exit 1 }
    print "7767517"
    print layers, blobs
    for (i = 0; i < layers; i++) print lines[i]
}'
