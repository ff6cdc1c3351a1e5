// Why the GPU was idle: the causes of a device and of a range as bars, and the hatches of each cause on the timeline.

/** A tile of eight pixels for each of `run.idle.causes`: with the hue of the same number, so that not all is colour. */
const HATCHES = [
  'M0 8L8 0M-1 1L1 -1M7 9L9 7',
  'M0 0L8 8M7 -1L9 1M-1 7L1 9',
  'M4 0V8',
  'M0 4H8',
  'M4 0V8M0 4H8',
  'M0 0L8 8M0 8L8 0',
  'M2 2H6V6H2Z',
  '',
  'M3 4H5M7 0H9M-1 0H1M7 8H9M-1 8H1',
  'M1.5 0V8M4.5 0V8',
  'M0 1.5H8M0 4.5H8',
];

/** By the number of a text: 1 and the number of the cause that it is, or 0. */
const causeOfText = new Uint8Array(run.texts.length);
run.idle?.causes.forEach((name, cause) => {
  causeOfText[run.texts.indexOf(name)] = cause + 1;
  hues.set(name, cause);
});

function makeHatches() {
  if (!run.idle) return;
  theme.hatches = HATCHES.map((lines) => {
    const tile = element('canvas', '');
    tile.width = tile.height = 8;
    const context = tile.getContext('2d');
    context.strokeStyle = theme['on-color'];
    context.globalAlpha = 0.5;
    context.stroke(new Path2D(lines));
    return { tile, pattern: context.createPattern(tile, 'repeat') };
  });
}
theme.listeners.push(makeHatches);

/** Where all is idle time: `launching`. */
function shortCause(name) {
  return name.slice('idle: '.length);
}

/** Paints an element as idle times with this cause are drawn. */
function paintCause(target, name) {
  const { tile } = theme.hatches[run.idle.causes.indexOf(name)];
  target.style.background = `url(${tile.toDataURL()}), ${colorOfName(name)}`;
}

/** Bars of causes, the largest first: each with its time and its share of all idle time. */
function barsOfCauses(causes, whose) {
  const whole = causes.reduce((sum, ns) => sum + ns, 0);
  const order = [...causes.keys()].filter((cause) => causes[cause] > 0).sort((a, b) => causes[b] - causes[a]);
  const entries = order.map((cause) => {
    const ns = causes[cause];
    const figures = [human(ns), percent(ns, whole)];
    const name = run.idle.causes[cause];
    return barEntry(name, ns / causes[order[0]], figures, ' of the idle time' + whose, paintCause, shortCause(name));
  });
  return element('ol', 'bars', ...entries);
}

/** In the overview, a list a device; above the timeline, what its colours and hatches mean. */
function showIdle() {
  const devices = run.idle?.devices.filter(({ causes }) => causes.some((ns) => ns > 0)) ?? [];
  byId('hot-idle').hidden = devices.length === 0;
  const isDrawn = run.rows.some((row) => row.part === 'idle');
  byId('idle-causes').hidden = !isDrawn;
  if (!devices.length) return;
  const parts = devices.flatMap(({ label, wall_ns, busy_ns, causes, drawn_ns }) => {
    const idle = wall_ns - busy_ns;
    const isWhole = !isDrawn || drawn_ns >= idle;
    const missing = isWhole ? '' : ', ' + human(idle - drawn_ns) + ' of it too short for the timeline';
    const says = ': idle ' + percent(idle, wall_ns) + ' of ' + human(wall_ns) + missing;
    return [element('p', 'quiet', label + says), barsOfCauses(causes, ' of ' + label)];
  });
  byId('hot-idle').replaceChildren(byId('hot-idle-title'), ...parts);
  const used = run.idle.causes.filter((_, cause) => devices.some(({ causes }) => causes[cause] > 0));
  const keys = used.map((name) => {
    const swatch = element('span', 'swatch');
    paintCause(swatch, name);
    return element('li', '', swatch, shortCause(name));
  });
  byId('idle-causes').replaceChildren(element('li', 'quiet', 'GPU idle:'), ...keys);
}

/** The idle time that the launches of all ranges of a name ended, or nothing. */
function idleOfRange(name) {
  const [, causes] = run.idle?.spans.find(([range]) => range === name) ?? [];
  if (!causes) return '';
  const whole = causes.reduce((sum, ns) => sum + ns, 0);
  const says = 'GPU idle before what all ranges of this name launched: ' + human(whole);
  return element('div', 'idle-of-range', element('p', 'quiet', says), barsOfCauses(causes, ' of ' + name));
}

/**
 * Draws idle times. Those that share a pixel are one bar, with the cause that has most of it, as high as the part of
 * the pixel that was idle.
 */
function drawIdle(context, line, y, alpha) {
  const { start, end, name } = run;
  const scale = scaleNow();
  const offset = timeline.gutter - timeline.from * scale;
  const sums = new Float64Array(HATCHES.length + 1);
  let index = firstIndex(line.first, line.last, (index) => end[index] > timeline.from);
  while (index < line.last && start[index] <= timeline.to) {
    const x = start[index] * scale + offset;
    const width = end[index] * scale + offset - x;
    const first = index;
    let [item, height] = [index, line.height];
    if (width >= 1.5) {
      index++;
    } else {
      const until = timeline.from + (Math.floor(x) + 1 - timeline.gutter) / scale;
      sums.fill(0);
      let all = 0;
      const fits = (at) => at < line.last && start[at] < until && (end[at] - start[at]) * scale < 1.5;
      for (; index === first || fits(index); index++) {
        const ns = end[index] - start[index];
        all += ns;
        sums[causeOfText[name[index]]] += ns;
        if (sums[causeOfText[name[index]]] > sums[causeOfText[name[item]]]) item = index;
      }
      height = Math.max(1, Math.min(1, all * scale) * height);
    }
    const strength = search.active && !anyMatch(first, index) ? theme.dim * alpha : alpha;
    if (width >= 1.5) drawBar(context, line, item, x, width, y, strength);
    else hatch(context, item, Math.floor(x), y + line.height - height, 1, height, strength);
  }
  context.globalAlpha = 1;
}

/** Fills a place with the colour of an idle time and its hatch. */
function hatch(context, item, x, y, width, height, strength) {
  context.globalAlpha = strength;
  const cause = causeOfText[run.name[item]];
  for (const style of [colorOf(item), theme.hatches[cause - 1]?.pattern ?? 'transparent']) {
    context.fillStyle = style;
    context.fillRect(x, y, width, height);
  }
}
