// The tables: sorted by a click on a header. One at a time behind the tabs, and that of the comparison.

const ROWS_AT_ONCE = 200;
const tables = { list: [], open: 0, exact: false, only: false };

/** Places where a table is shown. */
const sheets = {
  tabs: { panel: byId('panel'), table: null, shown: ROWS_AT_ONCE },
  comparison: { panel: byId('compared'), table: null, shown: ROWS_AT_ONCE },
};

/** Text columns sort from A, figures from the largest. */
const WRITTEN = {
  difference: (value) => (value > 0 ? '+' : value < 0 ? '-' : '') + WRITTEN.ns(Math.abs(value)),
  text: (value) => String(value),
  count: (value) => integer(value),
  ns: (value) => (tables.exact ? (Number.isInteger(value) ? integer(value) : oneDecimal(value)) : human(value)),
  percent: (value) => value.toFixed(1) + ' %',
  bytes: (value) => (tables.exact ? integer(Math.round(value)) : humanBytes(value)),
  number: (value) => (value >= 1000 ? oneDecimal(value) : value.toFixed(2)),
};

/**
 * A value that came from a histogram stands in a list of its own; one that is said in words, or has a mark, stands
 * beside them.
 */
function bare(cell) {
  return Array.isArray(cell) ? cell[0] : (cell?.by ?? cell);
}

function written(cell, kind) {
  if (cell === null || cell === undefined) return '-';
  if (cell.says !== undefined) return plain(cell.says);
  return (Array.isArray(cell) ? '~' : '') + WRITTEN[kind](bare(cell));
}

/** The phase tree as a table whose rows have a depth. */
function treeTable() {
  const { tree } = run;
  const any = (has) => tree.some(has);
  const own = flame.graphs.cpu.total;
  const whole = own || tree.reduce((sum, node) => sum + (node.depth === 0 ? node.total : 0), 0);
  const all = [
    ['Phase', 'text', (node) => node.name],
    ['Self, of all', 'percent', (node) => (own ? (100 * node.own) / own : null)],
    ['Self', 'ns', (node) => marked(node.own, node.blocked && '^')],
    ['Total', 'ns', (node) => node.total],
    [
      'Of parent',
      'percent',
      (node, parent) => {
        const base = parent ? parent.total : whole;
        if (node.elsewhere) return { by: 0, says: '-', mark: '*' };
        return marked(base ? (100 * node.total) / base : null, node.beside && '*');
      },
    ],
    [
      'Calls',
      'count',
      (node) => {
        const again = node.awaited === undefined ? '&' : '+';
        return marked(node.calls, (node.polled && again) || (node.others_mean !== undefined && '!'));
      },
    ],
    ['Avg/Call', 'ns', meanOf],
    ['Instances', 'count', (node) => node.instances],
  ];
  if (any((node) => node.awaited !== undefined))
    all.push(['Awaited', 'ns', (node) => node.awaited], ['Awaited self', 'ns', (node) => node.awaited_own]);
  for (const title of new Set(tree.flatMap((node) => (node.quantiles ?? []).map(([title]) => title))))
    all.push([title, 'ns', (node) => node.quantiles?.find(([other]) => other === title)?.[1] ?? null]);
  const onGpu = [
    ['GPU busy', 'ns', (node) => node.gpu?.busy],
    ['Busy self', 'ns', (node) => node.gpu?.busy_own],
    ['GPU ops', 'count', (node) => node.gpu?.operations],
  ];
  if (any((node) => node.gpu)) all.push(...onGpu);
  if (any((node) => node.stream_total !== undefined))
    all.push(['Stream total', 'ns', (node) => node.stream_total], ['Stream self', 'ns', (node) => node.stream_own]);
  run.tree_appended.forEach((column, place) => all.push([...column, (node) => node.appended?.[place]]));
  const columns = all.map(([title, kind]) => [title, kind]);
  // What a replay consists of has no time in spans.
  const has = (node, column) => !node.captured || column === all[0] || onGpu.includes(column);
  const rows = tree.map((node, index) =>
    all.map((column) => (has(node, column) ? column[2](node, tree[flame.parents[index]]) : null)),
  );
  const about = 'Phases under the phases they were started in. Sorting keeps what belongs together.';
  return {
    title: 'Phase tree',
    about,
    said: run.tree_said,
    columns,
    rows,
    depths: tree.map((node) => node.depth),
    rows_left_out: run.left_out.nodes,
  };
}

/** Time a call, without one that took most of all; null where there is none. */
function meanOf(node) {
  return node.others_mean ?? (node.calls ? node.total / node.calls : null);
}

/** A figure with a mark behind it, as the printed tree has. */
function marked(value, mark) {
  return mark && value !== null ? { by: value, mark } : value;
}

function compare(column, down) {
  return (a, b) => {
    const [x, y] = [bare(a[column]) ?? null, bare(b[column]) ?? null];
    if (x === null || y === null) return (x === null) - (y === null); // nothing is last either way
    const order = typeof x === 'string' && typeof y === 'string' ? x.localeCompare(y, 'en', { numeric: true }) : x - y;
    return down ? -order : order;
  };
}

/** Rows by a column; those of a tree among their siblings. */
function sortTable(table, column, down) {
  table.sort = { column, down };
  const order = compare(column, down);
  if (!table.depths) {
    table.rows.sort(order);
    return;
  }
  const roots = [];
  const path = [];
  table.rows.forEach((row, index) => {
    const depth = table.depths[index];
    const entry = { row, depth, inside: [] };
    (depth === 0 ? roots : path[depth - 1].inside).push(entry);
    path[depth] = entry;
    path.length = depth + 1;
  });
  const waiting = roots.sort((a, b) => order(a.row, b.row)).reverse();
  table.rows = [];
  table.depths = [];
  while (waiting.length) {
    const { row, depth, inside } = waiting.pop();
    table.rows.push(row);
    table.depths.push(depth);
    waiting.push(...inside.sort((a, b) => order(a.row, b.row)).reverse());
  }
}

function rowMatches(table, row) {
  return table.columns.some(([, kind], index) => kind === 'text' && search.matches(String(row[index])));
}

function headerOf(sheet, index) {
  const { table } = sheet;
  const [title, kind] = table.columns[index];
  const header = element('th', kind === 'text' ? '' : 'figure');
  header.scope = 'col';
  const sorted = table.sort && table.sort.column === index;
  header.setAttribute('aria-sort', sorted ? (table.sort.down ? 'descending' : 'ascending') : 'none');
  const sortByIt = () => {
    sortTable(table, index, sorted ? !table.sort.down : kind !== 'text');
    showTable(sheet);
    sheet.panel.querySelectorAll('th button')[index].focus();
  };
  const unit = tables.exact && (kind === 'ns' || kind === 'difference') ? ' (ns)' : '';
  const arrow = sorted ? (table.sort.down ? '\u25bc' : '\u25b2') : '';
  header.append(buttonFor(sortByIt, '', title + unit, element('span', 'arrow', arrow)));
  return header;
}

function rowElement(table, row, depth) {
  const line = element('tr', '');
  row.forEach((cell, index) => {
    const kind = table.columns[index][1];
    if (index > 0) {
      const made = element('td', kind === 'text' ? 'word' : 'figure', written(cell, kind));
      if (cell && cell.mark) made.append(element('span', 'mark', cell.mark));
      if (kind === 'percent' && cell !== null) made.style.setProperty('--share', Math.min(100, bare(cell)) + '%');
      if (kind === 'percent') made.classList.add('share');
      if ((kind === 'ns' || kind === 'difference') && cell !== null && cell !== undefined)
        made.title = oneDecimal(bare(cell)) + ' ns';
      if (kind === 'difference' && cell) {
        made.style.setProperty('--share', (100 * Math.abs(cell)) / table.most + '%');
        made.classList.add('share', cell > 0 ? 'slower' : 'faster');
      }
      if (table.groups && table.groups.has(index)) made.classList.add('edge');
      if (kind === 'text') made.title = String(cell);
      line.append(made);
      return;
    }
    const name = buttonFor(() => searchForName(String(cell)), 'name', String(cell));
    name.tabIndex = -1;
    name.title = 'Search for ' + String(cell).slice(0, 500);
    const header = element('th', '', name);
    header.scope = 'row';
    if (depth) header.style.paddingInlineStart = 10 + Math.min(depth, 30) * 14 + 'px';
    header.style.setProperty('--color', colorOfName(String(cell)));
    line.append(header);
  });
  return line;
}

/** Columns that belong together, below the name of what they are of. */
function groupHeader(table) {
  const starts = [...table.groups.keys()];
  const cells = starts.map((start, index) => {
    const header = element('th', 'edge', element('span', 'group', table.groups.get(start)));
    header.scope = 'colgroup';
    header.colSpan = (starts[index + 1] ?? table.columns.length) - start;
    header.title = table.groups.get(start);
    return header;
  });
  const before = element('td', '');
  before.colSpan = starts[0];
  return element('tr', '', before, ...cells);
}

function showTable(sheet) {
  const { table, panel } = sheet;
  if (!table) return;
  const made = element('table', '');
  made.append(
    element(
      'caption',
      '',
      element('p', '', table.about),
      ...(table.said || []).map((sentence) => element('div', '', plain(sentence))),
    ),
  );
  const headers = element('tr', '', ...table.columns.map((_, index) => headerOf(sheet, index)));
  const spread = hasSpread(table);
  const cells = [];
  if (spread) headers.append(element('th', 'spread', 'Spread, slowest'));
  made.append(element('thead', '', ...(table.groups ? [groupHeader(table)] : []), headers));
  const body = element('tbody', '');
  let after = 0;
  table.rows.forEach((row, index) => {
    const matches = search.text && rowMatches(table, row);
    if (tables.only && search.text && !matches) return;
    if (body.childElementCount >= sheet.shown) {
      after++;
      return;
    }
    const line = rowElement(table, row, table.depths ? table.depths[index] : 0);
    if (matches) line.className = 'found';
    if (spread) cells.push({ cell: line.appendChild(element('td', 'spread')), row, line });
    body.append(line);
  });
  const first = body.querySelector('button.name');
  if (first) first.tabIndex = 0;
  made.append(body);
  panel.replaceChildren(element('div', 'sheet', made));
  if (spread) fillSpreads(table, cells);
  if (after > 0) {
    const showMore = () => {
      sheet.shown += 1000;
      showTable(sheet);
    };
    const says = 'Show ' + integer(Math.min(after, 1000)) + ' more of ' + integer(after);
    panel.append(buttonFor(showMore, '', says));
  }
  if (table.rows_left_out)
    panel.append(
      element('p', 'quiet', counted(table.rows_left_out, 'more row is', 'more rows are') + ' left out of this page.'),
    );
}

function showTables() {
  for (const sheet of Object.values(sheets)) showTable(sheet);
}

function showTabs() {
  const tabs = tables.list.map((table, index) => {
    const found = search.text ? table.rows.reduce((sum, row) => sum + rowMatches(table, row), 0) : 0;
    const count = element('span', 'count', integer(search.text ? found : table.rows.length));
    const tab = buttonFor(() => openTable(index), '', table.title, count);
    tab.id = 'tab-' + index;
    tab.setAttribute('role', 'tab');
    tab.setAttribute('aria-selected', String(index === tables.open));
    tab.setAttribute('aria-controls', 'panel');
    tab.tabIndex = index === tables.open ? 0 : -1;
    if (search.text && found) tab.classList.add('found');
    return tab;
  });
  const focused = byId('tabs').contains(document.activeElement);
  byId('tabs').replaceChildren(...tabs);
  if (focused) tabs[tables.open].focus();
  byId('panel').setAttribute('aria-labelledby', 'tab-' + tables.open);
}

/** Of a program that waits more than it runs, the calls: the ranges leave the waiting out. */
function firstTable() {
  return overview.atFirst === 'latency' ? Math.max(0, tables.list.findIndex(({ title }) => title === 'Calls')) : 0;
}

function openTable(index) {
  tables.open = (index + tables.list.length) % tables.list.length;
  sheets.tabs.table = tables.list[tables.open];
  sheets.tabs.shown = ROWS_AT_ONCE;
  showTabs();
  showTable(sheets.tabs);
}

byId('tabs').addEventListener('keydown', (event) => {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by) return;
  event.preventDefault();
  openTable(tables.open + by);
});
for (const { panel } of Object.values(sheets)) {
  panel.addEventListener('keydown', (event) => {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const aside = { ArrowLeft: '.name', ArrowRight: '.spread button' }[event.key];
    if (aside) event.target.closest('tbody tr')?.querySelector(aside)?.focus();
    if (!by || !event.target.classList.contains('name')) return;
    event.preventDefault();
    const names = [...panel.querySelectorAll('button.name')];
    const next = names[names.indexOf(event.target) + by];
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}
const switches = document.querySelectorAll('button[data-setting]');
for (const button of switches) {
  button.addEventListener('click', () => {
    const { setting } = button.dataset;
    tables[setting] = !tables[setting];
    for (const other of switches) {
      if (other.dataset.setting === setting) other.setAttribute('aria-pressed', String(tables[setting]));
    }
    showTables();
  });
}
