// node conformance.mjs MODULE CALLS: runs the conformance sample, and ends with its status.

import fs from 'node:fs';

const [module, calls] = process.argv.slice(2);
let memory;
const host = {
  print: (at, length) => fs.writeSync(1, new Uint8Array(memory.buffer, at, length)),
  now: () => performance.now(),
};
const { instance } = await WebAssembly.instantiate(fs.readFileSync(module), { host });
memory = instance.exports.memory;
process.exit(instance.exports.run(Number(calls)));
