// Calls: one use of a span each, from its creation to its end, and what is inside them.

/** Calls that are drawn in lanes are looked at for the slowest where there are more than this. */
const MANY_CALLS = 200;
/** Calls inside one that are looked at to say where its time went. */
const MOST_INSIDE = 20000;

const firstOnStream = run.rows.find((row) => run.groups[row.group].kind === 'stream')?.first ?? Infinity;
const anyLong = run.rows.some((row) => row.part === 'calls');

/**
 * The calls, by their index. In the order of `place`, the calls inside one follow it; so do the items that belong to
 * them, in `items`. `item` is what stands for a call: itself where it waited, else its one range; -1 where neither is
 * on this page.
 */
function readCalls() {
  let count = 0;
  for (let i = 0; i < run.count; i++) {
    if (run.call[i] > count) count = run.call[i];
    if (run.parent[i] > count) count = run.parent[i];
  }
  const parent = new Int32Array(count).fill(-1);
  const item = new Int32Array(count).fill(-1);
  const long = new Uint8Array(count);
  for (const row of run.rows) {
    if (row.part !== 'calls' && row.part !== 'ranges') continue;
    for (let i = row.first; i < row.last; i++) {
      const call = run.call[i] - 1;
      if (call < 0 || item[call] >= 0) continue; // calls come before ranges
      item[call] = i;
      parent[call] = run.parent[i] - 1;
      if (row.part === 'calls') long[call] = 1;
    }
  }
  const { place, at, size } = placesOf(parent);
  const own = run.rows.filter((row) => row.part !== 'calls');
  const { from, items } = itemsByKey(own, count, (i) => (run.call[i] > 0 ? place[run.call[i] - 1] : -1));
  return { count, parent, size, place, at, from, items, item, long, ...rootsOf(parent, item, long, at) };
}

/** Parents before what is inside them. What is its own ancestor, which no program writes, has no parent. */
function placesOf(parent) {
  const count = parent.length;
  const inner = new Int32Array(count).fill(-1); // the first inside, and the next beside
  const beside = new Int32Array(count).fill(-1);
  for (let call = count - 1; call >= 0; call--) {
    if (parent[call] < 0) continue;
    beside[call] = inner[parent[call]];
    inner[parent[call]] = call;
  }
  const place = new Int32Array(count).fill(-1);
  const at = new Uint32Array(count); // the call at a place
  const size = new Uint32Array(count).fill(1);
  let next = 0;
  const put = (root) => {
    for (let call = root; call >= 0;) {
      place[call] = next;
      at[next++] = call;
      if (inner[call] >= 0) {
        call = inner[call];
        continue;
      }
      while (call !== root && beside[call] < 0) call = parent[call];
      call = call === root ? -1 : beside[call];
    }
  };
  for (let call = 0; call < count; call++) if (parent[call] < 0) put(call);
  for (let call = 0; call < count; call++) {
    if (place[call] >= 0) continue;
    parent[call] = inner[call] = -1;
    put(call);
  }
  for (let index = count - 1; index >= 0; index--)
    if (parent[at[index]] >= 0) size[parent[at[index]]] += size[at[index]];
  return { place, at, size };
}

/**
 * The items of the calls that no other call contains: those that waited, and those of the same names that did not. One
 * that lasts for most of the run, as a server does, does not count as containing others.
 */
function rootsOf(parent, item, long, at) {
  const count = item.length;
  const inside = new Uint32Array(count);
  const whole = new Uint8Array(count);
  for (let call = 0; call < count; call++) if (long[call] && parent[call] >= 0) inside[parent[call]]++;
  for (let call = 0; call < count; call++) {
    whole[call] = inside[call] >= 10 && (run.end[item[call]] - run.start[item[call]]) * 2 > run.until;
  }
  const within = new Uint8Array(count);
  const names = new Set();
  const found = [];
  for (const call of at) {
    const above = parent[call];
    within[call] = above >= 0 && (within[above] || (long[above] && !whole[above])) ? 1 : 0;
    if (long[call] && !within[call]) names.add(run.name[item[call]]);
  }
  for (let call = 0; call < count; call++) {
    if (within[call] || item[call] < 0) continue;
    if (long[call] || names.has(run.name[item[call]])) found.push(item[call]);
  }
  return { roots: Uint32Array.from(found), whole };
}

/** Where none waited they are read after the page is first seen. */
const calls = { count: 0, roots: new Uint32Array(0), whole: new Uint8Array(0) };
if (anyLong) Object.assign(calls, readCalls());

function lengthOf(item) {
  return run.end[item] - run.start[item];
}

/** The call that an item belongs to, or -1. */
function callOf(item) {
  return item < 0 || calls.count === 0 ? -1 : run.call[item] - 1;
}

/** The ranges of a call itself: of a future, its polls. In the order of time; of very many, some. */
function pollsOf(call) {
  const place = calls.place[call];
  const all = calls.items.subarray(calls.from[place], Math.min(calls.from[place + 1], calls.from[place] + MOST_INSIDE));
  return all.filter((item) => item < firstOnStream).sort((a, b) => run.start[a] - run.start[b]);
}

/** All items of a call and of the calls inside it. */
function itemsInside(call) {
  const place = calls.place[call];
  return calls.items.subarray(calls.from[place], calls.from[place + calls.size[call]]);
}

/** The calls inside a call at any depth, those that are known, in the order of places. */
function callsInside(call, most = MOST_INSIDE) {
  const place = calls.place[call];
  const found = [];
  for (let index = place + 1; index < place + calls.size[call] && found.length < most; index++) {
    if (calls.item[calls.at[index]] >= 0) found.push(calls.at[index]);
  }
  return found;
}

/** The calls around a call, from the outermost. */
function callsAround(call) {
  const found = [];
  for (let above = calls.parent[call]; above >= 0 && found.length < 50; above = calls.parent[above])
    found.unshift(above);
  return found.filter((above) => calls.item[above] >= 0);
}

/** The calls of batches and of what they serve, by both: `batches` of a call, and `served` by one. */
function readLinks() {
  const [batches, served] = [new Map(), new Map()];
  const add = (map, call, other) => (map.has(call) ? map.get(call).push(other) : map.set(call, [other]));
  for (let i = 0; i < run.linked; i++) {
    const [batch, call] = [run.links.batch[i] - 1, run.links.served[i] - 1];
    add(batches, call, batch);
    add(served, batch, call);
  }
  return { batches, served };
}
const links = readLinks();

/** The calls that a map of links has for a call, those that are known, by time. */
function linkedIn(map, call) {
  const known = (map.get(call) ?? []).filter((other) => calls.item[other] >= 0);
  return known.sort((a, b) => run.start[calls.item[a]] - run.start[calls.item[b]]);
}

function intervalOf(item) {
  return [run.start[item], run.end[item]];
}

/** The calls directly inside a call, those that are known. */
function childrenOf(call) {
  const found = [];
  const end = calls.place[call] + calls.size[call];
  for (let place = calls.place[call] + 1; place < end; place += calls.size[calls.at[place]]) {
    if (calls.item[calls.at[place]] >= 0) found.push(calls.at[place]);
    if (found.length > MOST_INSIDE) break;
  }
  return found;
}

function operationsOf(call) {
  return itemsInside(call).filter((item) => item >= firstOnStream);
}

/**
 * The outermost ranges on threads that belong to no call that waited, nor to one that is drawn on another thread. One
 * that lasts for most of the run and has ten others inside, as `main` has, does not count as the outermost.
 */
function plainCalls() {
  const whole = new Set();
  const found = [];
  const visit = (row, first, last) => {
    const next = run.rows[row.index + 1];
    const inner = next?.group === row.group && next.part === 'ranges' ? next : { first: 0, last: 0 };
    for (let item = first; item < last; item++) {
      const call = callOf(item);
      if (call >= 0 && (calls.long[call] || callsAround(call).some((above) => !whole.has(above)))) continue;
      const from = firstIndex(inner.first, inner.last, (index) => run.start[index] >= run.start[item]);
      const after = nextIndex(from, inner.last, (index) => run.start[index] >= run.end[item]);
      if (lengthOf(item) * 2 > run.until && after - from >= 10) {
        if (call >= 0) whole.add(call);
        visit(inner, from, after);
      } else found.push(item);
    }
  };
  for (const { tracks } of run.groups) {
    const row = tracks.find(({ part }) => part === 'ranges')?.rows[0];
    if (row) visit(row, row.first, row.last);
  }
  return found;
}
