// Draws the timeline. The work grows with the pixels seen, not with the items: what shares a pixel is drawn once.

const FONT = '12px system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif';
const SMALL_FONT = FONT.replace('12px', '11px');
const BOLD_FONT = '600 ' + FONT;
const PART_LABELS = {
  marks: 'events',
  lifetimes: 'lifetimes',
  calls: 'calls',
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

/** The same of a thread's or stream's name: what stands in brackets at its end tells it from others, and stays. */
function fittingLabel(context, label, room) {
  const tail = / \([^()]{1,24}\)$/.exec(label)?.[0] ?? '';
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
  const first = firstIndex(0, run.rows.length, (index) => run.rows[index].y + run.rows[index].height > top + RULER);
  for (let index = first; index < run.rows.length && run.rows[index].y < top + height; index++) {
    const row = run.rows[index];
    if (row.part === 'marks') drawMarks(context, row, row.y - top);
    else drawRow(context, row, row.y - top);
  }
  drawLaunch(context, top);
  drawOutline(context, timeline.hovered, top, theme.text);
  drawOutline(context, timeline.selected, top, theme.accent);
  drawMarked(context);
  context.restore();
  drawGutter(context, top);
  drawStrip();
  byId('span').textContent = human(Math.round(timeline.to - timeline.from)) + ' shown';
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

function drawRow(context, row, y) {
  const { start, end } = run;
  const scale = scaleNow();
  const offset = timeline.gutter - timeline.from * scale;
  const height = row.height - 1;
  const labelled = height >= 13;
  context.font = row.part === 'api' ? SMALL_FONT : FONT;
  const low = row.part === 'projections';
  let item = firstIndex(row.first, row.last, (index) => end[index] > timeline.from);
  while (item < row.last && start[item] < timeline.to) {
    const x = start[item] * scale + offset;
    const width = end[item] * scale + offset - x;
    if (width >= 1.5) {
      drawBar(context, row, item, x, width, y, height, labelled, low);
      item++;
      continue;
    }
    const pixel = Math.floor(x);
    const until = timeline.from + (pixel + 1 - timeline.gutter) / scale;
    let next = firstIndex(item + 1, row.last, (index) => start[index] >= until);
    if (next > item + 1 && (end[next - 1] - start[next - 1]) * scale >= 1.5) next--; // it goes on beyond this pixel
    context.globalAlpha = search.active && !anyMatch(item, next) ? 0.2 : 1;
    context.fillStyle = row.part === 'api' ? theme.call : colorOf(item);
    context.fillRect(pixel, y, 1, height);
    context.globalAlpha = 1;
    item = next;
  }
}

function drawBar(context, row, item, x, width, y, height, labelled, low) {
  const left = Math.max(x, timeline.gutter - 2);
  const right = Math.min(x + width, timeline.width + 2);
  const matches = !search.active || isMatch(item);
  context.globalAlpha = matches ? 1 : 0.2;
  context.fillStyle = row.part === 'api' ? theme.call : colorOf(item);
  if (low) {
    // Projected: a line with feet, so that it is told from work.
    context.globalAlpha = matches ? 0.55 : 0.15;
    context.fillRect(left, y, right - left, height);
    context.globalAlpha = matches ? 1 : 0.2;
    context.fillRect(left, y + height - 2, right - left, 2);
  } else {
    context.fillRect(left, y, right - left, height);
  }
  if (right - left > 3) {
    context.fillStyle = theme.edge;
    context.fillRect(left, y, 1, height);
  }
  if (search.active && matches) {
    context.fillStyle = theme.found;
    context.fillRect(left, y + height - 3, right - left, 3);
  }
  if (!labelled) return;
  const inside = Math.max(left, timeline.gutter) + 4;
  const text = fitting(context, nameOf(item), right - inside - 3);
  if (text) {
    context.fillStyle = low ? theme.text : row.part === 'api' ? theme.text : textOn(item);
    context.fillText(text, inside, y + height / 2 + 0.5);
  }
  context.globalAlpha = 1;
}

/** Events: a small diamond each, one a pixel; worse ones last, so that they are seen. */
function drawMarks(context, row, y) {
  const middle = y + row.height / 2;
  let item = firstIndex(row.first, row.last, (index) => run.start[index] >= timeline.from);
  let drawn = -10;
  for (; item < row.last && run.start[item] <= timeline.to;) {
    const x = Math.round(xOf(run.start[item]));
    const next = firstIndex(item + 1, row.last, (index) => run.start[index] > timeAt(x + 1));
    if (x - drawn >= 1) {
      context.globalAlpha = search.active && !anyMatch(item, next) ? 0.2 : 1;
      context.fillStyle = theme.severities[row.level] || theme.quiet;
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
  if (item < 0) return;
  const row = rowOf(item);
  const left = Math.max(xOf(run.start[item]), timeline.gutter - 4);
  const right = Math.min(xOf(run.end[item]), timeline.width + 4);
  if (right < timeline.gutter || left > timeline.width) return;
  context.strokeStyle = color;
  context.lineWidth = 2;
  context.strokeRect(left - 1, row.y - top - 1, Math.max(right - left, 2) + 2, row.height + 1);
}

/** From where the selected operation was launched. */
function drawLaunch(context, top) {
  const item = timeline.selected;
  if (item < 0) return;
  const row = rowOf(item);
  const launch = launchOf(item, row);
  if (!launch || launch.at === null) return;
  const group = run.groups.find((group) => group.kind === 'thread' && group.thread === launch.thread);
  if (!group) return;
  const from = [xOf(launch.at), group.bottom - top - 4];
  const to = [xOf(run.start[item]), row.y - top];
  context.strokeStyle = theme.accent;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(...from);
  context.bezierCurveTo(from[0], (from[1] + to[1]) / 2, to[0], (from[1] + to[1]) / 2, ...to);
  context.stroke();
  context.fillStyle = theme.accent;
  context.beginPath();
  context.arc(...from, 3, 0, 7);
  context.fill();
}

function drawMarked(context) {
  if (!timeline.marked) return;
  const [from, to] = timeline.marked;
  const [left, right] = [xOf(Math.min(from, to)), xOf(Math.max(from, to))];
  context.globalAlpha = 0.2;
  context.fillStyle = theme.accent;
  context.fillRect(left, RULER, right - left, timeline.height);
  context.globalAlpha = 1;
  context.font = BOLD_FONT;
  context.fillStyle = theme.text;
  context.fillText(human(Math.round(Math.abs(to - from))), left + 4, RULER + 12);
}

/** Names of threads and streams, over what was drawn below them. */
function drawGutter(context, top) {
  const { gutter, height } = timeline;
  context.fillStyle = theme.panel;
  context.fillRect(0, 0, gutter, height);
  context.save();
  context.beginPath();
  context.rect(0, RULER, timeline.width, height - RULER);
  context.clip();
  for (const group of run.groups) {
    if (group.bottom < top + RULER || group.y > top + height) continue;
    context.fillStyle = theme.line;
    context.fillRect(0, group.y - top - 6, timeline.width, 1);
    for (const track of group.tracks) {
      if (track === group.tracks[0] || !PART_LABELS[track.part]) continue;
      context.font = SMALL_FONT;
      context.fillStyle = theme.quiet;
      const indented = 20;
      context.fillText(
        fitting(context, PART_LABELS[track.part], gutter - indented - 4),
        indented,
        track.y - top + track.rows[0].height / 2,
      );
    }
    context.font = BOLD_FONT;
    context.fillStyle = theme.text;
    const y = Math.max(group.y - top + 9, Math.min(RULER + 10, group.bottom - top - 9));
    context.fillText(fittingLabel(context, group.label, gutter - 14), 8, y);
  }
  context.restore();
  context.fillStyle = theme.line;
  context.fillRect(gutter - 1, 0, 1, height);
}
