// run_program.js: another program on a heap, and its report in a file.
const weir = require('weir');
const fs = require('node:fs');

const program = weir.run(process.execPath, ['-e', 'Buffer.alloc(50e6); console.log("done")'], { report: 'report.txt' });
program.on('exit', (code) => {
    console.log(`exit status ${code}; ${/at the peak \d+\.\d MiB live/.test(fs.readFileSync('report.txt', 'utf8')) ? 'a report' : 'none'}`);
});
