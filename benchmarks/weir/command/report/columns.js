/* columns.js: columns of numbers, packed in the page. */

/* Reads the varints of a column, the lowest seven bits first. */
class Numbers {
    constructor(bytes) {
        this.bytes = bytes;
        this.at = 0;
    }

    next() {
        const { bytes } = this;
        let byte = bytes[this.at++];
        if (byte < 128) return byte;
        let value = byte & 127;
        for (let scale = 128; byte > 127; scale *= 128) {
            byte = bytes[this.at++];
            value += (byte & 127) * scale;
        }
        return value;
    }

    signed() {
        return signedOf(this.next());
    }
}

/* 0, -1, 1, -2, ... of 0, 1, 2, 3, ... */
const signedOf = value => value <= 0x7fffffff ? value >>> 1 ^ -(value & 1) : value % 2 ? -(value + 1) / 2 : value / 2;

async function inflate(packed) {
    const { readable, writable } = new DecompressionStream("deflate"), writer = writable.getWriter();
    /* An error of the data comes from the readable end too. */
    writer.write(packed).catch(() => {});
    writer.close().catch(() => {});
    return new Uint8Array(await new Response(readable).arrayBuffer());
}

/* Unpacks a column of the page and returns the result of `read`, which must read all of its numbers. output_report.c
 * says what a column has. */
async function readColumn(name, read) {
    const text = byId(name).textContent, part = 1 << 20, packed = new Uint8Array(text.length / 4 * 3);
    let length = 0;
    for (let from = 0; from < text.length; from += part) {
        const bytes = atob(text.slice(from, from + part));
        for (let i = 0; i < bytes.length; i++) packed[length++] = bytes.charCodeAt(i);
    }
    const numbers = new Numbers(await inflate(packed.subarray(0, length))), result = read(numbers);
    if (numbers.at !== numbers.bytes.length) throw new Error("column " + name + " has a wrong length");
    return result;
}

/* Makes an array of numbers up to `most`, in half the memory if they fit. */
const numbersUpTo = (most, length) => most <= 0xffffffff ? new Uint32Array(length) : new Float64Array(length);
