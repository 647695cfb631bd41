// The curve: the loss of each step, smoothed, on a logarithmic scale at the left; the accuracy on the
// test images after each epoch at the right.

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A canvas at the screen's resolution, in CSS pixels.
export function fit(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const c = canvas.getContext('2d');
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  return { c, width, height };
}

// The mean of the steps around each: of fewer at the beginning, of those before it at the end.
function smoothed(losses) {
  const reach = Math.min(25, Math.floor(losses.length / 20));
  const sums = [0];
  for (const loss of losses) sums.push(sums.at(-1) + loss);
  return losses.map((_, i) => {
    const before = Math.min(reach, i), after = Math.min(before, losses.length - 1 - i);
    return (sums[i + after + 1] - sums[i - before]) / (before + after + 1);
  });
}

export function draw(canvas, { losses, scores, steps }) {
  const { c, width, height } = fit(canvas);
  const left = 34, right = 42, top = 12, bottom = 22;
  const w = width - left - right, h = height - top - bottom;
  const ink = css('--soft'), line = css('--line');
  c.font = `12px ${css('--sans')}`;
  c.lineWidth = 1;

  const finite = losses.filter(Number.isFinite);
  const low = Math.min(0.5, ...finite.length ? [finite.reduce((a, b) => Math.min(a, b))] : []);
  const high = Math.max(2.5, ...finite.length ? [finite.reduce((a, b) => Math.max(a, b))] : []);
  const y_of = loss => top + h * (1 - (Math.log(loss) - Math.log(low)) / (Math.log(high) - Math.log(low)));
  const x_of = step => left + w * step / Math.max(1, steps);

  c.fillStyle = ink;
  c.strokeStyle = line;
  c.textBaseline = 'middle';
  for (const tick of [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5].filter(t => t >= low && t <= high)) {
    const y = Math.round(y_of(tick)) + 0.5;
    c.beginPath(); c.moveTo(left, y); c.lineTo(left + w, y); c.stroke();
    c.textAlign = 'right';
    c.fillText(String(tick), left - 8, y);
  }
  // The accuracy's axis begins at a half: below, a network has learned nothing worth reading off.
  const a_of = accuracy => top + h * (1 - (Math.max(0.5, accuracy) - 0.5) / 0.5);
  c.textAlign = 'left';
  for (const tick of [0.5, 0.75, 1]) c.fillText(`${tick * 100}%`, left + w + 8, a_of(tick));
  c.textAlign = 'center';
  c.textBaseline = 'alphabetic';
  if (steps) {
    c.textAlign = 'left';
    c.fillText('step 0', left, height - 5);
    c.textAlign = 'right';
    c.fillText(steps.toLocaleString('en'), left + w, height - 5);
  }

  if (!losses.length) {
    c.textAlign = 'center';
    c.textBaseline = 'middle';
    c.fillText('The curve is drawn while the network learns.', left + w / 2, top + h / 2 - 12);
    return;
  }
  const path = (points, style, thick, alpha = 1) => {
    c.globalAlpha = alpha;
    c.strokeStyle = style;
    c.lineWidth = thick;
    c.lineJoin = 'round';
    c.beginPath();
    points.forEach(([x, y], i) => i ? c.lineTo(x, y) : c.moveTo(x, y));
    c.stroke();
    c.globalAlpha = 1;
  };
  const places = values => values.map((v, i) => [x_of(i + 1), y_of(v)]);
  path(places(losses), css('--accent'), 1, 0.22);
  path(places(smoothed(losses)), css('--accent'), 2.25);
  const accuracies = scores.map(s => [x_of(s.step), a_of(s.accuracy)]);
  path(accuracies, css('--second'), 2);
  c.fillStyle = css('--second');
  for (const [x, y] of accuracies) { c.beginPath(); c.arc(x, y, scores.length > 16 ? 2 : 3.2, 0, 7); c.fill(); }
}
