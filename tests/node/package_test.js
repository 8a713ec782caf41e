// package_test.js: the installed npm package. Each program is a process of its own: a heap serves a process from its start.
'use strict';
const assert = require('node:assert');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const test = require('node:test');
const weir = require('weir');

// Runs a program of JavaScript, with `weir` at hand, and returns what it has printed as JSON.
function run(program, args = [], options = {}) {
    const done = spawnSync(process.execPath, ['-e', `const weir = require('weir'); ${program}`, ...args], { encoding: 'utf8', ...options });
    assert.strictEqual(done.status, 0, done.stderr);
    return { ...JSON.parse(done.stdout), stderr: done.stderr };
}

test('enable starts the program again, with its words, streams and options', () => {
    const found = run(`
        const before = weir.isEnabled();
        weir.enable({ quiet: true });
        const input = require('node:fs').readFileSync(0, 'utf8');
        console.log(JSON.stringify({ before, after: weir.isEnabled(), args: process.argv.slice(1), flags: process.execArgv[0], input }))`,
    ['one', 'two words', '--quiet'], { input: 'from the start' });
    assert.deepStrictEqual(found, { before: true, after: true, args: ['one', 'two words', '--quiet'], flags: '-e',
        input: 'from the start', stderr: '' });
    assert.strictEqual(weir.isEnabled(), false);
});

test('the figures are those of malloc, and buffers are in them', () => {
    const found = run(`
        weir.enable({ quiet: true });
        const start = weir.stats();
        let held = Array.from({ length: 50 }, () => Buffer.alloc(2 ** 20, 1));
        const most = weir.stats();
        console.log(JSON.stringify({ start, most, bytes: held.length }));`);
    assert.ok(found.most.liveBytes - found.start.liveBytes > 49 * 2 ** 20, JSON.stringify(found));
    assert.ok(found.most.liveBytes <= found.most.heldBytes && found.most.heldBytes < 1.2 * found.most.liveBytes, JSON.stringify(found));
    assert.ok(weir.stats().heldBytes > 0); // the C library's, here
});

test('at the limit an allocation fails, with the reason on standard error', () => {
    const found = run(`
        weir.enable({ limitBytes: 128 * 2 ** 20, quiet: true });
        let name = 'none';
        try { Buffer.alloc(2 ** 28); } catch (error) { name = error.name; }
        console.log(JSON.stringify({ name, works: Buffer.alloc(2 ** 20).length }));`);
    assert.strictEqual(found.name, 'RangeError');
    assert.strictEqual(found.works, 2 ** 20);
    assert.match(found.stderr, /no memory for 268435456 bytes at the limit of 128.0 MiB/);
});

test('trim gives idle memory back', () => {
    const found = run(`
        weir.enable({ quiet: true });
        let held = Array.from({ length: 64 }, () => Buffer.alloc(2 ** 20, 1));
        const most = weir.stats().heldBytes;
        held = null;
        setImmediate(() => { global.gc(); setImmediate(() => {
            weir.trim();
            console.log(JSON.stringify({ most, least: weir.stats().heldBytes }));
        }); });`, [], { env: { ...process.env, NODE_OPTIONS: '--expose-gc' } });
    assert.ok(found.least < found.most - 32 * 2 ** 20, JSON.stringify(found));
});

test('run starts a program with a report, and gives its exit status', async () => {
    const program = weir.run('/bin/ls', ['/'], { report: 'report.txt', stdio: 'ignore' });
    assert.strictEqual(await new Promise((resolve) => program.on('exit', resolve)), 0);
    assert.match(fs.readFileSync('report.txt', 'utf8'), /weir: ls \(\d+\): at the peak/);
    const failing = weir.run(process.execPath, ['-e', 'process.exit(7)'], { quiet: true });
    assert.strictEqual(await new Promise((resolve) => failing.on('exit', resolve)), 7);
});

test('the command is that of the package, with signals and recordings as they should be', () => {
    const command = (...args) => spawnSync('node_modules/.bin/weir', args, { encoding: 'utf8' });
    assert.match(command('--version').stdout, /^weir \d+\.\d+\.\d+/);
    assert.match(command('info', '--list').stdout, /ort_unet_dyn_res/);
    const ignored = command('run', '-q', '--', 'grep', 'SigIgn', '/proc/self/status').stdout;
    assert.strictEqual(ignored.trim(), 'SigIgn:\t0000000000000000');
    assert.strictEqual(command('nonsense').status, 2);
});

test('wrong arguments are refused with a sentence', () => {
    assert.throws(() => weir.run('ls', [], { limitBytes: 1.5 }), /limitBytes 1.5 is not a whole number/);
    assert.throws(() => weir.enable({ limitBytes: -1 }), RangeError);
    assert.throws(() => weir.onnxruntime({}), /the first argument is require\('onnxruntime-node'\)/);
    const worker = spawnSync(process.execPath, ['-e', `new (require('node:worker_threads').Worker)("require('weir').enable()", { eval: true })`],
        { encoding: 'utf8' });
    assert.match(worker.stderr, /call it in the main thread/);
});

test('a library that the loader refuses is an error, and no endless start', () => {
    const done = spawnSync(process.execPath, ['-e', 'require("weir").enable()'],
        { encoding: 'utf8', env: { ...process.env, LD_PRELOAD: '/nowhere/libweir_preload.so' } });
    assert.notStrictEqual(done.status, 0);
    assert.match(done.stderr, /was not loaded/);
});
