// The worker: it holds the training, runs it for a while at a time, and hears messages in between, so
// that the page stays responsive. What it keeps of a run beside the engine's own state is the curve.

import init, { Training, devices, examples, last_panic, webgpu } from './engine/elinvar_web.js';
import * as store from './store.js';

// A while: short enough for a smooth curve, long enough that going on costs nothing beside it.
const WHILE_MS = 80;
// A tab that is closed loses no more than this.
const SAVE_EVERY_MS = 1000;
// Kept of each run: the engine's state, the curve, and whether it ran when it was saved.
let run = null;
let memory_limit = 0;
let stopping = false;
let saved_at = 0;
let cannot_save = false;
// A training ended by an error: its device may be lost.
let failed = false;

// A training does one thing at a time, and what waits for a GPU lets messages in.
let turn = Promise.resolve();
function in_turn(work) {
  const mine = turn.then(work);
  turn = mine.catch(() => {});
  return mine;
}

const tell = (type, message = {}) => postMessage({ type, ...message });
const pause = () => new Promise(resolve => setTimeout(resolve));

// An error of the engine is a sentence. A trap has none: it is a panic, or memory that the browser did
// not give, and the module cannot go on.
function sentence(error) {
  if (error instanceof WebAssembly.RuntimeError || error instanceof RangeError) {
    const panic = ready ? last_panic() : '';
    run = null;
    return panic
      ? `The engine stopped: ${panic}. Reload the page to go on from the last saved step.`
      : 'The browser has no more memory for this tab. Close other tabs, or ask for less, and reload the page to go on from the last saved step.';
  }
  return error?.message ?? String(error);
}

function record(running) {
  const { training, device, losses, scores, samples, seconds, finished, hash } = run;
  return { bytes: training.save(), device, settings: JSON.parse(training.settings()), losses, scores, samples, seconds, finished, hash, running };
}

async function save(running) {
  saved_at = performance.now();
  try {
    await store.save(record(running));
  } catch (error) {
    if (error instanceof WebAssembly.RuntimeError) throw error;
    if (!cannot_save) tell('notice', { message: `This run cannot be saved: ${error.message}. If the tab is closed, it begins anew.` });
    cannot_save = true;
  }
}

function begin(training, device, old = {}) {
  run?.training.free();
  run = { training, device, losses: [], scores: [], samples: 0, seconds: 0, finished: false, hash: null, ...old };
  tell('began', { settings: JSON.parse(training.settings()), losses: run.losses, scores: run.scores, resumed: run.losses.length });
}

// After an error the browser may have another adapter, or the same one anew.
async function look_again(device) {
  if (failed && device !== 'cpu') await webgpu();
  failed = false;
}

async function train() {
  stopping = false;
  while (!run.finished && !stopping) {
    failed = true;
    const news = JSON.parse(await in_turn(() => run.training.train_for(WHILE_MS)));
    failed = false;
    run.losses.push(...news.losses);
    run.scores.push(...news.scores);
    run.samples += news.samples;
    run.seconds += news.seconds;
    run.finished = news.finished;
    tell('progress', { ...news, total_samples: run.samples, total_seconds: run.seconds });
    if (!run.finished && performance.now() - saved_at > SAVE_EVERY_MS) await save(true);
    await pause();
  }
  if (run.finished) run.hash = run.training.hash();
  await save(false);
  await results();
}

async function results() {
  const wrong = run.finished ? JSON.parse(await in_turn(() => run.training.wrong())) : [];
  tell(run.finished ? 'finished' : 'stopped', { hash: run.hash, wrong });
}

const handlers = {
  async start({ model, device, seed, epochs, batch }) {
    await look_again(device);
    begin(new Training(model, device, seed, epochs, batch, memory_limit), device);
    await train();
  },
  async resume({ device }) {
    if (!run) throw new Error('There is no run to go on with.');
    if (device !== run.device || (failed && device !== 'cpu')) {
      await look_again(device);
      const { losses, scores, samples, seconds } = run;
      begin(Training.resume(run.training.save(), device, memory_limit), device, { losses, scores, samples, seconds });
    }
    await train();
  },
  stop() { stopping = true; },
  async forget() {
    await in_turn(() => run?.training.free());
    run = null;
    await store.forget();
    tell('forgotten');
  },
  async read({ pixels, id }) {
    const probabilities = await in_turn(() => {
      if (!run) throw new Error('There is no network yet that could read it: train one first.');
      return run.training.read(Float32Array.from(pixels));
    });
    tell('read', { id, steps: run.losses.length, probabilities: Array.from(probabilities) });
  },
};

// The browser's GPU: the page is told when it is opened, or what is missing.
let gpu = null;
async function open_gpu() {
  try {
    if (!navigator.gpu) throw new Error('workers have none in this browser');
    gpu = JSON.parse(await webgpu());
    tell('gpu', gpu);
  } catch (error) {
    tell('gpu', { missing: sentence(error) });
  }
}

let ready = false;
const opened = (async () => {
  memory_limit = Number(new URLSearchParams(self.location.search).get('memory') ?? 0) * 2 ** 20;
  await init({ module_or_path: new URL('./engine/elinvar_web_bg.wasm', import.meta.url) });
  ready = true;
  let saved;
  try {
    saved = await store.load();
  } catch (error) {
    tell('notice', { message: `This browser gives the page no storage (${error.message}), so a run that is interrupted begins anew.` });
  }
  tell('ready', { devices: JSON.parse(devices()), examples: examples(160) });
  const gpu_opened = open_gpu();
  if (!saved) return tell('idle');
  try {
    const { losses, scores, samples, seconds, finished, hash } = saved;
    let { device } = saved;
    if (device !== 'cpu') {
      await gpu_opened;
      if (!gpu) {
        tell('notice', { message: 'The saved run was on WebGPU, which is not there now: it goes on on the CPU, to the same bits.' });
        device = 'cpu';
      }
    }
    begin(Training.resume(saved.bytes, device, memory_limit), device, { losses, scores, samples, seconds, finished, hash });
  } catch (error) {
    tell('notice', { message: `The saved run cannot be read, so a new one begins: ${sentence(error)}` });
    return tell('idle');
  }
  if (saved.running) await train();
  else await results();
})().catch(error => tell('failed', { message: sentence(error), fatal: !ready }));

onmessage = async ({ data }) => {
  // A stop must be heard while the saved run goes on.
  if (data.type !== 'stop' && !ready) await opened;
  try {
    await handlers[data.type](data);
  } catch (error) {
    tell('failed', { message: sentence(error), of: data.type, id: data.id });
  }
};
