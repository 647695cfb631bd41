// node conformance.mjs MODULE CALLS: runs the conformance sample, and ends with its status.

import fs from 'node:fs';

const [module, calls] = process.argv.slice(2);
let memory;
const host = {
  print: (at, length) => fs.writeSync(1, new Uint8Array(memory.buffer, at, length)),
  now: () => performance.now(),
};
const compiled = await WebAssembly.compile(fs.readFileSync(module));
// It is compiled with the features of the page, so that the device WebGPU is part of it, whose
// functions of the browser Node lacks: nothing here may call one.
const imports = { host };
for (const { module: from, name } of WebAssembly.Module.imports(compiled)) {
  imports[from] ??= {};
  imports[from][name] ??= () => {
    throw new Error(`the sample called ${name} of ${from}`);
  };
}
const instance = await WebAssembly.instantiate(compiled, imports);
memory = instance.exports.memory;
process.exit(instance.exports.run(Number(calls)));
