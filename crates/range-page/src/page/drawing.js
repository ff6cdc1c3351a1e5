// Draws the timeline. The work grows with the pixels seen, not with the items: what shares a pixel is drawn once.

const FONT = '12px system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif';
const SMALL_FONT = FONT.replace('12px', '11px');
const BOLD_FONT = '600 ' + FONT;
const PART_LABELS = {
  marks: 'events',
  lifetimes: 'lifetimes',
  api: 'CUDA API',
  projections: 'projected',
  operations: 'operations',
};

let redrawPending = false;
function redraw() {
  if (redrawPending) return;
  redrawPending = true;
  requestAnimationFrame(() => {
    redrawPending = false;
    drawTimeline();
  });
}

const widths = new Map();
function widthOf(context, text) {
  const key = context.font + text;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size > 20000) widths.clear();
    widths.set(key, (width = context.measureText(text).width));
  }
  return width;
}

/** As much of a text as fits; nothing where that is too little to read. */
function fitting(context, text, room) {
  if (room < 14) return '';
  const whole = text.length > 400 ? text.slice(0, 400) : text;
  const width = widthOf(context, whole);
  if (width <= room) return whole;
  for (let letters = Math.floor(((room - 11) / width) * whole.length); letters >= 2; letters--) {
    const part = whole.slice(0, letters).trimEnd() + '\u2026';
    if (widthOf(context, part) <= room) return part;
  }
  return '';
}

/** The same of a name of threads: its end, a number in brackets or how many they are, stays. */
function fittingLabel(context, label, room) {
  const tail = / (\([^()]{1,24}\)|\u00d7 \d+)$/.exec(label)?.[0] ?? '';
  const name = fitting(context, label.slice(0, label.length - tail.length), room - widthOf(context, tail));
  return name && tail ? name + tail : fitting(context, label, room);
}

function drawTimeline() {
  const context = timeline.canvas.getContext('2d');
  const { width, height, gutter, scroller } = timeline;
  const top = scroller.scrollTop;
  context.fillStyle = theme.panel;
  context.fillRect(0, 0, width, height);
  context.textBaseline = 'middle';
  drawTicks(context);
  context.save();
  context.beginPath();
  context.rect(gutter, RULER, width - gutter, height - RULER);
  context.clip();
  const { lines } = timeline;
  const first = firstIndex(0, lines.length, (index) => lines[index].y + lines[index].height > top + RULER);
  const after = firstIndex(first, lines.length, (index) => lines[index].y >= top + height);
  const seen = lines.slice(first, after);
  for (const line of seen) {
    if (line.part === 'marks') drawMarks(context, line, line.y - top);
    else if (line.part === 'flight') drawFlight(context, line, line.y - top);
    else if (line.part === 'idle') drawIdle(context, line, line.y - top, traced ? theme.dim : 1);
    else drawRow(context, line, line.y - top, { alpha: traced ? theme.dim : 1 });
  }
  if (traced) drawTraced(context, top, seen);
  drawLaunch(context, top);
  drawLate(context, top);
  drawOutline(context, timeline.hovered, top, theme.text);
  drawOutline(context, timeline.selected, top, theme.accent);
  drawMarked(context, top);
  context.restore();
  drawGutter(context, top);
  drawStrip();
  const from = utcOf(Math.max(0, timeline.from));
  byId('span').textContent = human(Math.round(timeline.to - timeline.from)) + ' shown' + (from && ', from ' + from);
  timeline.drawn = performance.now();
  timeline.firstDrawn ??= timeline.drawn;
}

/** Distance of ticks: 1, 2 or 5 times a power of ten, some 110 pixels. */
function tickStep() {
  const wanted = 110 / scaleNow();
  const power = 10 ** Math.floor(Math.log10(wanted));
  return Math.max(1, power * [1, 2, 5, 10].find((factor) => power * factor >= wanted * 0.999));
}

function drawTicks(context) {
  const { width, height, gutter } = timeline;
  const step = tickStep();
  context.font = SMALL_FONT;
  context.fillStyle = theme.quiet;
  context.strokeStyle = theme.line;
  context.lineWidth = 1;
  context.beginPath();
  for (let tick = Math.ceil(timeline.from / step) * step; tick <= timeline.to; tick += step) {
    const x = Math.round(xOf(tick)) + 0.5;
    if (x < gutter) continue;
    context.moveTo(x, RULER - 5);
    context.lineTo(x, height);
    context.fillText(moment(tick, step), x + 4, RULER / 2);
  }
  context.moveTo(gutter, RULER + 0.5);
  context.lineTo(width, RULER + 0.5);
  context.stroke();
}

/** Of the items of a row that are wide enough to see: which, where they begin, their widths. */
const bars = { items: [], lefts: [], widths: [] };

/**
 * Draws the items of a line. Neighbours within a pixel are one, as high as the part of the pixel that they take. What a
 * search does not find fades; what is `whole` is as high as the line.
 */
function drawRow(context, line, y, { alpha = 1, fades = search.active, whole = false } = {}) {
  const { start, end } = run;
  const { ids, last, height } = line;
  const scale = scaleNow();
  const offset = timeline.gutter - timeline.from * scale;
  const at = ids ? (index) => ids[index] : (index) => index;
  context.font = line.part === 'api' ? SMALL_FONT : FONT;
  let index = firstIndex(line.first, last, (index) => end[at(index)] > timeline.from);
  let count = 0;
  pixels.begin(height);
  while (index < last && start[at(index)] <= timeline.to) {
    const item = at(index);
    const x = start[item] * scale + offset;
    const width = end[item] * scale + offset - x;
    if (width >= 1.5) {
      [bars.items[count], bars.lefts[count], bars.widths[count++]] = [item, x, width];
      index++;
      continue;
    }
    const pixel = Math.floor(x);
    const until = timeline.from + (pixel + 1 - timeline.gutter) / scale;
    let next = nextIndex(index + 1, last, (index) => start[at(index)] >= until);
    if (next > index + 1 && lengthOf(at(next - 1)) * scale >= 1.5) next--; // it goes on beyond this pixel
    const fill = line.part === 'api' ? theme.call : colorOf(item);
    const found = fades && anyOn(ids, index, next);
    const faint = fades && !found ? theme.dim * alpha : alpha;
    pixels.add(pixel, fill, faint, whole || found ? 1 : Math.min(1, lengthOfAll(ids, index, next) * scale));
    index = next;
  }
  pixels.draw(context, y);
  for (let bar = 0; bar < count; bar++) {
    const item = bars.items[bar];
    const strength = fades && !isMatch(item) ? theme.dim * alpha : alpha;
    drawBar(context, line, item, bars.lefts[bar], bars.widths[bar], y, strength);
  }
  context.globalAlpha = 1;
}

/** Whether any of these items of a line is found. */
function anyOn(ids, first, last) {
  if (!ids) return anyMatch(first, last);
  for (let index = first; index < last; index++) if (isMatch(ids[index])) return true;
  return false;
}

function drawBar(context, line, item, x, width, y, strength) {
  const { height, part } = line;
  const left = Math.max(x, timeline.gutter - 2);
  const right = Math.min(x + width, timeline.width + 2);
  const isLow = part === 'projections';
  const waits = part === 'calls' && height > 6;
  const late = part === 'operations' && waitsForLate.get(item);
  context.globalAlpha = strength * (isLow ? 0.55 : waits || late ? 0.45 : 1);
  context.fillStyle = part === 'api' ? theme.call : colorOf(item);
  if (part === 'idle') hatch(context, item, left, y, right - left, height, strength);
  else context.fillRect(left, y, right - left, height);
  context.globalAlpha = strength;
  // Projected: a line with feet, so that it is told from work. A call: solid where it runs, pale where it waits. A
  // kernel that waits for a late rank: pale until then.
  if (late) {
    const until = Math.min(Math.max(xOf(run.start[item] + late.wait), left), right);
    context.fillRect(until, y, right - until, height);
  }
  if (isLow) context.fillRect(left, y + height - 2, right - left, 2);
  if (waits && right - left > 6) drawPolls(context, callOf(item), left, right, y, height);
  if (right - left > 3 && height > 3) {
    context.fillStyle = theme.edge;
    context.fillRect(left, y, 1, height);
  }
  if (search.active && isMatch(item)) {
    context.fillStyle = theme.found;
    context.fillRect(left, y + height - 3, right - left, 3);
  }
  if (height < 13) return;
  const inside = Math.max(left, timeline.gutter) + 4;
  const name = part === 'idle' ? shortCause(nameOf(item)) : nameOf(item);
  const text = fitting(context, name, right - inside - 3);
  if (text) {
    if (part === 'idle') {
      context.fillStyle = colorOf(item); // no hatch behind the letters
      context.fillRect(inside - 2, y + 1, widthOf(context, text) + 4, height - 2);
    }
    context.fillStyle = isLow || waits || late || part === 'api' ? theme.text : textOn(item);
    context.fillText(text, inside, y + height / 2 + 0.5);
  }
}

/** Where a call ran, along its lower edge. */
function drawPolls(context, call, left, right, y, height) {
  const place = calls.place[call];
  const [from, to] = [calls.from[place], calls.from[place + 1]];
  for (let index = from; index < Math.min(to, from + 2000); index++) {
    const item = calls.items[index];
    const x = Math.max(xOf(run.start[item]), left);
    const width = Math.min(Math.max(xOf(run.end[item]), x + 1), right) - x;
    if (width > 0) context.fillRect(x, y + height - 5, width, 5);
  }
}

/** How many calls were under way, at the start of each pixel. */
function drawFlight(context, line, y) {
  const { gutter, width } = timeline;
  const { starts, ends } = line.group;
  const counts = new Uint32Array(Math.max(1, width - gutter));
  let [begun, ended] = [0, 0];
  for (let x = 0; x < counts.length; x++) {
    const at = timeAt(gutter + x);
    begun = nextIndex(begun, starts.length, (index) => starts[index] > at);
    ended = nextIndex(ended, ends.length, (index) => ends[index] > at);
    counts[x] = begun - ended;
  }
  const most = counts.reduce((a, b) => Math.max(a, b), 1);
  context.fillStyle = theme.cpu;
  context.globalAlpha = traced ? 0.4 : 1;
  counts.forEach((count, x) => {
    const height = (line.height * count) / most;
    context.fillRect(gutter + x, y + line.height - height, 1, height);
  });
  context.globalAlpha = 1;
  context.fillStyle = theme.quiet;
  context.font = SMALL_FONT;
  context.fillText('at most ' + integer(most) + ' at once', gutter + 6, y + 8);
}

/** Events: a small diamond each, one a pixel; worse ones last, so that they are seen. */
function drawMarks(context, line, y) {
  const middle = y + line.height / 2;
  let item = firstIndex(line.first, line.last, (index) => run.start[index] >= timeline.from);
  let drawn = -10;
  for (; item < line.last && run.start[item] <= timeline.to;) {
    const x = Math.round(xOf(run.start[item]));
    const next = firstIndex(item + 1, line.last, (index) => run.start[index] > timeAt(x + 1));
    if (x - drawn >= 1) {
      context.globalAlpha = traced || (search.active && !anyMatch(item, next)) ? theme.dim : 1;
      context.fillStyle = theme.severities[line.level] || theme.quiet;
      context.beginPath();
      context.moveTo(x, middle - 5);
      context.lineTo(x + 4, middle);
      context.lineTo(x, middle + 5);
      context.lineTo(x - 4, middle);
      context.fill();
      drawn = x;
    }
    item = next;
  }
  context.globalAlpha = 1;
}

function drawOutline(context, item, top, color) {
  const line = item < 0 ? null : lineOf(item);
  if (!line || line.part === 'flight') return;
  const left = Math.max(xOf(run.start[item]), timeline.gutter - 4);
  const right = Math.min(xOf(run.end[item]), timeline.width + 4);
  if (right < timeline.gutter || left > timeline.width) return;
  context.strokeStyle = color;
  context.lineWidth = 2;
  context.strokeRect(left - 1, line.y - top - 1, Math.max(right - left, 2) + 2, line.height + 1);
}

/** From where the selected operation was launched. */
function drawLaunch(context, top) {
  const item = timeline.selected;
  const launch = item < 0 ? null : launchOf(item, rowOf(item));
  const line = launch && launch.at !== null ? lineOfThread(launch.thread, launch.at) : null;
  if (!line) return;
  const from = [xOf(launch.at), line.y + line.height - top];
  drawArrow(context, from, [xOf(run.start[item]), lineOf(item).y - top]);
}

/** Kernels that wait for a late one, if it or one of them is selected: from its beginning to the ends of the waits. */
function drawLate(context, top) {
  const own = waitsForLate.get(timeline.selected);
  for (const { item, last, wait } of own ? [own] : (waitersFor.get(timeline.selected) ?? [])) {
    const [from, to] = [last, item].map((one) => (one < 0 ? null : lineOf(one)));
    if (!from || !to) continue;
    const [other, line] = own ? [last, from] : [item, to];
    if (traced) drawRow(context, { ...line, ids: [other], first: 0, last: 1 }, line.y - top, WHOLE);
    const y = to.y + (to.y < from.y ? to.height : 0) - top;
    drawArrow(context, [xOf(run.start[last]), from.y + from.height / 2 - top], [xOf(run.start[item] + wait), y]);
  }
}

/** From a point to another, with a dot where it begins. */
function drawArrow(context, from, to) {
  context.strokeStyle = theme.accent;
  context.lineWidth = 1.5;
  context.beginPath();
  curve(context, from, to);
  context.stroke();
  context.fillStyle = theme.accent;
  context.beginPath();
  context.arc(...from, 3, 0, 7);
  context.fill();
}

function drawMarked(context, top) {
  if (!timeline.marked) return;
  const { from, to, upper, lower } = markedArea();
  const [left, right] = [xOf(from), xOf(to)];
  context.globalAlpha = 0.2;
  context.fillStyle = theme.accent;
  context.fillRect(left, upper - top, right - left, lower - upper);
  context.globalAlpha = 1;
  context.font = BOLD_FONT;
  context.fillStyle = theme.text;
  context.fillText(human(Math.round(to - from)), left + 4, Math.max(upper - top, RULER) + 12);
}

/** Names of calls, threads and streams, over what was drawn below them. */
function drawGutter(context, top) {
  const { gutter, height } = timeline;
  context.fillStyle = theme.panel;
  context.fillRect(0, 0, gutter, height);
  context.save();
  context.beginPath();
  context.rect(0, RULER, timeline.width, height - RULER);
  context.clip();
  for (const group of timeline.groups) {
    if (group.bottom < top + RULER || group.y > top + height) continue;
    context.fillStyle = theme.line;
    context.fillRect(0, group.y - top - 6, timeline.width, 1);
    for (const { text, y, own, accent } of group.labels) {
      context.font = own ? FONT : SMALL_FONT;
      context.fillStyle = accent ? theme.accent : own ? theme.text : theme.quiet;
      const indented = 20;
      const label = own
        ? fittingLabel(context, text, gutter - indented - 4)
        : fitting(context, text, gutter - indented - 4);
      context.fillText(label, indented, y - top);
    }
    context.font = BOLD_FONT;
    context.fillStyle = theme.text;
    const y = Math.max(group.y - top + 9, Math.min(RULER + 10, group.bottom - top - 9));
    const mark = group.key ? (isFolded(group) ? '\u25b8 ' : '\u25be ') : '';
    const label = group.parts.length === 1 && group.kind !== 'process' ? group.parts[0].label : group.label;
    context.fillText(mark + fittingLabel(context, label, gutter - 14 - (mark ? 14 : 0)), 8, y);
  }
  context.restore();
  context.fillStyle = theme.line;
  context.fillRect(gutter - 1, 0, 1, height);
}
