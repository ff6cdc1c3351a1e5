// Latency over time as a heat map: what is brushed in it is compared with the rest of the calls of its name.

/** Pixels of a cell, and how many rows there are. */
const CELL = [6, 8];
const HEAT_ROWS = 14;
/** Calls of each of both that are looked into, names that can be chosen, and differences that are shown. */
const COMPARED = 300;
const MOST_CHOICES = 30;
const MOST_DIFFERENCES = 10;
/** Parts of calls that differ less between both say nothing. */
const LEAST_DIFFERENCE = 0.1;

const heat = { canvas: byId('heat'), items: [], brush: null, low: 0, step: 1, columns: 1, pressed: null };

/** The names of calls that no other contains, the most frequent first. */
function showHeat() {
  const byCount = [...Map.groupBy(calls.roots, nameOf)].filter(([name, items]) => items.length > 1 && name);
  byCount.sort(([, a], [, b]) => b.length - a.length);
  byId('latencies').hidden = byCount.length === 0;
  if (!byCount.length) return;
  byId('heat-of').replaceChildren(...byCount.slice(0, MOST_CHOICES).map(([name]) => element('option', '', name)));
  chooseHeat();
}

function chooseHeat() {
  const name = byId('heat-of').value;
  heat.items = calls.roots.filter((item) => nameOf(item) === name);
  heat.brush = null;
  byId('populations').replaceChildren();
  drawHeat();
}

/** The column and the row of a call: by its start, and by the logarithm of its length. */
function cellOf(item) {
  const column = Math.min(heat.columns - 1, Math.floor((run.start[item] / run.until) * heat.columns));
  const row = Math.floor((Math.log2(lengthOf(item) + 1) - heat.low) / heat.step);
  return [column, Math.min(HEAT_ROWS - 1, row)];
}

function drawHeat() {
  const { canvas, items } = heat;
  const width = Math.max(60, byId('latencies').clientWidth);
  const height = HEAT_ROWS * CELL[1] + 16;
  sizeCanvas(canvas, width, height);
  const lengths = lengthsOf(items).sort();
  heat.low = Math.log2(lengths[0] + 1);
  heat.step = Math.max((Math.log2(lengths.at(-1) + 1) - heat.low) / HEAT_ROWS, 1e-3);
  heat.columns = Math.floor((width - timeline.gutter) / CELL[0]);
  const counts = new Uint32Array(heat.columns * HEAT_ROWS);
  for (const [column, row] of Array.from(items, cellOf)) counts[row * heat.columns + column]++;
  const most = Math.log2(counts.reduce((a, b) => Math.max(a, b), 1) + 1);
  const context = canvas.getContext('2d');
  context.fillStyle = theme.panel;
  context.fillRect(0, 0, width, height);
  context.fillStyle = theme.accent;
  counts.forEach((count, index) => {
    if (!count) return;
    const [x, y] = [index % heat.columns, HEAT_ROWS - 1 - Math.floor(index / heat.columns)];
    context.globalAlpha = 0.25 + (0.75 * Math.log2(count + 1)) / most;
    context.fillRect(timeline.gutter + x * CELL[0], y * CELL[1], CELL[0] - 1, CELL[1] - 1);
  });
  context.globalAlpha = 1;
  context.fillStyle = theme.quiet;
  context.font = SMALL_FONT;
  context.textBaseline = 'middle';
  for (const row of [0, HEAT_ROWS / 2, HEAT_ROWS]) {
    const y = Math.min(Math.max((HEAT_ROWS - row) * CELL[1], 6), HEAT_ROWS * CELL[1] - 4);
    context.fillText(human(Math.round(2 ** (heat.low + row * heat.step) - 1)), 8, y);
  }
  context.fillText('0', timeline.gutter, height - 7);
  context.fillText(human(run.until), width - 60, height - 7);
  if (heat.brush) drawBrush(context);
}

function drawBrush(context) {
  const [left, right, low, high] = heat.brush;
  context.strokeStyle = theme.found;
  context.lineWidth = 2;
  const [x, y] = [timeline.gutter + left * CELL[0], (HEAT_ROWS - 1 - high) * CELL[1]];
  context.strokeRect(x - 1, y, (right - left + 1) * CELL[0], (high - low + 1) * CELL[1] - 1);
}

/** Brushes columns and rows, and compares what is in them. */
function brush(left, right, low, high, compares = true) {
  const within = (at, count) => Math.min(Math.max(at, 0), count - 1);
  const columns = [left, right].map((at) => within(at, heat.columns)).sort((a, b) => a - b);
  const rows = [low, high].map((at) => within(at, HEAT_ROWS)).sort((a, b) => a - b);
  heat.brush = [...columns, ...rows];
  drawHeat();
  if (compares) showPopulations();
}

/** What can be said of a call, to compare it: calls inside, its largest state, who held it up, fields, threads. */
function traitsOf(item) {
  const call = callOf(item);
  const states = statesOf(item);
  const largest = largestParts(item, 1)[0];
  const held = states.filter(({ state, by }) => by && STATES[state].look === 'held');
  return new Set([
    ...callsInside(call, MOST_SHOWN).map((one) => 'calls ' + nameOf(calls.item[one])),
    ...(largest ? ['mostly ' + largest.says] : []),
    ...held.map(({ by }) => 'held up by ' + by),
    ...(detailOf(item).fields ?? []).map(([name, value]) => 'with ' + name + '=' + value),
    ...[...pollsOf(call)].slice(0, MOST_SHOWN).map((poll) => 'on ' + run.groups[rowOf(poll).group].label),
  ]);
}

/** Some of these, from the first to the last. */
function sampled(items) {
  const step = Math.max(1, items.length / COMPARED);
  return Array.from({ length: Math.min(items.length, COMPARED) }, (_, index) => items[Math.floor(index * step)]);
}

function showPopulations() {
  const [left, right, low, high] = heat.brush;
  const isIn = ([column, row]) => left <= column && column <= right && low <= row && row <= high;
  const both = [[], []];
  for (const item of heat.items) both[isIn(cellOf(item)) ? 0 : 1].push(item);
  const counts = both.map((items) => {
    const counts = new Map();
    const some = sampled(items);
    for (const item of some) for (const trait of traitsOf(item)) counts.set(trait, (counts.get(trait) ?? 0) + 1);
    return { counts, of: some.length };
  });
  const share = ({ counts, of }, trait) => (counts.get(trait) ?? 0) / Math.max(of, 1);
  const traits = [...new Set(counts.flatMap(({ counts }) => [...counts.keys()]))]
    .map((trait) => ({ trait, shares: counts.map((one) => share(one, trait)) }))
    .filter(({ trait }) => !trait.startsWith('with ') || counts.some((one) => one.counts.get(trait) > 1))
    .filter(({ shares: [here, there] }) => Math.abs(here - there) >= LEAST_DIFFERENCE)
    .sort((a, b) => b.shares[0] - b.shares[1] - (a.shares[0] - a.shares[1]));
  const said = (one, trait) => percent(one.counts.get(trait) ?? 0, one.of) + ' of ' + integer(one.of);
  const rows = traits.slice(0, MOST_DIFFERENCES).map(({ trait }) => {
    const cells = counts.map((one) => element('td', 'figure', said(one, trait)));
    return element('tr', '', element('th', '', trait), ...cells);
  });
  const titles = ['What differs', 'In these', 'In the rest'];
  const head = titles.map((title, index) => element('th', index ? 'figure' : '', title));
  const [here, rest] = both.map(({ length }) => integer(length));
  const says = element('p', '', here + ' brushed, ' + rest + ' others' + (rows.length ? '' : ': nothing differs much'));
  const slowest = slowestOf(both[0], 1)[0];
  if (slowest !== undefined) says.append('. ', linkTo(slowest, 'The slowest of them: ' + human(lengthOf(slowest))));
  const table = element('table', '', element('thead', '', element('tr', '', ...head)), element('tbody', '', ...rows));
  byId('populations').replaceChildren(says, ...(rows.length ? [table] : []));
}

function cellAt({ offsetX, offsetY }) {
  return [Math.floor((offsetX - timeline.gutter) / CELL[0]), HEAT_ROWS - 1 - Math.floor(offsetY / CELL[1])];
}

heat.canvas.addEventListener('pointerdown', (event) => {
  heat.canvas.setPointerCapture(event.pointerId);
  heat.pressed = cellAt(event);
});
for (const kind of ['pointermove', 'pointerup'])
  heat.canvas.addEventListener(kind, (event) => {
    if (!heat.pressed) return;
    const [[column, row], [toColumn, toRow]] = [heat.pressed, cellAt(event)];
    if (kind === 'pointerup') heat.pressed = null;
    brush(column, toColumn, row, toRow, kind === 'pointerup');
  });
/** Arrows move what is brushed, with Shift its upper right corner; first it is the upper half of all of the run. */
heat.canvas.addEventListener('keydown', (event) => {
  const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] }[event.key];
  if (!by && event.key !== 'Enter') return;
  event.preventDefault();
  if (!heat.brush) return brush(0, heat.columns - 1, HEAT_ROWS / 2, HEAT_ROWS - 1);
  if (!by) return document.querySelector('#populations a')?.focus();
  const [left, right, low, high] = heat.brush;
  const [column, row] = by;
  if (event.shiftKey) brush(left, Math.max(left, right + column), low, Math.max(low, high + row));
  else brush(left + column, right + column, low + row, high + row);
});
byId('heat-of').addEventListener('change', chooseHeat);
