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
  matches: (text) => {
    if (search.text === '') return false;
    return search.whole === null ? text.toLowerCase().includes(search.text) : text.toLowerCase() === search.whole;
  },
  /** The query without its filters. */
  text: '',
  whole: null,
  /** What selects items beside or in place of a text; see `readFilters`. */
  filters: null,
};

const UNITS = { ns: 1, us: 1e3, '\u00b5s': 1e3, ms: 1e6, s: 1e9 };
/** Whether at least half of an item's time went like this: of a call, by its polls and its GPU work. */
const SELECTED_STATES = {
  'on-cpu': (item) => cpuOfAll(item)[0] >= lengthOf(item) / 2,
  'off-cpu': (item) => cpuOfAll(item)[1] >= lengthOf(item) / 2,
  'on-thread': (item) => timeOf(spanOf(rangesOf(item))) >= lengthOf(item) / 2,
  waiting: (item) => timeOf(spanOf(rangesOf(item))) < lengthOf(item) / 2,
  gpu: (item) => item >= firstOnStream || (isCall(item) && gpuTimeOf(item) >= lengthOf(item) / 2),
};

function gpuTimeOf(item) {
  return timeOf(spanOf(operationsOf(callOf(item))));
}

/** Whether an item stands for a call. */
function isCall(item) {
  return callOf(item) >= 0 && calls.item[callOf(item)] === item;
}

/** Of a call its polls; else itself. */
function rangesOf(item) {
  return isCall(item) && calls.long[callOf(item)] ? pollsOf(callOf(item)) : [item];
}

function cpuOfAll(item) {
  return [...rangesOf(item)].reduce(([on, off], range) => [on + cpuOf(range)[0], off + cpuOf(range)[1]], [0, 0]);
}

/**
 * `GET >100ms <2s tenant=globex state=off-cpu`: bounds of the length, fields and a state that all apply, and the text
 * that is left. Null where there is neither a length nor a state, and a field stands alone, or is part of a name.
 */
function readFilters(query) {
  const filters = { least: 0, most: Infinity, fields: [], state: null };
  const words = query.split(/\s+/).filter((word) => {
    const [, than, number, unit] = /^([<>])=?(\d+(?:\.\d+)?)(ns|us|\u00b5s|ms|s)$/.exec(word) ?? [];
    const [, field, value] = /^([\w.-]+)=(\S+)$/.exec(word) ?? [];
    if (than === '>') filters.least = Math.max(filters.least, number * UNITS[unit]);
    else if (than) filters.most = Math.min(filters.most, number * UNITS[unit]);
    else if (field === 'state' && Object.hasOwn(SELECTED_STATES, value)) filters.state = SELECTED_STATES[value];
    else if (field) filters.fields.push(',' + JSON.stringify([field, value]), '[' + JSON.stringify([field, value]));
    else return true;
    return false;
  });
  const isPlain = filters.least === 0 && filters.most === Infinity && !filters.state;
  filters.text = words.join(' ');
  const isField = !filters.fields.length || query.split(/\s+/).length === 1;
  const isText = () => run.texts.some((text) => text.toLowerCase().includes(query));
  return isPlain && (isField || isText()) ? null : filters;
}

/** Whether an item is selected: a call, or a range, operation or API call that stands for none. */
function isSelected(item, part, { least, most, fields, state }) {
  const length = lengthOf(item);
  if (part === 'marks' || part === 'idle' || part === 'projections' || length < least || length > most) return false;
  const text = fields.length ? run.texts[run.detail[item]].toLowerCase() : '';
  const has = (index) => text.includes(fields[index]) || text.includes(fields[index + 1]);
  for (let index = 0; index < fields.length; index += 2) if (!has(index)) return false;
  return !state || (part !== 'api' && (item < firstOnStream || state === SELECTED_STATES.gpu) && state(item));
}

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
  search.filters = readFilters(query);
  search.text = search.filters ? search.filters.text : query;
  search.whole = /^".+"$/s.test(search.text) ? search.text.slice(1, -1) : null;
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
  if (search.filters) return [];
  const [, field, value] = /^([^\s=]+)(?:=|\s+)(.+)$/.exec(search.query) ?? [];
  const pair = field ? [JSON.stringify([field, value])] : [];
  return [',' + JSON.stringify(search.query) + ']', ...pair];
}

/** Names, and what else is known: categories, payloads and fields are in the texts of details. Exact ones are 2. */
function findItems() {
  const fields = exactFields();
  const isExact = (text) => text.startsWith('{') && fields.some((field) => text.toLowerCase().includes(field));
  const texts = Uint8Array.from(run.texts, (text) => (isExact(text) ? 2 : search.text === '' || search.matches(text)));
  const before = new Uint32Array(run.count + 1);
  const found = [];
  for (const { part, first, last } of run.rows) {
    for (let item = first; item < last; item++) {
      const text = texts[run.name[item]] | (run.detail[item] > 0 ? texts[run.detail[item]] : 0);
      const matches = text > 0 && (!search.filters || isSelected(item, part, search.filters));
      before[item + 1] = before[item] + matches;
      if (matches) found.push(item);
    }
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
  showFound();
}

/** Selects the match that one is at, and shows it in its lane. */
function showFound() {
  const item = search.found[search.at];
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

/** The same, and goes to one that has the name: to `wanted`, or to the longest. */
function goToName(name, wanted = -1) {
  searchForName(name);
  const longer = (best, item) => (nameOf(item) === name && (best < 0 || lengthOf(item) > lengthOf(best)) ? item : best);
  const item = search.found.includes(wanted) ? wanted : search.found.reduce(longer, -1);
  search.at = search.found.indexOf(item);
  if (item < 0) return;
  byId('timeline').scrollIntoView();
  unfoldFor(item);
  showFound();
  focusStrip();
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
    byId('search').blur();
    EVERYWHERE.Escape();
  }
});
byId('next').addEventListener('click', () => goToMatch(1));
byId('previous').addEventListener('click', () => goToMatch(-1));
