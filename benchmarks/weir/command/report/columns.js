/* columns.js: columns of numbers, packed in the page. */

/* Reads the varints of a column, the lowest seven bits first. */
class Numbers {
    constructor(bytes) {
        this.bytes = bytes;
        this.at = 0;
    }

    next() {
        const { bytes } = this;
        let byte = bytes[this.at++], value = byte & 127;
        for (let scale = 128; byte > 127; scale *= 128) {
            byte = bytes[this.at++];
            value += (byte & 127) * scale;
        }
        return value;
    }

    signed() {
        const value = this.next();
        return value % 2 ? -(value + 1) / 2 : value / 2;
    }
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
    const stream = new Blob([packed.subarray(0, length)]).stream().pipeThrough(new DecompressionStream("deflate"));
    const numbers = new Numbers(new Uint8Array(await new Response(stream).arrayBuffer())), result = read(numbers);
    if (numbers.at !== numbers.bytes.length) throw new Error("column " + name + " has a wrong length");
    return result;
}

/* Returns the numbers in half the memory if they fit. */
const compact = numbers => numbers.every(number => number <= 0xffffffff) ? Uint32Array.from(numbers) : numbers;
