// Has Dawn (Tint, the compiler of Chromium) read the WGSL texts of a folder, and run those that have
// data beside them: NAME.wgsl, NAME.json, and what the buffers hold afterwards to NAME.out.
//
//   node run.mjs NODE_MODULES FOLDER
//
// The last line says how many it took and ran, or why nothing was done. Errors end it with 1.

import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, folder] = process.argv.slice(2);
const { create, globals } = await import(pathToFileURL(join(modules, 'webgpu', 'index.js')));
Object.assign(globalThis, globals);

const finish = (line, code) => {
  console.log(line);
  // Dawn's threads would keep the process.
  process.exit(code);
};
// Held to the end: without it, Dawn's threads are gone when a pipeline is to be compiled by one.
globalThis.gpu = create([]);
const adapter = await globalThis.gpu.requestAdapter().catch(() => null);
if (!adapter) finish('skipped: Dawn finds no adapter that it can use', 0);

const wanted = ['maxStorageBuffersPerShaderStage', 'maxComputeWorkgroupStorageSize', 'maxComputeInvocationsPerWorkgroup',
  'maxComputeWorkgroupSizeX', 'maxComputeWorkgroupSizeY', 'maxComputeWorkgroupSizeZ'];
const device = await adapter.requestDevice({
  requiredLimits: Object.fromEntries(wanted.map(name => [name, adapter.limits[name]])),
  requiredFeatures: ['subgroups'].filter(name => adapter.features.has(name)),
});
const errors = [];
device.addEventListener('uncapturederror', event => errors.push(event.error.message));

const { STORAGE, UNIFORM, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
const buffer = (words, usage) => {
  const made = device.createBuffer({ size: Math.max(4 * words.length, 16), usage: usage | COPY_DST });
  if (words.length) device.queue.writeBuffer(made, 0, Uint32Array.from(words));
  return made;
};

/** Runs a kernel, and gives the words of all buffers. */
async function run(module, { groups, params, buffers, reads }) {
  const entries = reads.map((read, binding) => ({
    binding, visibility: GPUShaderStage.COMPUTE, buffer: { type: read ? 'read-only-storage' : 'storage' },
  }));
  entries.push({ binding: reads.length, visibility: GPUShaderStage.COMPUTE, buffer: { type: 'uniform' } });
  const group = device.createBindGroupLayout({ entries });
  const pipeline = await device.createComputePipelineAsync({
    layout: device.createPipelineLayout({ bindGroupLayouts: [group] }),
    compute: { module, entryPoint: 'main' },
  });
  const bound = buffers.map(words => buffer(words, STORAGE | COPY_SRC));
  const all = [...bound, buffer(params, UNIFORM)];
  const set = device.createBindGroup({
    layout: group, entries: all.map((b, binding) => ({ binding, resource: { buffer: b } })),
  });
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, set);
  pass.dispatchWorkgroups(...groups);
  pass.end();
  const back = bound.map(b => {
    const read = device.createBuffer({ size: b.size, usage: MAP_READ | COPY_DST });
    encoder.copyBufferToBuffer(b, 0, read, 0, b.size);
    return read;
  });
  device.queue.submit([encoder.finish()]);
  const words = [];
  for (const [i, read] of back.entries()) {
    await read.mapAsync(GPUMapMode.READ);
    words.push(new Uint32Array(read.getMappedRange().slice(0, 4 * buffers[i].length)));
  }
  return words;
}

let taken = 0, ran = 0;
for (const file of readdirSync(folder).filter(name => name.endsWith('.wgsl')).sort()) {
  const code = readFileSync(join(folder, file), 'utf8');
  if (code.startsWith('enable subgroups') && !device.features.has('subgroups')) continue;
  const module = device.createShaderModule({ code });
  const { messages } = await module.getCompilationInfo();
  const wrong = messages.filter(m => m.type === 'error').map(m => `${file}:${m.lineNum}: ${m.message}`);
  errors.push(...wrong);
  if (wrong.length) continue;
  taken += 1;
  const data = join(folder, file.replace(/\.wgsl$/, '.json'));
  if (!existsSync(data)) continue;
  try {
    const words = await run(module, JSON.parse(readFileSync(data, 'utf8')));
    writeFileSync(data.replace(/\.json$/, '.out'), Buffer.concat(words.map(w => Buffer.from(w.buffer))));
    ran += 1;
  } catch (error) {
    errors.push(`${file}: ${error.message ?? error}`);
  }
}
for (const error of errors) console.error(error);
finish(`${taken} texts taken, ${ran} run, on ${adapter.info.description || adapter.info.device}`, errors.length ? 1 : 0);
