// The strip above the timeline: how busy threads and GPUs were over the whole run, and which part of it is seen.

const STRIP_HEIGHT = 34;
const strip = { canvas: byId('strip'), width: 0, cpu: null, gpu: null };

/** How much of each pixel the outermost ranges, or the operations, cover: 1 for one thread or stream all the time. */
function busyness(width, wanted) {
  const bins = new Float32Array(width);
  const perPixel = run.until / width;
  for (const row of run.rows) {
    if (!wanted(row)) continue;
    for (let item = row.first; item < row.last; item++) {
      const [from, to] = [run.start[item] / perPixel, run.end[item] / perPixel];
      for (let bin = Math.floor(from); bin <= to && bin < width; bin++) {
        bins[bin] += Math.max(0, Math.min(to, bin + 1) - Math.max(from, bin));
      }
    }
  }
  return bins;
}

function measureStrip() {
  const outermost = new Set();
  for (const group of run.groups) {
    const track = group.tracks.find((track) => track.part === 'ranges');
    if (track) outermost.add(track.rows[0]);
  }
  strip.width = Math.max(50, timeline.width - timeline.gutter);
  sizeCanvas(strip.canvas, timeline.width, STRIP_HEIGHT);
  strip.cpu = busyness(strip.width, (row) => outermost.has(row));
  strip.gpu = run.rows.some((row) => row.part === 'operations')
    ? busyness(strip.width, (row) => row.part === 'operations')
    : null;
}

function drawStrip() {
  if (!strip.cpu || strip.width !== Math.max(50, timeline.width - timeline.gutter)) measureStrip();
  const context = strip.canvas.getContext('2d');
  const { gutter, width } = timeline;
  context.fillStyle = theme.ground;
  context.fillRect(0, 0, width, STRIP_HEIGHT);
  const bands = strip.gpu
    ? [
        ['CPU', strip.cpu, 'cpu'],
        ['GPU', strip.gpu, 'gpu'],
      ]
    : [['CPU', strip.cpu, 'cpu']];
  const each = (STRIP_HEIGHT - 4) / bands.length;
  context.font = SMALL_FONT;
  context.textBaseline = 'middle';
  bands.forEach(([label, bins, color], index) => {
    const bottom = 2 + each * (index + 1);
    let most = 1;
    for (const bin of bins) most = Math.max(most, bin);
    context.fillStyle = theme.quiet;
    context.fillText(label, 8, bottom - each / 2);
    context.fillStyle = theme[color];
    for (let x = 0; x < bins.length; x++) {
      if (bins[x] > 0) {
        const height = Math.max(1, (bins[x] / most) * (each - 2));
        context.fillRect(gutter + x, bottom - height, 1, height);
      }
    }
  });
  const perPixel = run.until / strip.width;
  const left = gutter + Math.max(0, timeline.from / perPixel);
  const right = Math.min(width, gutter + timeline.to / perPixel);
  context.globalAlpha = 0.6;
  context.fillStyle = theme.ground;
  context.fillRect(gutter, 0, left - gutter, STRIP_HEIGHT);
  context.fillRect(right, 0, width - right, STRIP_HEIGHT);
  context.globalAlpha = 1;
  context.strokeStyle = theme.accent;
  context.lineWidth = 1.5;
  context.strokeRect(left + 0.5, 1, Math.max(right - left - 1, 3), STRIP_HEIGHT - 2);
}

/** Shows the part of the run around a point of the strip. */
function goTo(x) {
  const time = ((x - timeline.gutter) / strip.width) * run.until;
  const half = (timeline.to - timeline.from) / 2;
  show(time - half, time + half);
}

strip.canvas.addEventListener('pointerdown', (event) => {
  strip.canvas.setPointerCapture(event.pointerId);
  goTo(event.offsetX);
});
strip.canvas.addEventListener('pointermove', (event) => {
  if (event.buttons & 1) goTo(event.offsetX);
});
