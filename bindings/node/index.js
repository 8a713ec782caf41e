// index.js: a weir heap in the place of malloc, for this program and for those that it starts; its figures.
'use strict';
const { spawn } = require('node:child_process');
const path = require('node:path');
const { isMainThread } = require('node:worker_threads');
const addon = require('./weir.node');

const prefix = path.join(__dirname, 'prefix');
const command = path.join(prefix, 'bin', 'weir');
const preload = path.join(prefix, 'lib', 'weir', 'libweir_preload.so');

// The words of `weir run` for these options.
function words({ limitBytes = 0, report, quiet = false }) {
    if (!Number.isSafeInteger(limitBytes) || limitBytes < 0) {
        throw new RangeError(`limitBytes ${limitBytes} is not a whole number of bytes`);
    }
    return ['run', ...(limitBytes ? ['--limit', String(limitBytes)] : []), ...(report !== undefined ? ['--report', String(report)] : []),
        ...(quiet ? ['--quiet'] : [])];
}

// Starts a program of any language on a heap, as child_process.spawn does, whose other options it takes.
function run(program, args = [], { limitBytes, report, quiet, ...others } = {}) {
    return spawn(command, [...words({ limitBytes, report, quiet }), '--', program, ...args], { stdio: 'inherit', ...others });
}

// Starts this program again, on a heap, if it does not run on one yet. Call it first: what the program has done is gone.
function enable(options = {}) {
    const all = words(options);
    if (addon.isEnabled()) {
        return;
    }
    if (!isMainThread) {
        throw new Error('weir.enable: a worker cannot start the program again; call it in the main thread');
    }
    if (process.env.LD_PRELOAD?.includes('libweir_preload')) { // the second start: the loader has refused the library
        throw new Error(`weir.enable: ${preload} was not loaded: it needs glibc 2.34 or later`);
    }
    addon.exec([command, ...all, '--', process.execPath, ...process.execArgv, ...process.argv.slice(1)]);
}

// Makes a heap of its own the allocator of onnxruntime-node's sessions, and returns the options that a session needs. `ort` is the
// module; it has to be loaded first.
function onnxruntime(ort, { limitBytes = 0, report = false } = {}) {
    if (typeof ort?.InferenceSession?.create !== 'function') {
        throw new TypeError("weir.onnxruntime: the first argument is require('onnxruntime-node')");
    }
    words({ limitBytes });
    const settings = [...(limitBytes ? [`limit:${limitBytes}B`] : []), ...(report ? ['report:1'] : [])];
    if (settings.length > 0) {
        process.env.WEIR_ONNXRUNTIME = settings.join(',');
    }
    process.dlopen({ exports: {} }, path.join(prefix, 'lib', 'weir', 'libweir_onnxruntime_plugin.so'));
    return { extra: { session: { use_env_allocators: '1', use_device_allocator_for_initializers: '1' } } };
}

module.exports = {
    command, preload, run, enable, onnxruntime,
    isEnabled: addon.isEnabled, stats: addon.stats, trim: addon.trim,
};
