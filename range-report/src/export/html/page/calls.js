// Calls: one use of a span each, from its creation to its end. What is inside them, and where their time went.

/** Calls that are drawn in lanes are looked at for the slowest where there are more than this. */
const MANY_CALLS = 200;
/** Calls inside one that are looked at to say where its time went. */
const MOST_INSIDE = 20000;

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
  const from = new Uint32Array(count + 1);
  const own = run.rows.filter((row) => row.part !== 'calls');
  for (const row of own)
    for (let i = row.first; i < row.last; i++) if (run.call[i] > 0) from[place[run.call[i] - 1] + 1]++;
  for (let index = 0; index < count; index++) from[index + 1] += from[index];
  const items = new Uint32Array(from[count]);
  const next = from.slice(0, count);
  for (const row of own)
    for (let i = row.first; i < row.last; i++) if (run.call[i] > 0) items[next[place[run.call[i] - 1]]++] = i;
  return {
    count,
    parent,
    size,
    place,
    at,
    from,
    items,
    item,
    long,
    roots: anyLong ? rootsOf(parent, item, long, at) : new Uint32Array(0),
  };
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
  return Uint32Array.from(found);
}

/** Where none waited they are read after the page is first seen. */
const calls = { count: 0, roots: new Uint32Array(0) };
if (anyLong) Object.assign(calls, readCalls());

function lengthOf(item) {
  return run.end[item] - run.start[item];
}

/** The call that an item belongs to, or -1. */
function callOf(item) {
  return item < 0 || calls.count === 0 ? -1 : run.call[item] - 1;
}

/** The ranges of a call itself: of a future, its polls. In the order of time. */
function pollsOf(call) {
  const place = calls.place[call];
  const all = calls.items.subarray(calls.from[place], calls.from[place + 1]);
  return all.filter((item) => rowOf(item).part !== 'operations').sort((a, b) => run.start[a] - run.start[b]);
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

/** How much of [from, to) these intervals cover, and what they leave of it. Each a start and an end. */
function cover(intervals, from, to) {
  let covered = 0;
  let until = from;
  const left = [];
  for (const [start, end] of intervals.sort((a, b) => a[0] - b[0])) {
    if (start >= to) break;
    if (start > until) left.push([until, start]);
    covered += Math.max(0, Math.min(end, to) - Math.max(start, until));
    until = Math.max(until, Math.min(end, to));
  }
  if (until < to) left.push([until, to]);
  return { covered, left };
}

function intervalOf(item) {
  return [run.start[item], run.end[item]];
}

/** What of these gaps intervals cover. */
function coverOf(intervals, gaps) {
  return gaps.reduce((sum, [from, to]) => sum + cover(intervals, from, to).covered, 0);
}

/**
 * Where the time of a call went: down the calls inside it, as long as one name takes most of the time, and then what of
 * the last was running on a thread, was work that waited for the GPU or ran there, and was waiting.
 */
function reasonOf(call) {
  const path = [call];
  const [start, end] = intervalOf(calls.item[call]);
  let gaps = [[start, end]];
  let within = [call];
  const whole = Math.max(1, end - start);
  let taken = whole;
  for (;;) {
    const families = new Map();
    const inner = within.flatMap((one) => childrenOf(one));
    if (inner.length > MOST_INSIDE) break;
    for (const one of inner) {
      const name = run.name[calls.item[one]];
      if (!families.has(name)) families.set(name, []);
      families.get(name).push(one);
    }
    let best = null;
    for (const family of families.values()) {
      const part = coverOf(
        family.map((one) => intervalOf(calls.item[one])),
        gaps,
      );
      if (!best || part > best.part) best = { part, family };
    }
    const all = coverOf(
      inner.map((one) => intervalOf(calls.item[one])),
      gaps,
    );
    if (!best || best.part < taken * 0.5 || best.part < all * 0.5) {
      if (inner.length)
        gaps = gaps.flatMap(
          ([from, to]) =>
            cover(
              inner.map((one) => intervalOf(calls.item[one])),
              from,
              to,
            ).left,
        );
      break;
    }
    within = best.family;
    path.push(within[0]);
    const inside = within.map((one) => intervalOf(calls.item[one]));
    gaps = inside.map(([from, to]) => [Math.max(from, start), Math.min(to, end)]).filter(([from, to]) => to > from);
    gaps = merged(gaps);
    taken = best.part;
  }
  const own = gaps.reduce((sum, [from, to]) => sum + to - from, 0);
  const polls = within.flatMap((one) => [...pollsOf(one)]);
  const running = coverOf(polls.map(intervalOf), gaps);
  const operations = within.flatMap((one) => operationsOf(one));
  const onGpu = coverOf(
    operations.map((item) => intervalOf(item)),
    gaps,
  );
  const queued =
    coverOf(
      operations.map((item) => [launchOf(item, rowOf(item)).at ?? run.start[item], run.end[item]]),
      gaps,
    ) - onGpu;
  return { path, within, own, running, waiting: Math.max(0, own - running), onGpu, queued, whole };
}

function merged(intervals) {
  const found = [];
  for (const [from, to] of intervals.sort((a, b) => a[0] - b[0])) {
    const last = found[found.length - 1];
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else found.push([from, to]);
  }
  return found;
}

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
  return [...itemsInside(call)].filter((item) => rowOf(item).part === 'operations');
}

/** The same in a few words: `waited 780 ms in "wait for a connection"`. */
function reasonInWords(call) {
  const { path, own, running, waiting, onGpu, queued, whole } = reasonOf(call);
  const last = path[path.length - 1];
  const place =
    path.length > 1
      ? ' in ' +
        path
          .slice(1)
          .map((one) => nameOf(calls.item[one]))
          .join(' > ')
      : '';
  const parts = [
    [running, 'running'],
    [queued, 'waiting for a busy GPU'],
    [onGpu, 'waiting for its own GPU work'],
    [waiting - queued - onGpu, 'waiting'],
  ].sort((a, b) => b[0] - a[0]);
  const [most, verb] = parts[0];
  return { most, share: most / whole, own, text: verb + place, last, calls: path };
}
