// Names in numbers: how long what has a name took, from the items of this page.

const BUCKETS = 24;
/** Which tables have rows that are names of items, and in which parts of the timeline these are. */
const PARTS_OF_TABLES = {
  Ranges: 'ranges',
  Calls: 'calls',
  Kernels: 'operations',
  'GPU memory': 'operations',
  'API calls': 'api',
};

/** The items of a part of the timeline by names: see `itemsByKey`; a key is the number of a text. */
const byName = remembered((part) => {
  const rows = run.rows.filter((row) => row.part === part);
  const { from, items } = itemsByKey(rows, run.texts.length, (item) => run.name[item]);
  const numbers = new Map();
  for (let text = 0; text < run.texts.length; text++)
    if (from[text + 1] > from[text]) numbers.set(run.texts[text], text);
  return { from, items, numbers };
});

/** The items of a part that have this name. */
function namedItems(part, name) {
  const { from, items, numbers } = byName(part);
  const text = numbers.get(name);
  return text === undefined ? new Uint32Array(0) : items.subarray(from[text], from[text + 1]);
}

function lengthsOf(items) {
  const lengths = new Float64Array(items.length);
  for (let index = 0; index < items.length; index++) lengths[index] = run.end[items[index]] - run.start[items[index]];
  return lengths;
}

/** The calls of a name that waited; where none did, its ranges. */
function callsNamed(name) {
  const items = namedItems('calls', name);
  return items.length ? items : namedItems('ranges', name);
}

/** Half of the calls of a name took no longer than this. */
const typicalOf = remembered((name) => quantileOf(lengthsOf(callsNamed(name)), 0.5));

function remembered(make) {
  const known = new Map();
  return (key) => {
    if (!known.has(key)) known.set(key, make(key));
    return known.get(key);
  };
}

/** How many of these lengths lie in each of equal steps of their logarithm. */
function bucketsOf(lengths) {
  let [least, most] = [Infinity, 0];
  for (const length of lengths) {
    if (length < least) least = length;
    if (length > most) most = length;
  }
  const low = Math.log2(least + 1);
  const step = Math.max(Math.log2(most + 1) - low, 1e-6) / BUCKETS;
  const counts = new Uint32Array(BUCKETS);
  for (const length of lengths) counts[Math.min(BUCKETS - 1, Math.floor((Math.log2(length + 1) - low) / step))]++;
  return { counts, least, most };
}

/** The same of all times in the summary: so many took at most 2^(step/8) ns, and longer than the step before. */
function bucketsOfAll(steps) {
  const [low, high] = [steps[0][0] - 1, steps.at(-1)[0]];
  const counts = new Uint32Array(BUCKETS);
  for (const [step, count] of steps) counts[Math.floor(((step - 1 - low) / (high - low)) * BUCKETS)] += count;
  return { counts, least: Math.round(2 ** (low / 8)), most: Math.round(2 ** (high / 8)) };
}

/** The longest first. */
function slowestOf(items, count) {
  const lengths = lengthsOf(items);
  const enough = items.length > count ? ranked(lengths, items.length - count) : 0;
  const found = [];
  for (const item of items) if (lengthOf(item) >= enough && found.length < 50 * count) found.push(item);
  return found.sort((a, b) => lengthOf(b) - lengthOf(a) || run.start[a] - run.start[b]).slice(0, count);
}
