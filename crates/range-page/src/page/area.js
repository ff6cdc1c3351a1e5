// What Shift and dragging cover: how much of what, by name.

const AREA_ROWS = 12;

/** From when to when, and from which height to which: whole groups. */
function markedArea() {
  const { from, to, y, toY } = timeline.marked;
  const [upper, lower] = [Math.min(y, toY), Math.max(y, toY)];
  const touched = timeline.groups.filter((group) => group.bottom > upper && group.y < lower);
  return {
    from: Math.max(0, Math.min(from, to)),
    to: Math.min(run.until, Math.max(from, to)),
    groups: touched,
    upper: touched.length ? touched[0].y - 4 : upper,
    lower: touched.length ? touched.at(-1).bottom : lower,
  };
}

/** The rows of items of a group: of calls, those that no other contains, and then those inside them. */
function rowsIn(group) {
  if (group.kind === 'calls')
    return group.lanes.flatMap((ids) => {
      const nested = [...ids].flatMap((item) => callsInside(callOf(item)).filter((call) => calls.long[call]));
      const inner = Uint32Array.from(nested, (call) => calls.item[call]).sort();
      const row = (ids, isNested) => ({ ids, isNested, first: 0, last: ids.length, part: 'calls' });
      return [row(ids, false), row(inner, true)];
    });
  if (group.kind === 'process' && !isFolded(group)) return []; // they are in the groups below it
  return group.parts.flatMap((part) => part.tracks.flatMap((track) => (track.part === 'marks' ? [] : track.rows)));
}

/** Whether a call is inside one of its own name. */
function isInItsName(item) {
  return callsAround(callOf(item)).some((above) => run.name[calls.item[above]] === run.name[item]);
}

/** Adds up by part and name: how many items reach into the area, their time in it, and how long each took in all. */
function sumUp() {
  const { from, to, groups } = markedArea();
  const sums = new Map();
  const parts = Object.keys(KINDS);
  for (const row of groups.flatMap(rowsIn)) {
    const at = row.ids ? (index) => row.ids[index] : (index) => index;
    const first = row.isNested ? 0 : firstIndex(row.first, row.last, (index) => run.end[at(index)] > from);
    for (let index = first; index < row.last && (row.isNested || run.start[at(index)] < to); index++) {
      const item = at(index);
      if (run.start[item] >= to || run.end[item] <= from) continue;
      const key = parts.indexOf(row.part) * run.texts.length + run.name[item];
      let sum = sums.get(key);
      if (!sum) sums.set(key, (sum = { part: row.part, name: run.name[item], count: 0, inside: 0, lengths: [] }));
      sum.count++;
      sum.lengths.push(run.end[item] - run.start[item]);
      if (row.isNested && isInItsName(item)) continue; // its time is in that of the outer one
      sum.inside += Math.min(run.end[item], to) - Math.max(run.start[item], from);
    }
  }
  return [...sums.values()].sort((a, b) => b.inside - a.inside);
}

function showArea() {
  const { from, to, groups } = markedArea();
  const sums = sumUp();
  const count = sums.reduce((all, { count }) => all + count, 0);
  const zoomIn = buttonFor(zoomToMarked, '', 'Zoom in');
  zoomIn.id = 'zoom-marked';
  zoomIn.title = 'Shows what is marked (Enter)';
  const said =
    counted(count, 'item', 'items') +
    ' in ' +
    human(Math.round(to - from)) +
    ' of ' +
    listed(groups.map((group) => group.label));
  const rows = sums
    .slice(0, AREA_ROWS)
    .map(({ part, name, count, inside, lengths }) =>
      element(
        'tr',
        '',
        element('th', '', run.texts[name]),
        element('td', 'quiet', KINDS[part]),
        ...[
          integer(count),
          human(Math.round(inside)),
          human(quantileOf(lengths, 0.5)),
          human(quantileOf(lengths, 0.99)),
        ].map((cell) => element('td', 'figure', cell)),
      ),
    );
  for (const row of rows) row.firstChild.style.setProperty('--color', colorOfName(row.firstChild.textContent));
  const titles = ['Name', 'Kind', 'Count', 'Sum inside', 'p50', 'p99'];
  const head = titles.map((title, index) => element('th', index > 1 ? 'figure' : '', title));
  const table = element('table', '', element('thead', '', element('tr', '', ...head)), element('tbody', '', ...rows));
  const rest = sums.length - rows.length;
  const more = rest > 0 ? [element('p', 'quiet', 'and ' + counted(rest, 'more name', 'more names'))] : [];
  byId('details').replaceChildren(element('div', 'heading', element('strong', '', said), zoomIn), table, ...more);
}

function listed(labels) {
  return labels.length > 3
    ? labels.slice(0, 2).join(', ') + ' and ' + (labels.length - 2) + ' more'
    : labels.join(', ');
}

function zoomToMarked() {
  if (!timeline.marked) return;
  const { from, to } = markedArea();
  timeline.marked = null;
  byId('details').replaceChildren();
  show(from, to);
}

/** Marks what is seen, as dragging over all of it does. */
function markSeen() {
  select(-1);
  const top = timeline.scroller.scrollTop;
  timeline.marked = { from: timeline.from, to: timeline.to, y: top + RULER, toY: top + timeline.height };
  showArea();
  redraw();
}
