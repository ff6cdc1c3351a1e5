// The colours of names: the same on every page as far as neighbours differ.

/** Names that are told from their neighbours, and items of a row that are looked at for who they are. */
const MOST_COLORED = 2000;
const SAMPLED = 4000;
/** Palettes hold so many hues, each in two shades. */
const HUES = 12;

/** The hue that a name has on every page and in both themes, unless a neighbour has it. */
function hueOf(name) {
  let hash = 2166136261;
  const length = Math.min(name.length, 200);
  for (let i = 0; i < length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  hash = Math.imul(hash ^ (hash >>> 12), 0x297a2d39);
  return ((hash ^ (hash >>> 15)) >>> 0) % PALETTES.light.length;
}

const hues = new Map();
/** Colours that the program gave to names, the same to all items of a name that have one. */
const given = new Map();
function colorOfName(name) {
  if (given.get(name)) return given.get(name);
  let hue = hues.get(name);
  if (hue === undefined) hues.set(name, (hue = hueOf(name)));
  return theme.palette[hue];
}

/** By the number of a text: quicker, for items. */
const hueOfText = new Uint8Array(run.texts.length).fill(255);
function colorOf(item) {
  const own = run.color[item];
  if (own > 0) return givenColor(own);
  const text = run.name[item];
  if (hueOfText[text] === 255) hueOfText[text] = hues.get(run.texts[text]) ?? hueOf(run.texts[text]);
  return theme.palette[hueOfText[text]];
}

function givenColor(number) {
  return '#' + run.colors[number - 1].toString(16).padStart(6, '0');
}

function readGivenColors() {
  for (let item = 0; run.colors.length && item < run.count; item++) {
    if (run.color[item] === 0) continue;
    const [name, color] = [nameOf(item), givenColor(run.color[item])];
    given.set(name, (given.get(name) ?? color) === color ? color : '');
  }
}

/** Text on the colour of an item. */
function textOn(item) {
  return run.color[item] === 0 ? theme['on-color'] : textOnGiven(givenColor(run.color[item]));
}

function textOnName(name) {
  return given.get(name) ? textOnGiven(given.get(name)) : theme['on-color'];
}

function textOnGiven(color) {
  const channel = (shift) => (((parseInt(color.slice(1), 16) >> shift) & 255) / 255) ** 2.2;
  return 0.2126 * channel(16) + 0.7152 * channel(8) + 0.0722 * channel(0) > 0.18 ? '#14181d' : '#ffffff';
}

/** Who stands beside whom, and how often: phases in one parent and below it, items after each other. */
function neighboursOfNames() {
  const known = new Map();
  const add = (a, b, weight) => {
    if (a === b) return;
    for (const [one, other] of [
      [a, b],
      [b, a],
    ]) {
      if (!known.has(one)) known.set(one, new Map());
      known.get(one).set(other, (known.get(one).get(other) ?? 0) + weight);
    }
  };
  const last = [];
  const drawn = run.tree.filter((node) => !node.captured || node.gpu.busy);
  drawn.slice(0, 20 * MOST_COLORED).forEach(({ depth, name }) => {
    if (depth > 0) add(last[depth - 1], name, 50);
    if (last.length > depth) add(last[depth], name, 50);
    last[depth] = name;
    last.length = depth + 1;
  });
  for (const row of run.rows) {
    if (row.part === 'marks' || row.part === 'api' || row.part === 'idle') continue;
    const step = Math.max(2, Math.floor((row.last - row.first) / SAMPLED));
    for (let item = row.first; item + 1 < row.last; item += step) {
      if (run.name[item] !== run.name[item + 1]) add(nameOf(item), nameOf(item + 1), 1);
    }
  }
  return known;
}

/** Gives each name its own hue, or the nearest that no neighbour has; those with most neighbours first. */
function colorNames() {
  readGivenColors();
  const known = neighboursOfNames();
  const weights = new Map();
  for (const [name, others] of known)
    weights.set(
      name,
      [...others.values()].reduce((sum, weight) => sum + weight, 0),
    );
  const names = [...known.keys()].sort((a, b) => weights.get(b) - weights.get(a)).slice(0, MOST_COLORED);
  for (const name of names) {
    const wanted = hueOf(name);
    const costs = new Float64Array(2 * HUES);
    for (const [other, weight] of known.get(name)) {
      const hue = hues.get(other);
      if (hue === undefined) continue;
      costs[hue] += weight;
      costs[(hue + HUES) % (2 * HUES)] += weight / 2;
    }
    let best = wanted;
    for (let by = 1; by < 2 * HUES; by++) {
      const hue = (wanted + by) % (2 * HUES);
      if (costs[hue] < costs[best]) best = hue;
    }
    hues.set(name, best);
  }
}
