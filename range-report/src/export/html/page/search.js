// One search for all of the page: timeline, flame graph and tables.

const search = {
  active: false,
  query: '',
  /** Of each item, how many before it are found. */
  before: null,
  /** What is found, by time, and before that what has the text as a field: how many; and which of all one is at. */
  found: [],
  exact: 0,
  at: -1,
  /** In quotation marks: the whole text. */
  matches: (text) =>
    search.whole === null ? text.toLowerCase().includes(search.query) : text.toLowerCase() === search.whole,
  whole: null,
};

function isMatch(item) {
  return search.before[item + 1] > search.before[item];
}

function anyMatch(from, to) {
  return search.before[to] > search.before[from];
}

function runSearch() {
  const query = byId('search').value.trim().toLowerCase();
  if (query === search.query) return;
  search.query = query;
  search.whole = /^".+"$/s.test(query) ? query.slice(1, -1) : null;
  search.active = query !== '';
  search.at = -1;
  search.found = [];
  search.exact = 0;
  if (search.active) findItems();
  tellFound();
  tellMissed();
  keepView();
  redraw();
  drawFlame();
  showTabs();
  showTables();
}

/** As details have a field whose value is what is looked for, or a field and its value: `id=950` or `id 950`. */
function exactFields() {
  const [, field, value] = /^([^\s=]+)(?:=|\s+)(.+)$/.exec(search.query) ?? [];
  const pair = field ? [JSON.stringify([field, value])] : [];
  return [',' + JSON.stringify(search.query) + ']', ...pair];
}

/** Names, and what else is known: categories, payloads and fields are in the texts of details. Exact ones are 2. */
function findItems() {
  const fields = exactFields();
  const isExact = (text) => text.startsWith('{') && fields.some((field) => text.toLowerCase().includes(field));
  const texts = Uint8Array.from(run.texts, (text) => (isExact(text) ? 2 : search.matches(text)));
  const before = new Uint32Array(run.count + 1);
  const found = [];
  for (let item = 0; item < run.count; item++) {
    const matches = texts[run.name[item]] | (run.detail[item] > 0 ? texts[run.detail[item]] : 0);
    before[item + 1] = before[item] + (matches > 0);
    if (matches) found.push(item);
  }
  const isLater = (item) => texts[run.detail[item]] !== 2;
  search.before = before;
  search.found = Uint32Array.from(found.filter((item) => !isPollOfFound(item))).sort(
    (a, b) => isLater(a) - isLater(b) || run.start[a] - run.start[b] || a - b,
  );
  search.exact = firstIndex(0, search.found.length, (index) => isLater(search.found[index]));
}

/** One goes from call to call, not to each poll of them. */
function isPollOfFound(item) {
  const own = calls.item?.[callOf(item)] ?? item;
  return own >= 0 && own !== item && isMatch(own) && rowOf(own).part === 'calls' && rowOf(item).part === 'ranges';
}

function tellFound() {
  const { found, at } = search;
  let text = '';
  if (search.active && found.length)
    text = at < 0 ? counted(found.length, 'match', 'matches') : integer(at + 1) + ' of ' + integer(found.length);
  else if (search.active) text = foundInTables();
  byId('found').textContent = text;
}

/** In the place of what was said of another item. */
function tellMissed() {
  document.querySelector('#details .missed')?.remove();
  if (!search.active || search.found.length || !run.is_run) return;
  select(-1);
  byId('details').append(element('p', 'missed quiet', 'No match on the timeline for ' + byId('search').value.trim()));
}

/** Where there is a timeline, that it is not there. */
function foundInTables() {
  const all = sheets.comparison.table ? [sheets.comparison.table, ...tables.list] : tables.list;
  const rows = all.reduce((sum, table) => sum + table.rows.filter((row) => rowMatches(table, row)).length, 0);
  if (rows === 0) return 'no match';
  return run.is_run ? 'in tables only' : counted(rows, 'row', 'rows');
}

/** To the next match, or the one before. The first time: to the first exact one, or that is seen, or comes after. */
function goToMatch(by) {
  runSearch();
  const { found } = search;
  if (!found.length) return;
  if (search.at < 0) {
    const seen = search.exact ? 0 : firstIndex(0, found.length, (index) => run.start[found[index]] >= timeline.from);
    search.at = (by > 0 ? seen : seen - 1 + found.length) % found.length;
  } else {
    search.at = (search.at + by + found.length) % found.length;
  }
  const item = found[search.at];
  select(item);
  if (rowOf(item).part === 'calls') zoomTo(item);
  reveal(item);
  tellFound();
}

function searchFor(text) {
  byId('search').value = text;
  runSearch();
}

/** For this name and no other. */
function searchForName(name) {
  searchFor('"' + name + '"');
}

let typing = 0;
byId('search').addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(runSearch, run.count > 50000 ? 180 : 60);
});
byId('search').addEventListener('keydown', (event) => {
  if (event.key === 'Enter') {
    event.preventDefault();
    goToMatch(event.shiftKey ? -1 : 1);
  } else if (event.key === 'Escape') {
    searchFor('');
    byId('search').blur();
  }
});
byId('next').addEventListener('click', () => goToMatch(1));
byId('previous').addEventListener('click', () => goToMatch(-1));
