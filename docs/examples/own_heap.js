// own_heap.js: a program that starts itself on a weir heap with a limit, and reads the heap's figures.
const weir = require('weir');
weir.enable({ limitBytes: 256 * 2 ** 20, quiet: true }); // starts this program again; the rest runs on the heap

const MiB = 2 ** 20;
const before = weir.stats();
const rows = Array.from({ length: 100 }, (_, i) => Buffer.alloc(MiB, i));
const { liveBytes, heldBytes } = weir.stats();
console.log(`${rows.length} buffers: ${Math.round((liveBytes - before.liveBytes) / MiB)} MiB are live in malloc`);
console.log(`held: ${heldBytes < 1.1 * liveBytes ? 'less than a tenth more' : `${heldBytes} bytes`}`);
try {
    Buffer.alloc(512 * MiB);
} catch (error) {
    console.log(`${error.name}: ${error.message}`);
}
