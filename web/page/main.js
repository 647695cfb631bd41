// The page: it shows what the worker tells, and tells it what is asked for.

import { draw as draw_curve, fit } from './curve.js';
import { Pad, paint, strip } from './digit.js';

const $ = id => document.getElementById(id);
const RECIPES = { mlp: { epochs: 30, batch: 16 }, cnn: { epochs: 12, batch: 32 } };
const TICK = '<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2.6" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><circle cx="12" cy="12" r="10" stroke-width="1.8"/><path d="m7.5 12.5 3 3 6-6.5"/></svg>';
const CROSS = '<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2.6" stroke-linecap="round" aria-hidden="true"><circle cx="12" cy="12" r="10" stroke-width="1.8"/><path d="m8.5 8.5 7 7m0-7-7 7"/></svg>';

// 'loading', 'idle', 'running', 'stopping', 'stopped', 'finished' or 'dead'.
let state = 'loading';
let settings = null;
let curve = { losses: [], scores: [], steps: 0 };
let wrong = [];
let images = [];
let expected = [];
let hash = null;
let recent = [];

const worker = new Worker(`worker.js${location.search}`, { type: 'module' });
const ask = (type, message = {}) => worker.postMessage({ type, ...message });

// Controls

const form = $('form');
const chosen = name => form.elements[name].value;

// What the form asks for; an empty field is the network's own setting.
function asked() {
  const model = chosen('model'), number = (name, own) => form.elements[name].value === '' ? own : Number(form.elements[name].value);
  return { model, device: chosen('device'), seed: number('seed', 0), epochs: number('epochs', RECIPES[model].epochs), batch: number('batch', RECIPES[model].batch) };
}

const is_same_run = () => {
  const now = asked();
  return settings && ['model', 'seed', 'epochs', 'batch'].every(name => settings[name] === now[name]);
};

function show_controls() {
  const go = $('go');
  const text = {
    loading: 'Loading', idle: 'Train', running: 'Stop', stopping: 'Stopping', stopped: is_same_run() ? 'Resume' : 'Train',
    finished: is_same_run() ? 'Train again' : 'Train', dead: 'Reload the page',
  };
  go.textContent = text[state];
  go.disabled = state === 'loading' || state === 'stopping';
  $('over').hidden = !['stopped', 'finished'].includes(state);
  const busy = state === 'running' || state === 'stopping';
  for (const field of form.querySelectorAll('input')) field.disabled = busy || (field.value === 'webgpu:0' && !field.dataset.there);
  for (const name of ['epochs', 'batch']) form.elements[name].placeholder = RECIPES[chosen('model')][name];
  show_expected();
}

form.addEventListener('input', show_controls);
form.addEventListener('submit', event => {
  event.preventDefault();
  if (state === 'dead') return location.reload();
  if (state === 'running') {
    state = 'stopping';
    ask('stop');
    return show_controls();
  }
  notice();
  if (state === 'stopped' && is_same_run()) ask('resume', { device: chosen('device') });
  else ask('start', asked());
  state = 'running';
  show_controls();
});
$('over').addEventListener('click', () => ask('forget'));

// A sentence above everything; none hides it.
function notice(text, is_bad = false) {
  const box = $('notice');
  box.hidden = !text;
  box.textContent = text ?? '';
  box.classList.toggle('bad', is_bad);
}

// Hashes

function show_expected() {
  const of = settings && ['running', 'stopping', 'stopped', 'finished'].includes(state) ? settings : asked();
  const own = RECIPES[of.model];
  const options = [['--model', of.model, 'mlp'], ['--epochs', of.epochs, own.epochs], ['--batch', of.batch, own.batch], ['--seed', of.seed, 0]];
  $('h-command').textContent = ['elinvar train digits', ...options.filter(([, value, usual]) => value !== usual).map(([name, value]) => `${name} ${value}`)].join(' ');
  const known = expected.find(e => ['model', 'seed', 'epochs', 'batch'].every(name => e[name] === of[name]))?.sha256;
  $('h-there').textContent = known ?? 'run the command below to see it';
  $('h-there').classList.toggle('none', !known);
  $('h-here').textContent = hash ?? (state === 'running' ? 'when the training is done' : 'after the training');
  $('h-here').classList.toggle('none', !hash);
  const verdict = $('verdict');
  const is_same = hash && known && hash === known;
  verdict.className = `verdict${hash && known ? (is_same ? ' same' : ' other') : ''}`;
  verdict.innerHTML = !hash || !known ? '' : is_same ? `${TICK}The same, bit for bit` : `${CROSS}Not the same: please report it, with your browser's name and version`;
}

// Progress

function show_curve() {
  draw_curve($('curve'), curve);
  const { losses, scores, steps } = curve;
  const last = scores.at(-1);
  $('curve').setAttribute('aria-label', losses.length
    ? `Step ${losses.length} of ${steps}, loss ${losses.at(-1).toFixed(3)}${last ? `, test accuracy ${(last.accuracy * 100).toFixed(2)} percent after epoch ${last.epoch}` : ''}.`
    : 'No training yet.');
  const percent = steps ? 100 * losses.length / steps : 0;
  $('bar').style.width = `${percent}%`;
  $('bar').parentElement.setAttribute('aria-valuenow', Math.round(percent));
  $('s-loss').textContent = losses.length ? mean(losses.slice(-20)).toFixed(3) : '–';
  $('s-accuracy').innerHTML = last ? `${(last.accuracy * 100).toFixed(2)}<small> %</small>` : '–';
}
const mean = numbers => numbers.reduce((a, b) => a + b, 0) / numbers.length;

function show_epoch(epoch, epochs) {
  $('s-epoch').innerHTML = `${epoch}<small> of ${epochs}</small>`;
}

function show_wrong() {
  const trained = state === 'finished';
  $('wrong-says').textContent = !trained
    ? 'The test images that the network gets wrong, when it is trained.'
    : wrong.length ? `${wrong.length} of ${settings.test} test images, which it never saw in training` : `None of ${settings.test} test images, which it never saw in training.`;
  $('wrong').replaceChildren(...wrong.map(({ pixels, label, read, probability }) => {
    const item = document.createElement('li'), canvas = document.createElement('canvas'), text = document.createElement('span');
    paint(canvas, pixels);
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `A handwritten ${label}`);
    text.innerHTML = `${label}, read as <b>${read}</b>`;
    item.title = `A ${label} that was read as ${read}, with a probability of ${(probability * 100).toFixed(0)} %`;
    item.append(canvas, text);
    return item;
  }));
}

// Drawing

const bars = Array.from({ length: 10 }, (_, digit) => {
  const item = document.createElement('li');
  item.innerHTML = `<span>${digit}</span><i><b></b></i><output>–</output>`;
  $('bars').append(item);
  return item;
});
let asked_id = 0;

function show_read(probabilities) {
  const best = probabilities ? probabilities.indexOf(Math.max(...probabilities)) : -1;
  $('answer').firstElementChild.textContent = best < 0 ? '?' : best;
  $('answer').classList.toggle('none', best < 0);
  bars.forEach((item, digit) => {
    const p = probabilities?.[digit];
    item.classList.toggle('most', digit === best);
    item.querySelector('b').style.width = `${100 * (p ?? 0)}%`;
    item.querySelector('output').textContent = p === undefined ? '–' : `${(100 * p).toFixed(p < 0.0995 ? 1 : 0)} %`;
  });
}

let drawn = null;
function look(pixels) {
  drawn = pixels;
  paint($('seen'), pixels ?? new Array(64).fill(0));
  if (!pixels) {
    $('draw-says').textContent = 'Draw it large, one digit, in any place.';
    return show_read(null);
  }
  ask('read', { pixels, id: ++asked_id });
}
const pad = new Pad($('pad'), () => look(pad.pixels()));
$('clear').addEventListener('click', () => pad.clear());
$('sample').addEventListener('click', () => {
  if (!images.length) return;
  const pixels = images[Math.floor(Math.random() * images.length)];
  pad.put(pixels);
  look(pixels);
});

// What the worker tells

const heard = {
  ready({ devices, examples }) {
    images = Array.from({ length: examples.length / 64 }, (_, i) => Array.from(examples.slice(64 * i, 64 * (i + 1))));
    const of = name => devices.find(d => d.name === name);
    $('cpu-says').textContent = `WebAssembly, ${of('cpu')?.instructions ?? 'plain'}`;
    paint_all();
  },
  // Opened and probed by the engine, or the reason why not.
  gpu({ name, exactness, missing }) { show_gpu(missing ? null : { name, exactness }, missing); },
  idle() {
    [state, settings, hash, wrong] = ['idle', null, null, []];
    show_controls();
    show_wrong();
  },
  began(message) {
    ({ settings } = message);
    state = 'running';
    hash = null;
    wrong = [];
    recent = [];
    const { epochs, batch, train, model } = settings;
    curve = { losses: message.losses, scores: message.scores, steps: Math.ceil(train / batch) * epochs };
    for (const field of form.elements.model) field.checked = field.value === model;
    for (const name of ['epochs', 'batch', 'seed']) {
      const own = { ...RECIPES[model], seed: 0 }[name];
      form.elements[name].value = settings[name] === own ? '' : settings[name];
    }
    if (message.resumed) notice(`Going on from step ${message.resumed.toLocaleString('en')} of ${curve.steps.toLocaleString('en')}, which was saved here.`);
    show_epoch(message.scores.length, epochs);
    show_controls();
    show_curve();
    show_wrong();
  },
  progress({ losses, scores, epoch, epochs, samples, seconds, finished }) {
    curve.losses.push(...losses);
    curve.scores.push(...scores);
    recent.push({ samples, seconds });
    recent = recent.slice(-12);
    const [done, took] = ['samples', 'seconds'].map(name => recent.reduce((sum, r) => sum + r[name], 0));
    $('s-speed').textContent = Math.round(done / took).toLocaleString('en');
    show_epoch(finished ? epochs : Math.min(epoch + 1, epochs), epochs);
    show_curve();
    if (scores.length && drawn) ask('read', { pixels: drawn, id: ++asked_id });
  },
  finished(message) {
    state = 'finished';
    ({ hash, wrong } = message);
    notice();
    show_epoch(settings.epochs, settings.epochs);
    show_controls();
    show_curve();
    show_wrong();
    if (drawn) ask('read', { pixels: drawn, id: ++asked_id });
  },
  stopped() {
    state = 'stopped';
    notice(`Stopped at step ${curve.losses.length.toLocaleString('en')} of ${curve.steps.toLocaleString('en')}; it is saved here, and can go on at any time.`);
    show_controls();
  },
  forgotten() {
    curve = { losses: [], scores: [], steps: 0 };
    for (const id of ['s-epoch', 's-speed']) $(id).textContent = '–';
    notice();
    heard.idle();
    show_curve();
    look(drawn);
  },
  read({ id, probabilities }) {
    if (id !== asked_id) return;
    $('draw-says').textContent = state === 'finished' ? 'Read by the trained network.' : 'Read by a network that is still learning.';
    show_read(probabilities);
  },
  notice({ message }) { notice(message, true); },
  failed({ message, of, fatal, id }) {
    if (of === 'read') {
      if (id === asked_id) { show_read(null); $('draw-says').textContent = message; }
      return;
    }
    notice(message, true);
    state = fatal ? 'dead' : settings && curve.losses.length ? 'stopped' : 'idle';
    show_controls();
  },
};
worker.onmessage = ({ data }) => heard[data.type](data);
worker.onerror = () => heard.failed({
  message: 'The engine could not be started. This page needs a browser with WebAssembly SIMD and module workers: Chrome or Edge 91, Firefox 114, Safari 16.4, or newer.',
  fatal: true,
});

// WebGPU: what is missing is said in full.
async function show_gpu(opened, missing) {
  const radio = form.querySelector('[value="webgpu:0"]');
  const says = text => { $('gpu-says').textContent = text; };
  if (!isSecureContext) return says('needs https, or localhost');
  if (!navigator.gpu) return says('this browser has none');
  const adapter = await navigator.gpu.requestAdapter().catch(() => null);
  if (!adapter) return says('the browser found no graphics adapter');
  const { vendor, architecture } = adapter.info ?? {};
  const name = [vendor, architecture].filter(Boolean).join(' ') || 'an adapter';
  if (!opened) return says(`${name} cannot be used: ${missing}`);
  radio.dataset.there = 'yes';
  says(`${name}, ${opened.exactness}`);
  show_controls();
}

// What depends on colours and sizes.
function paint_all() {
  if (images.length) strip(fit($('strip')), images.slice(10));
  show_curve();
  pad.show();
  paint($('seen'), drawn ?? new Array(64).fill(0));
  show_wrong();
}
addEventListener('resize', paint_all);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', paint_all);

fetch('expected.json').then(answer => answer.json()).then(all => { expected = all; show_expected(); });
show_read(null);
paint_all();
show_controls();
