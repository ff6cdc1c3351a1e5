// The timeline: which rows are where, which span of time is seen, what is selected.

const RULER = 24;
const GAP = 9;
const HEIGHTS = { marks: 14, ranges: 19, lifetimes: 17, calls: 17, api: 15, projections: 17, operations: 19 };
const SHORTEST_SPAN = 20;

const timeline = {
  scroller: byId('scroller'),
  canvas: byId('lanes'),
  from: 0,
  to: run.until,
  width: 100,
  height: 100,
  gutter: 160,
  selected: -1,
  hovered: -1,
  /** The span that is being marked with Shift, in ns. */
  marked: null,
};

/** Rows from top to bottom; with the first of each track the words that stand beside it. */
function layOutRows() {
  let y = RULER + 4;
  let group = -1;
  for (const row of run.rows) {
    const first = row.group !== group;
    if (first && group >= 0) y += GAP;
    group = row.group;
    if (first) run.groups[group].y = y;
    row.y = y;
    row.height = HEIGHTS[row.part];
    y += row.height + 1;
    run.groups[group].bottom = y;
  }
  timeline.contentHeight = y + 6;
  for (const group of run.groups) {
    for (const track of group.tracks) track.y = track.rows[0].y;
  }
}

function resizeTimeline() {
  const { scroller, canvas } = timeline;
  const room = Math.min(timeline.contentHeight, Math.max(160, Math.round(innerHeight * 0.62)));
  scroller.style.height = room + 2 + 'px'; // and its borders
  byId('spacer').style.height = Math.max(0, timeline.contentHeight - room) + 'px';
  canvas.style.height = room + 'px';
  timeline.width = scroller.clientWidth;
  timeline.height = room;
  timeline.gutter = timeline.width < 700 ? 108 : 168;
  sizeCanvas(canvas, timeline.width, room);
  redraw();
}

function sizeCanvas(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = width + 'px';
  canvas.style.height = height + 'px';
  canvas.getContext('2d').setTransform(ratio, 0, 0, ratio, 0, 0);
}

/** Pixels a nanosecond. */
function scaleNow() {
  return (timeline.width - timeline.gutter) / (timeline.to - timeline.from);
}

function timeAt(x) {
  return timeline.from + (x - timeline.gutter) / scaleNow();
}

function xOf(time) {
  return timeline.gutter + (time - timeline.from) * scaleNow();
}

/** Shows a span of time: not less than can be told apart, not beyond the run. */
function show(from, to) {
  const span = Math.min(Math.max(to - from, SHORTEST_SPAN), run.until * 1.02);
  const middle = (from + to) / 2;
  const margin = run.until * 0.01;
  const start = Math.min(Math.max(middle - span / 2, -margin), run.until + margin - span);
  timeline.from = start;
  timeline.to = start + span;
  redraw();
}

function showAll() {
  show(-run.until * 0.01, run.until * 1.01);
}

/** `factor` below 1 zooms in; what is at `x` stays there. */
function zoom(factor, x = timeline.gutter + (timeline.width - timeline.gutter) / 2) {
  const time = timeAt(x);
  const span = Math.max((timeline.to - timeline.from) * factor, SHORTEST_SPAN);
  const part = (time - timeline.from) / (timeline.to - timeline.from);
  show(time - span * part, time + span * (1 - part));
}

/** By a part of what is seen. */
function pan(part) {
  const by = (timeline.to - timeline.from) * part;
  show(timeline.from + by, timeline.to + by);
}

function zoomTo(item) {
  const length = Math.max(run.end[item] - run.start[item], 1);
  show(run.start[item] - length * 0.1, run.end[item] + length * 0.1);
}

/** Brings an item into sight: wide enough to see, not wider than the window. */
function reveal(item) {
  const [start, end] = [run.start[item], run.end[item]];
  const span = timeline.to - timeline.from;
  const seen = timeline.width - timeline.gutter;
  const pixels = ((end - start) / span) * seen;
  const middle = (start + end) / 2;
  if (pixels > seen) zoomTo(item);
  else if (pixels < 6 && end > start) show(middle - (end - start) * 6, middle + (end - start) * 6);
  else if (start < timeline.from || end > timeline.to) show(middle - span / 2, middle + span / 2);
  const row = rowOf(item);
  const { scroller } = timeline;
  if (row.y < scroller.scrollTop + RULER) scroller.scrollTop = row.y - RULER - 8;
  if (row.y + row.height > scroller.scrollTop + timeline.height)
    scroller.scrollTop = row.y + row.height + 16 - timeline.height;
  redraw();
}

function select(item) {
  timeline.selected = item;
  const details = byId('details');
  if (item < 0) details.replaceChildren();
  else fill(details, factsOf(item));
  redraw();
}

/** The row at a height of the canvas, which is scrolled. */
function rowAt(y) {
  if (y < RULER) return null;
  const at = y + timeline.scroller.scrollTop;
  const index = firstIndex(0, run.rows.length, (index) => run.rows[index].y + run.rows[index].height + 1 > at);
  const row = run.rows[index];
  return row && row.y <= at ? row : null;
}

/** The item at a point of the canvas: the longest within reach. -1 for none; and how many others are as near. */
function itemAt(x, y) {
  const row = rowAt(y);
  if (!row || x < timeline.gutter) return { item: -1, others: 0 };
  const reach = row.part === 'marks' ? 5 : 2;
  const [from, to] = [timeAt(x - reach), timeAt(x + reach)];
  const first = firstIndex(row.first, row.last, (item) => run.end[item] >= from);
  const after = firstIndex(first, row.last, (item) => run.start[item] > to);
  const at = timeAt(x);
  let best = -1;
  for (let item = first; item < Math.min(after, first + 5000); item++) {
    if (run.start[item] <= at && at < run.end[item] && (run.end[item] - run.start[item]) * scaleNow() > 3) {
      best = item;
      break;
    }
    if (best < 0 || run.end[item] - run.start[item] > run.end[best] - run.start[best]) best = item;
  }
  const small = best >= 0 && (run.end[best] - run.start[best]) * scaleNow() < 2;
  return { item: best, others: small ? after - first - 1 : 0 };
}

/** From one item to another: along the row, to what is around it, to what is inside. */
function neighbour(item, direction) {
  const row = rowOf(item);
  if (direction === 'before') return item > row.first ? item - 1 : item;
  if (direction === 'after') return item + 1 < row.last ? item + 1 : item;
  const step = direction === 'around' ? -1 : 1;
  for (let index = row.index + step; run.rows[index]; index += step) {
    const next = run.rows[index];
    const at = firstIndex(next.first, next.last, (other) => run.end[other] > run.start[item]);
    const touches = at < next.last && run.start[at] <= Math.max(run.end[item], run.start[item] + 1);
    if (touches) return at;
  }
  return item;
}
