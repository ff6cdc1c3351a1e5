// In each row of a table of names: how its times are spread, and by a click the ten slowest.

const SLOWEST = 10;
/** The timeline is moved no more if it was not drawn for so long. */
const QUIET_MS = 100;

/** The items of a row of a table. */
function itemsOfRow(table, row) {
  const part = PARTS_OF_TABLES[table.title];
  if (!part) return new Uint32Array(0);
  const items = namedItems(part, String(row[0]));
  const other = { ranges: 'lifetimes', calls: 'ranges' }[part];
  return items.length || !other ? items : namedItems(other, String(row[0]));
}

/** Whether the names of a table are those of items on this page. */
function hasSpread(table) {
  const part = PARTS_OF_TABLES[table.title];
  return run.is_run && run.rows.some((row) => row.part === part);
}

/** Fills the last cells of rows as far as the browser has time, and while nobody moves the timeline. */
function fillSpreads(table, cells) {
  let next = 0;
  const fillSome = () => {
    const now = performance.now();
    if (now - timeline.drawn < QUIET_MS) return setTimeout(fillSome, QUIET_MS);
    const until = now + 6;
    for (; next < cells.length && performance.now() < until; next++)
      if (cells[next].cell.isConnected) fillSpread(table, cells[next]);
    if (next < cells.length) setTimeout(fillSome);
  };
  later(fillSome);
}

/** A small picture of how often times lie where, the short ones left; it opens the list of the slowest. */
function fillSpread(table, { cell, row, line }) {
  const items = itemsOfRow(table, row);
  const all = run.spreads[table.title]?.[String(row[0])] ?? [];
  if (!items.length && !all.length) return;
  const { counts, least, most } = all.length ? bucketsOfAll(all) : bucketsOf(lengthsOf(items));
  const highest = counts.reduce((a, b) => Math.max(a, b), 1);
  const bars = [...counts].map((count, index) => {
    const height = count && Math.max(1.5, (15 * count) / highest);
    return `M${index * 3} 16v${-height}h2.4v${height}z`;
  });
  const button = buttonFor(() => toggleSlowest(button, line, items), '');
  button.innerHTML = `<svg viewBox="0 0 72 16" aria-hidden="true"><path d="${bars.join('')}"/></svg>`; // digits alone
  button.tabIndex = -1; // the right arrow leads from the name to it
  button.setAttribute('aria-expanded', 'false');
  button.setAttribute('aria-label', 'The slowest of ' + String(row[0]).slice(0, 200));
  const count = all.length ? all.reduce((sum, [, count]) => sum + count, 0) : items.length;
  const range = ' from ' + human(least) + ' to ' + human(most) + '. Click for the slowest.';
  const here = count > items.length ? ', ' + integer(items.length) + ' of them on this page,' : '';
  button.title = counted(count, 'time', 'times') + here + range;
  cell.append(button);
}

function toggleSlowest(button, line, items) {
  const open = button.getAttribute('aria-expanded') === 'true';
  button.setAttribute('aria-expanded', String(!open));
  if (open) return line.nextElementSibling.remove();
  const entries = slowestOf(items, SLOWEST).map((item) =>
    element('li', '', linkTo(item, human(lengthOf(item))), slowSays(item)),
  );
  const cell = element('td', 'slowest', element('ol', '', ...entries));
  cell.colSpan = line.childElementCount;
  line.after(element('tr', '', cell));
}

/** What tells an item from others of its name. */
function slowSays(item) {
  const fields = (detailOf(item).fields ?? []).slice(0, 3).map(([name, value]) => name + '=' + value);
  const at = ['at ' + human(run.start[item]), ...fields];
  const call = callOf(item);
  if (call >= 0 && calls.long[call] && calls.item[call] === item) at.push(saidParts(item, 1));
  else at.push('on ' + run.groups[rowOf(item).group].label);
  return element('span', 'quiet', ' ' + at.join(', '));
}
