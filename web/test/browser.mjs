// node browser.mjs SITE CHROMIUM MODULES [PICTURES]: the page in a real browser, headless. MODULES is a
// folder with playwright-core; with PICTURES, screenshots are written there. Ends with 1 at the first
// thing that is not as it must be.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';

const [site, executablePath, modules, pictures] = process.argv.slice(2);
const { chromium } = createRequire(path.resolve(modules, 'x.js'))('playwright-core');
const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.json': 'application/json', '.wasm': 'application/wasm' };
const expected = JSON.parse(fs.readFileSync(path.join(site, 'expected.json')));
const sha256 = (model, seed, epochs) => expected.find(e => e.model === model && e.seed === seed && e.epochs === epochs).sha256;

// What a browser may do to the worker, as ?fault=NAME: it opens no adapter, or takes the device away.
const faults = {
  refuse: "GPUAdapter.prototype.requestDevice = async () => { throw new DOMException('it has too few storage buffers', 'OperationError'); };",
  lose: `const request = GPUAdapter.prototype.requestDevice;
    GPUAdapter.prototype.requestDevice = async function (wanted) {
      const device = await request.call(this, wanted);
      new BroadcastChannel('fault').onmessage = () => device.destroy();
      return device;
    };`,
};

// In a folder below the root, as on a project's pages: all paths are to be relative.
const server = http.createServer((request, answer) => {
  const url = new URL(request.url, 'http://x');
  const file = path.join(site, url.pathname.replace(/^\/deep\//, '/').replace(/\/$/, '/index.html'));
  if (!fs.existsSync(file)) return answer.writeHead(404).end();
  const fault = file.endsWith('worker.js') ? faults[url.searchParams.get('fault')] ?? '' : '';
  answer.writeHead(200, { 'content-type': types[path.extname(file)] ?? 'application/octet-stream' });
  answer.end(Buffer.concat([Buffer.from(fault), fs.readFileSync(file)]));
});
await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
const address = `http://127.0.0.1:${server.address().port}/deep/`;

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'elinvar-browser-'));
const args = ['--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
let context;
async function launch(...more) {
  await context?.close();
  context = await chromium.launchPersistentContext(folder, { executablePath, headless: true, args: [...args, ...more], viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(60_000);
}
const complaints = [];
const started = performance.now();
const step = name => console.log(`${((performance.now() - started) / 1000).toFixed(1).padStart(6)} s  ${name}`);

async function open(query = '') {
  const page = await context.newPage();
  // The browser's own words where there is no WebGPU; the page says it, too.
  const is_ours = m => ['error', 'warning'].includes(m.type()) && m.text() !== 'No available adapters.';
  page.on('console', m => is_ours(m) && complaints.push(m.text()));
  page.on('pageerror', e => complaints.push(e.message));
  page.on('requestfailed', r => complaints.push(`${r.url()}: ${r.failure()?.errorText}`));
  await page.goto(address + query);
  return page;
}
const text = (page, id) => page.locator(`#${id}`).innerText();
const until = (page, id, pattern, timeout) => page.waitForFunction(([id, source]) => new RegExp(source).test(document.getElementById(id).textContent), [id, pattern.source], { timeout });
// Chromium's software device compiles kernels for longer than it runs them.
const COMPILING = 240_000;
const picture = async (page, name) => pictures && page.screenshot({ path: path.join(pictures, `${name}.png`), fullPage: true });

async function ask_for(page, { model, device = 'cpu', epochs, batch, seed }) {
  await page.locator(`[name=device][value="${device}"]`).check({ force: true });
  await page.locator(`[name=model][value=${model}]`).check({ force: true });
  await page.locator('details').evaluate(d => { d.open = true; });
  for (const [name, value] of Object.entries({ epochs, batch, seed })) await page.fill(`[name=${name}]`, value === undefined ? '' : String(value));
  await page.click('#go');
}

async function draw_one(page) {
  await page.locator('#pad').scrollIntoViewIfNeeded();
  const box = await page.locator('#pad').boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.15);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.85, { steps: 8 });
  await page.mouse.up();
}

try {
  // Without the flag, Chromium has no adapter on a machine without a GPU.
  await launch();
  let page = await open();
  await until(page, 'gpu-says', /adapter/);
  assert.match(await text(page, 'gpu-says'), /found no graphics adapter/, 'what is missing for WebGPU is said');
  assert.ok(await page.locator('[value="webgpu:0"]').isDisabled());
  await page.close();
  step('without WebGPU, the page says what is missing');

  await launch('--enable-unsafe-webgpu');
  page = await open('?fault=refuse');
  await until(page, 'gpu-says', /cannot be used/);
  assert.match(await text(page, 'gpu-says'), /it has too few storage buffers$/);
  assert.ok(await page.locator('[value="webgpu:0"]').isDisabled());
  step(`an adapter that is refused: ${await text(page, 'gpu-says')}`);
  await page.close();
  page = await open('?fault=lose');
  await until(page, 'go', /^Train$/);
  step('the page is loaded');
  assert.match(await text(page, 'cpu-says'), /simd128/);
  await until(page, 'gpu-says', /exact|cannot/, COMPILING);
  step(`WebGPU: ${await text(page, 'gpu-says')}`);
  await draw_one(page);
  await until(page, 'draw-says', /no network yet/);
  await page.click('#clear');
  await picture(page, 'desktop-empty');
  step('drawing before training is a sentence');

  for (const [model, device] of [['mlp', 'cpu'], ['cnn', 'cpu'], ['mlp', 'webgpu:0'], ['cnn', 'webgpu:0']]) {
    await ask_for(page, { model, device, epochs: 1, batch: 64, seed: 1 });
    await until(page, 'h-here', /training is done/);
    if (model === 'cnn' && device !== 'cpu') {
      // A whole epoch takes this device minutes. When it is lost, the run goes on on the processor.
      await until(page, 's-loss', /[0-9]/, COMPILING);
      await page.evaluate(() => new BroadcastChannel('fault').postMessage('lose'));
      await until(page, 'notice', /was lost/, COMPILING);
      await until(page, 'go', /^Resume$/);
      step(`${model} on ${device}: ${await text(page, 'notice')}`);
      await page.locator('[name=device][value=cpu]').check({ force: true });
      await page.click('#go');
    }
    await until(page, 'verdict', /./, COMPILING);
    assert.equal(await text(page, 'h-here'), sha256(model, 1, 1));
    assert.equal(await text(page, 'verdict'), 'The same, bit for bit');
    step(`${model} on ${device}: an epoch, the native program's weights, ${await text(page, 's-speed')} samples/s`);
  }

  await ask_for(page, { model: 'mlp' });
  await until(page, 's-epoch', /^[2-9] of 30/);
  await page.click('#go');
  await until(page, 'go', /^Resume$/);
  await page.click('#go');
  step('stopped and resumed');
  await until(page, 's-epoch', /^([4-9]|..) of 30/);
  await page.waitForTimeout(1200);
  await page.close();
  page = await open();
  await until(page, 'notice', /Going on from step/);
  step('closed and opened again: it goes on');
  await until(page, 'verdict', /./);
  assert.equal(await text(page, 'h-here'), sha256('mlp', 0, 30));
  step(`the README's weights, ${await text(page, 's-speed')} samples/s`);

  await draw_one(page);
  await until(page, 'answer', /\d/);
  assert.equal(await text(page, 'answer'), '1');
  await page.click('#clear');
  await page.focus('#pad');
  await page.keyboard.press(' ');
  for (let i = 0; i < 14; i++) await page.keyboard.press('ArrowDown');
  await until(page, 'answer', /\d/);
  await page.click('#sample');
  await until(page, 'draw-says', /Read by the trained/);
  step('drawn digits are read, by mouse and by keyboard');
  await picture(page, 'desktop');
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.waitForTimeout(100);
  await picture(page, 'desktop-dark');
  const height_of_curve = () => page.locator('#curve').evaluate(c => c.clientHeight);
  const before = await height_of_curve();
  for (const width of [320, 390]) {
    await page.setViewportSize({ width, height: 844 });
    await page.waitForTimeout(200);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `nothing is wider than ${width} pixels`);
  }
  await picture(page, 'phone-dark');
  await page.emulateMedia({ colorScheme: 'light' });
  await page.waitForTimeout(100);
  await picture(page, 'phone');
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.waitForTimeout(200);
  assert.equal(await height_of_curve(), before, 'the curve is as high as before, when a phone was turned, say');
  await page.close();

  page = await open();
  await until(page, 'verdict', /The same/);
  await page.click('#over');
  await until(page, 'h-here', /after the training/);
  await page.close();
  page = await open('?memory=0.05');
  await until(page, 'go', /^Train$/);
  await page.click('#go');
  await until(page, 'notice', /memory/);
  step(`memory exhausted: ${await text(page, 'notice')}`);
  assert.deepEqual(complaints, [], 'errors and warnings of the console');
} catch (error) {
  console.log(error.stack, complaints);
  process.exitCode = 1;
} finally {
  await context.close();
  server.close();
  fs.rmSync(folder, { recursive: true, force: true });
}
