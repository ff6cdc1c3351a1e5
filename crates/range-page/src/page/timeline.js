// The timeline: which span of time is seen, what is selected, what is where.

const RULER = 24;
const SHORTEST_SPAN = 20;
/** As `max-height` of what is said of an item: it grows and shrinks with what the pointer is over. */
const HIGHEST_DETAILS = 190;

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
  /** When it was drawn last, in milliseconds since the page began. */
  drawn: 0,
  /** What Shift and dragging cover: from and to in ns, and heights. */
  marked: null,
};

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
  const [across, down] = [width, height].map((side) => Math.max(1, Math.round(side * ratio)));
  const isSame = canvas.width === across && canvas.height === down && canvas.style.width === width + 'px';
  if (isSame && canvas.style.height === height + 'px') return;
  [canvas.width, canvas.height] = [across, down];
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
  keepView();
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
  bringUp(item);
  redraw();
}

/** Brings the line of an item into sight. */
function bringUp(item) {
  const line = lineOf(item);
  const { scroller } = timeline;
  if (line && line.y < scroller.scrollTop + RULER) scroller.scrollTop = line.y - RULER - 8;
  if (line && line.y + line.height > scroller.scrollTop + timeline.height)
    scroller.scrollTop = line.y + line.height + 16 - timeline.height;
  if (line) bringAbove(line);
}

/** Scrolls the window as far as a line is hidden below what is said of it, or above. */
function bringAbove(line) {
  const top = timeline.canvas.getBoundingClientRect().top + line.y - timeline.scroller.scrollTop;
  const details = byId('details');
  const free = Math.min(details.getBoundingClientRect().top, innerHeight - (details.firstChild ? HIGHEST_DETAILS : 0));
  const below = top + line.height + 8 - free;
  const above = top - RULER - document.querySelector('.bar').getBoundingClientRect().bottom;
  if (below > 0) scrollBy(0, below);
  else if (above < 0) scrollBy(0, above);
}

/** Selects an item and what belongs to its call; -1 for nothing. */
function select(item) {
  timeline.selected = item;
  timeline.marked = null;
  if (!chain.following) chain.links = [];
  trace(item);
  const details = byId('details');
  if (item < 0) details.replaceChildren();
  else fillSelected(details, item);
  keepView();
  redraw();
}

/** The line at a height of the canvas, which is scrolled. */
function lineAt(y) {
  if (y < RULER) return null;
  const at = y + timeline.scroller.scrollTop;
  const { lines } = timeline;
  const index = firstIndex(
    0,
    lines.length,
    (index) => lines[index].y + lines[index].height + (lines[index].gap ?? 1) > at,
  );
  return lines[index] && lines[index].y <= at ? lines[index] : null;
}

/** The item at a point of the canvas: the longest within reach. -1 for none; and how many others are as near. */
function itemAt(x, y) {
  const line = lineAt(y);
  if (!line || x < timeline.gutter) return { item: -1, others: 0 };
  if (line.part === 'flight') return longestAt(line, timeAt(x));
  const reach = line.part === 'marks' ? 5 : 2;
  const [from, to] = [timeAt(x - reach), timeAt(x + reach)];
  const first = firstIndex(line.first, line.last, (index) => run.end[itemOn(line, index)] >= from);
  const after = firstIndex(first, line.last, (index) => run.start[itemOn(line, index)] > to);
  const at = timeAt(x);
  let best = -1;
  for (let index = first; index < Math.min(after, first + 5000); index++) {
    const item = itemOn(line, index);
    if (run.start[item] <= at && at < run.end[item] && lengthOf(item) * scaleNow() > 3) {
      best = item;
      break;
    }
    if (best < 0 || lengthOf(item) > lengthOf(best)) best = item;
  }
  const small = best >= 0 && lengthOf(best) * scaleNow() < 2;
  return { item: best, others: small ? after - first - 1 : 0 };
}

/** Of the calls that are under way at a time the longest, and how many others there are. */
function longestAt(line, at) {
  let [best, others] = [-1, -1];
  for (const ids of line.group.lanes) {
    const item = ids[firstIndex(0, ids.length, (index) => run.end[ids[index]] > at)];
    if (item === undefined || run.start[item] > at) continue;
    others++;
    if (best < 0 || lengthOf(item) > lengthOf(best)) best = item;
  }
  return { item: best, others: Math.max(others, 0) };
}

/** Of the items of a line, the first that ends after a time, if it starts before another. */
function firstOn(line, from, to) {
  const index = firstIndex(line.first, line.last, (index) => run.end[itemOn(line, index)] > from);
  return index < line.last && run.start[itemOn(line, index)] <= to ? itemOn(line, index) : -1;
}

/** From one item to another: along the line, to what is around it, to what is inside. */
function neighbour(item, direction) {
  const line = lineOf(item);
  const call = callOf(item);
  if (rowOf(item).part === 'calls' && direction === 'around') return calls.item[callsAround(call).pop()] ?? item;
  if (rowOf(item).part === 'calls' && direction === 'inside') return calls.item[callsInside(call, 1)[0]] ?? item;
  if (!line) return item;
  if (direction === 'before' || direction === 'after') {
    const index = (line.ids ? line.ids.indexOf(item) : item) + (direction === 'before' ? -1 : 1);
    return index >= line.first && index < line.last ? itemOn(line, index) : item;
  }
  const step = direction === 'around' ? -1 : 1;
  for (let index = timeline.lines.indexOf(line) + step; timeline.lines[index]; index += step) {
    const found = firstOn(timeline.lines[index], run.start[item], Math.max(run.end[item], run.start[item] + 1));
    if (found >= 0) return found;
  }
  return item;
}
