// The first screen: what was measured, and where the time went.

/** Names of calls that are shown, the slowest of each that are looked at, and what of them is shown. */
const SLOW_NAMES = 4;
const SLOW_LOOKED_AT = 100;
const SLOW_REASONS = 2;
const SLOW_PARTS = 3;
/** Calls that never wait are slow where they take so many times the median of their name. */
const PLAIN_SLOW = 1.3;
/** What the first list is by, and what it is by at first. */
const overview = { list: ['self', 'latency'], atFirst: run.hot.waits ? 'latency' : 'self' };
overview.by = overview.atFirst;

function startOf({ started_ms }) {
  return 'started ' + new Date(started_ms).toISOString().slice(0, 19).replace('T', ' ') + ' UTC';
}

function showIdentity() {
  const said = run.command ? [run.command] : [];
  if (run.started_ms) said.push(startOf(run));
  if (run.run_id) said.push('run ' + run.run_id);
  if (run.nobody) said.push(run.nobody);
  byId('command').textContent = said.join(' \u00b7 ');
  for (const [label, value] of run.identity) {
    const chip = element('li', '', element('span', 'quiet', label + ' '), value);
    chip.title = label + ': ' + value;
    byId('identity').append(chip);
  }
}

function showFigures() {
  const figures = [['Wall time', human(run.elapsed_ns), '']];
  const own = run.tree.reduce((sum, node) => sum + node.own, 0);
  if (own) figures.push(['In spans', human(own), 'on all threads: the 100 % of shares']);
  const spans = run.tree.reduce((sum, node) => sum + node.instances, 0);
  const threads = run.groups.filter((group) => group.kind === 'thread').length;
  const phases = run.tree.filter((node) => !node.captured).length;
  if (phases) figures.push(['Ranges', integer(spans), 'in ' + counted(phases, 'phase', 'phases')]);
  if (run.processes.length) figures.push(['Processes', integer(run.processes.length), '']);
  if (threads) figures.push(['Threads', integer(threads), '']);
  if (run.gpu && run.gpu.operations) {
    const devices = Math.max(1, run.devices.length);
    const share = percent(run.gpu.busy_ns, run.elapsed_ns * devices) + ' of the wall time';
    // Several processes may share a GPU, or have one each by the same number.
    figures.push(['GPU busy', human(run.gpu.busy_ns), run.processes.length ? 'in all processes' : share]);
    figures.push(['GPU operations', integer(run.gpu.operations), '']);
  }
  for (const device of run.devices) {
    const [label, ...name] = device.split(': ');
    figures.push([label, name.join(': '), '']);
  }
  byId('figures').replaceChildren(
    ...figures.map(([label, value, more]) =>
      element(
        'div',
        '',
        element('dt', '', label),
        element('dd', '', value, element('span', 'quiet', more ? ' ' + more : '')),
      ),
    ),
  );
}

/**
 * An entry of a list of bars: a button that goes to the longest of its name. `part` of 1 is the whole bar; two figures
 * stand beside it.
 */
function barEntry(name, part, figures, says, paint, label = name) {
  const bar = element('span', 'bar-fill');
  bar.style.width = 100 * part + '%';
  paint(bar, name);
  const [time, share] = figures;
  const button = buttonFor(
    () => goToName(name),
    '',
    element('span', 'bar-name', label),
    element('span', 'bar-track', bar),
    element('span', 'bar-time', time),
    element('span', 'bar-share', share),
  );
  button.title = label.slice(0, 500) + ': ' + time + ', ' + share + says + '. Click for the longest.';
  return element('li', '', button);
}

/** Names with the most of something, as they were found: each ran for some time, and waited for some. */
function showHot(section, { names, whole_ns, others, others_ns }, says) {
  section.hidden = names.length === 0;
  const entries = names.map(([name, [ran, waited]]) => {
    const ns = ran + waited;
    const figures = [human(ns), percent(ns, whole_ns)];
    const most = names[0][1][0] + names[0][1][1];
    return barEntry(name, ns / most, figures, ' of ' + says, (bar) => paintTime(bar, name, ran, waited));
  });
  if (others > 0)
    entries.push(element('li', 'quiet', 'and ' + integer(others) + ' more: ' + percent(others_ns, whole_ns)));
  section.querySelector('ol').replaceChildren(...entries);
}

/** Solid as far as a name was on threads, and pale as far as it waited. */
function paintTime(bar, name, ran, waited) {
  const color = colorOfName(name);
  const part = (100 * ran) / (ran + waited) + '%';
  const pale = `color-mix(in srgb, ${color} 40%, transparent)`;
  bar.style.background = `linear-gradient(to right, ${color} ${part}, ${pale} ${part})`;
  if (waited > 0) bar.title = human(ran) + ' on a thread, ' + human(waited) + ' waiting';
}

function showHotLists() {
  const { own, latency, gpu, api } = run.hot;
  byId('hot-by').hidden = !latency;
  const byLatency = latency && overview.by === 'latency';
  if (byLatency) showHot(byId('hot-cpu'), latency, 'all latency');
  else showHot(byId('hot-cpu'), own, 'all time that is ranked');
  byId('hot-cpu-title').textContent = byLatency ? 'Most latency of their own' : 'Most time of their own (in spans)';
  for (const by of overview.list) byId('by-' + by).setAttribute('aria-pressed', String(by === overview.by));
  showBlamed();
  if (calls.roots.length) byId('hot-calls').hidden = false;
  showHot(byId('hot-gpu'), gpu, 'all time of kernels, copies and graphs');
  showHot(byId('hot-api'), api, 'all time in calls of CUDA');
}

/** Who made others wait, and how that is known. */
function showBlamed() {
  byId('hot-blamed').hidden = run.blamed.length === 0;
  const entries = run.blamed.map((row) => {
    const { by, value, waiter, waits, ns, of } = row;
    const how = of === null ? ' waited for it, as recorded' : ' ' + surely(row) + ' waited for it: ' + evidenceOf(row);
    const made = buttonFor(
      () => goToName(by, culpritOf(row)),
      'entry',
      element('span', 'bar-name', by, element('span', 'quiet', value ? ' with ' + value : '')),
      element('span', 'bar-time', human(ns)),
      element('span', 'bar-why', waiter + how),
      element('span', 'bar-share quiet', counted(waits, 'wait', 'waits')),
    );
    made.style.setProperty('--color', colorOfName(by));
    made.title = (by + ': ' + waiter + how).slice(0, 700) + '. Click to see one.';
    return element('li', '', made);
  });
  byId('hot-blamed')
    .querySelector('ol')
    .replaceChildren(...entries);
}

/** Who ended the longest wait that is told of a name; else the longest of the name, with the value if there is one. */
function culpritOf({ by, value, of }) {
  const { start, end, by: names } = run.waits;
  let longest = -1;
  for (let part = 0; part < run.waited && of === null; part++) {
    if (run.texts[names[part]] !== by) continue;
    if (longest < 0 || end[part] - start[part] > end[longest] - start[longest]) longest = part;
  }
  if (longest >= 0) return openAt(by, end[longest], processOfItem(calls.item[run.waits.call[longest] - 1])).target;
  const pair = value && JSON.stringify([value.slice(0, value.indexOf('=')), value.slice(value.indexOf('=') + 1)]);
  const named = callsNamed(by);
  return slowestOf(pair ? named.filter((item) => run.texts[run.detail[item]].includes(pair)) : named, 1)[0] ?? -1;
}

function showHotBy(by) {
  overview.by = by;
  showHotLists();
  keepView();
}

/**
 * Of each name of calls that no other contains the slowest, by how much it exceeds the median of its name: each with
 * its largest parts. Of calls whose largest part is the same, the first. Loops that wait for work are apart. Calls on
 * plain threads are among them where they are slow.
 */
function showSlowCalls() {
  const byName = Map.groupBy(calls.roots, nameOf);
  for (const [name, items] of Map.groupBy(plainCalls(), nameOf)) {
    const slow = items.filter((item) => lengthOf(item) > PLAIN_SLOW * typicalOf(name));
    if (!byName.has(name) && slow.length) byName.set(name, slow);
  }
  const loops = run.hot.loops.filter((name) => byName.delete(name));
  for (const [name, items] of byName) if (items.every((item) => calls.whole[callOf(item)])) byName.delete(name);
  const excess = (item) => lengthOf(item) - typicalOf(nameOf(item));
  const names = [...byName].map(([name, items]) => ({ name, slowest: slowestOf(items, SLOW_LOOKED_AT) }));
  names.sort(({ slowest: [a] }, { slowest: [b] }) => excess(b) - excess(a) || lengthOf(b) - lengthOf(a));
  const shown = names.slice(0, SLOW_NAMES).flatMap(({ name, slowest }) => {
    const kinds = Map.groupBy(slowest, (item) => largestParts(item, 1)[0]?.says);
    const most = run.slowest.find(([other]) => other === name)?.[1];
    const worst = [...kinds.values()].slice(0, SLOW_REASONS);
    const share = (count) => integer(count) + ' of the ' + integer(slowest.length) + ' slowest';
    const alike = (count) => (count > 1 ? '; mostly so: ' + share(count) : '');
    return worst.map((items, index) => ({ item: items[0], alike: alike(items.length), most: index ? '' : most }));
  });
  const tells = tellingField(shown.map(({ item }) => item));
  const entries = shown.map(({ item, alike, most }) => {
    const parts = largestParts(item, SLOW_PARTS).filter(({ time }) => time * 200 >= lengthOf(item));
    const madeOf = parts.map((part) => percent(part.time, lengthOf(item)) + ' ' + part.says).join(', ');
    const says = madeOf + alike;
    const over = excess(item) > 0 ? '+' + human(excess(item)) : '';
    const made = linkTo(
      item,
      element('span', 'bar-name', nameOf(item), element('span', 'quiet', ' ' + tells(item))),
      element('span', 'bar-time', human(lengthOf(item))),
      element('span', 'bar-why', says),
      element('span', 'bar-share quiet', over),
      most ? element('span', 'bar-why', 'most of p99: ' + most) : '',
    );
    made.className = 'entry';
    made.style.setProperty('--color', colorOfName(nameOf(item)));
    const median = over && ', ' + over + ' over its median';
    made.title =
      nameOf(item).slice(0, 500) + ': ' + human(lengthOf(item)) + median + ', ' + says + '. Click to follow it.';
    return element('li', '', made);
  });
  byId('hot-calls').hidden = entries.length + loops.length === 0;
  if (loops.length) entries.push(element('li', 'quiet', 'apart, as loops that wait for work: ' + listed(loops)));
  byId('hot-calls')
    .querySelector('ol')
    .replaceChildren(...entries);
}

/** What tells calls apart: of the fields of each that with the most values among them all, and its value. */
function tellingField(items) {
  const values = new Map();
  const fieldsOf = (item) => detailOf(item).fields ?? [];
  for (const [name, value] of items.flatMap(fieldsOf)) values.set(name, (values.get(name) ?? new Set()).add(value));
  const most = (best, field) => (values.get(field[0]).size > values.get(best[0]).size ? field : best);
  return (item) => fieldsOf(item).reduce(most, fieldsOf(item)[0])?.join(' ') ?? '';
}

/** What this page does not have; a sentence each. */
function showLeftOut() {
  const { lost, came, short, shortest_ns, marks, links, waits, deep, texts } = run.left_out;
  const lines = [];
  if (lost)
    lines.push(
      counted(lost, 'item was', 'items were') + ' lost on the way to this page, because the buffers were full.',
    );
  if (short)
    lines.push(
      integer(short) +
        ' of ' +
        counted(came, 'item', 'items') +
        ' are not drawn, to keep this page small: all ' +
        (shortest_ns > 0 ? 'no longer than ' + human(shortest_ns) : 'are too many') +
        '.',
    );
  if (marks) lines.push(counted(marks, 'event', 'events') + ' came beyond the bound and are not drawn.');
  if (links) lines.push(counted(links, 'link of a batch', 'links of batches') + ' came beyond the bound.');
  if (waits) lines.push(counted(waits, 'part of a wait', 'parts of waits') + ' came beyond the bound: the shortest.');
  if (deep) lines.push(counted(deep, 'item', 'items') + ' would need more rows than there are, and are not drawn.');
  if (texts)
    lines.push(counted(texts, 'name or field', 'names or fields') + ' came when the memory for texts was spent.');
  const box = byId('left-out');
  box.hidden = lines.length === 0;
  if (lines.length)
    box.replaceChildren(
      ...lines.map((line) => element('p', '', line)),
      element('p', 'quiet', 'The tables count everything.'),
    );
}

function showNotes() {
  byId('notes').hidden = run.notes.length === 0;
  byId('notes')
    .querySelector('ul')
    .replaceChildren(...run.notes.map((note) => element('li', '', plain(note))));
}

for (const by of overview.list) byId('by-' + by).addEventListener('click', () => showHotBy(by));
