// Digits as pictures: painting 8 x 8 pixels, and drawing one by hand.

export const SIDE = 8;
// Canvases whose pixels are read stay in memory.
const READ = { willReadFrequently: true };

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const rgb = name => {
  const hex = css(name).slice(1);
  return [0, 2, 4].map(i => parseInt(hex.slice(i, i + 2), 16));
};

// Numbers from 0 to 1 as ink on paper, a pixel each.
export function paint(canvas, pixels) {
  canvas.width = canvas.height = SIDE;
  const c = canvas.getContext('2d');
  const image = c.createImageData(SIDE, SIDE);
  const [paper, ink] = [rgb('--paper'), rgb('--ink')];
  pixels.forEach((p, i) => {
    for (let k = 0; k < 3; k++) image.data[4 * i + k] = paper[k] + (ink[k] - paper[k]) * p;
    image.data[4 * i + 3] = 255;
  });
  c.putImageData(image, 0, 0);
}

// A row of digits, as dots.
export function strip({ c, width, height }, images) {
  const gap = height * 0.32, size = height;
  const count = Math.ceil(width / (size + gap));
  const cell = size / SIDE;
  c.fillStyle = css('--ink');
  for (let d = 0; d < Math.min(count, images.length); d++) {
    images[d].forEach((p, i) => {
      if (p < 0.08) return;
      const x = d * (size + gap) + (i % SIDE + 0.5) * cell + gap / 2, y = (Math.floor(i / SIDE) + 0.5) * cell;
      c.globalAlpha = 0.1 + 0.55 * p;
      c.beginPath();
      c.arc(x, y, cell * 0.43 * Math.sqrt(p), 0, 7);
      c.fill();
    });
  }
  c.globalAlpha = 1;
}

// What is drawn, as the data set's images were made: the bounding box of the ink is scaled to a bitmap
// of 32 x 32, and each of 8 x 8 pixels is the share of ink in its 4 x 4 bits. `null` without ink.
export function reduce(canvas) {
  const { width, height } = canvas;
  const ink = canvas.getContext('2d', READ).getImageData(0, 0, width, height).data;
  let [x0, y0, x1, y1] = [width, height, -1, -1];
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) if (ink[4 * (y * width + x) + 3] > 96) {
    x0 = Math.min(x0, x); x1 = Math.max(x1, x); y0 = Math.min(y0, y); y1 = Math.max(y1, y);
  }
  if (x1 < 0) return null;
  // As high as the image, or as wide if that is more; a thin stroke stays thin, and in the middle.
  const BITS = 4 * SIDE, scale = BITS / Math.max(y1 - y0 + 1, x1 - x0 + 1);
  const small = new OffscreenCanvas(BITS, BITS), c = small.getContext('2d', READ);
  const [w, h] = [(x1 - x0 + 1) * scale, (y1 - y0 + 1) * scale];
  c.imageSmoothingQuality = 'high';
  c.drawImage(canvas, x0, y0, x1 - x0 + 1, y1 - y0 + 1, (BITS - w) / 2, (BITS - h) / 2, w, h);
  const bits = c.getImageData(0, 0, BITS, BITS).data;
  const pixels = new Array(SIDE * SIDE).fill(0);
  for (let y = 0; y < BITS; y++) for (let x = 0; x < BITS; x++) {
    if (bits[4 * (y * BITS + x) + 3] > 110) pixels[(y >> 2) * SIDE + (x >> 2)] += 1 / 16;
  }
  return pixels;
}

// A canvas to draw on, by pointer or keyboard; `changed` is called after each stroke.
export class Pad {
  constructor(canvas, changed) {
    Object.assign(this, { canvas, changed, pen: { x: 0.5, y: 0.25, down: false }, last: null });
    canvas.addEventListener('pointerdown', e => {
      canvas.setPointerCapture(e.pointerId);
      this.last = this.place(e);
      this.line(this.last, this.last);
      e.preventDefault();
    });
    canvas.addEventListener('pointermove', e => {
      if (!this.last) return;
      for (const at of (e.getCoalescedEvents?.() ?? []).concat(e).map(e => this.place(e))) {
        this.line(this.last, at);
        this.last = at;
      }
    });
    for (const type of ['pointerup', 'pointercancel']) canvas.addEventListener(type, () => {
      if (this.last) { this.last = null; this.changed(); }
    });
    canvas.addEventListener('keydown', e => this.key(e));
    canvas.addEventListener('focus', () => canvas.matches(':focus-visible') && this.cursor());
    canvas.addEventListener('blur', () => this.show());
    this.ink = new OffscreenCanvas(canvas.width, canvas.height);
  }
  place(e) {
    const box = this.canvas.getBoundingClientRect();
    return { x: (e.clientX - box.left) / box.width, y: (e.clientY - box.top) / box.height };
  }
  line(from, to) {
    const c = this.ink.getContext('2d', READ), { width, height } = this.ink;
    c.lineWidth = width * 0.085;
    c.lineCap = c.lineJoin = 'round';
    c.beginPath();
    c.moveTo(from.x * width, from.y * height);
    c.lineTo(to.x * width, to.y * height + 0.01);
    c.stroke();
    this.show();
  }
  // The ink in the theme's colour.
  show() {
    const c = this.canvas.getContext('2d'), { width, height } = this.canvas;
    c.globalCompositeOperation = 'source-over';
    c.clearRect(0, 0, width, height);
    c.drawImage(this.ink, 0, 0);
    c.globalCompositeOperation = 'source-in';
    c.fillStyle = css('--ink');
    c.fillRect(0, 0, width, height);
    c.globalCompositeOperation = 'source-over';
  }
  cursor() {
    this.show();
    const c = this.canvas.getContext('2d'), { width, height } = this.canvas, { x, y, down } = this.pen;
    c.beginPath();
    c.arc(x * width, y * height, width * 0.05, 0, 7);
    c.lineWidth = 3;
    c.strokeStyle = css(down ? '--second' : '--accent');
    c.stroke();
  }
  key(e) {
    const step = 1 / 24, moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (e.key === ' ') {
      this.pen.down = !this.pen.down;
      if (this.pen.down) this.line(this.pen, this.pen);
    } else if (moves[e.key]) {
      const [dx, dy] = moves[e.key], clamp = v => Math.min(0.95, Math.max(0.05, v));
      const to = { x: clamp(this.pen.x + dx * step), y: clamp(this.pen.y + dy * step) };
      if (this.pen.down) this.line(this.pen, to);
      Object.assign(this.pen, to);
    } else if (e.key === 'Delete' || e.key === 'Backspace') {
      this.clear();
    } else return;
    e.preventDefault();
    this.cursor();
    if (this.pen.down) this.changed();
  }
  clear() {
    this.ink.getContext('2d', READ).clearRect(0, 0, this.ink.width, this.ink.height);
    this.pen.down = false;
    this.show();
    this.changed();
  }
  pixels() { return reduce(this.ink); }
  // An image of the data set, as if it had been drawn.
  put(pixels) {
    const c = this.ink.getContext('2d', READ), { width, height } = this.ink;
    const cell = width * 0.8 / SIDE, at = width * 0.1;
    c.clearRect(0, 0, width, height);
    pixels.forEach((p, i) => {
      c.globalAlpha = p;
      c.fillRect(at + (i % SIDE) * cell, at + Math.floor(i / SIDE) * cell, cell + 0.5, cell + 0.5);
    });
    c.globalAlpha = 1;
    this.show();
  }
}
