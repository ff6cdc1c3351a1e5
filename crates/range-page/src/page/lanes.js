// Puts calls on lanes, so that no two overlap on a lane.

/** Pixels that a lane of calls takes at least and at most. */
const LOW_LANE = 2;
const HIGH_LANE = 17;
/** The slowest calls have so many lanes, and are so many at most. */
const SLOW_LANES = 8;
const MOST_SLOW = 400;
/** More lanes are folded at first. */
const MANY_LANES = 24;
/** Lanes beyond this are not drawn: what would need them lies on the last. */
const MOST_LANES = 500;
/** Calls inside one that are drawn when it is open. */
const MOST_OPEN = 5000;
const MOST_OPEN_LANES = 60;

/** Each item goes on the first lane that is free when it starts. They come by their starts. */
function packed(items) {
  const free = [];
  const lanes = [];
  for (const item of items) {
    let lane = 0;
    while (lane < MOST_LANES - 1 && free[lane] > run.start[item]) lane++;
    while (lanes.length <= lane) {
      lanes.push([]);
      free.push(-1);
    }
    free[lane] = Math.max(free[lane], run.end[item]);
    lanes[lane].push(item);
  }
  return lanes.map((lane) => Uint32Array.from(lane));
}

function byStart(a, b) {
  return run.start[a] - run.start[b] || run.end[b] - run.end[a];
}

/** Those that took most more than the median of their name, as many as lie on a few lanes; and the others. */
function slowAndOthers(items) {
  if (items.length < MANY_CALLS) return { slow: [], others: packed(items.slice().sort(byStart)) };
  const typical = new Map();
  const excess = new Float64Array(items.length);
  items.forEach((item, index) => {
    const name = run.name[item];
    if (!typical.has(name)) typical.set(name, typicalOf(run.texts[name]));
    excess[index] = lengthOf(item) - typical.get(name);
  });
  const enough = ranked(excess.slice(), Math.max(0, items.length - MOST_SLOW));
  const isSlow = (item, index) => excess[index] >= enough && excess[index] > lengthOf(item) / 2;
  const candidates = [...items.keys()].filter((index) => isSlow(items[index], index));
  const lanes = Array.from({ length: SLOW_LANES }, () => []);
  const slow = new Set();
  const apart = (a, b) => run.end[a] <= run.start[b] || run.end[b] <= run.start[a];
  for (const index of candidates.sort((a, b) => excess[b] - excess[a])) {
    const lane = lanes.find((lane) => lane.every((other) => apart(other, items[index])));
    if (!lane) continue;
    lane.push(items[index]);
    slow.add(items[index]);
  }
  const found = lanes.filter((lane) => lane.length).map((lane) => Uint32Array.from(lane).sort(byStart));
  return { slow: found, others: packed(items.filter((item) => !slow.has(item)).sort(byStart)) };
}

/** The groups of calls that no other contains. */
function groupsOfCalls() {
  const last = run.rows.filter((row) => row.part === 'calls').at(-1).last;
  const { slow, others } = slowAndOthers(calls.roots);
  const group = (label, lanes) => ({
    starts: Float64Array.from(lanes.flatMap((ids) => [...ids].map((item) => run.start[item]))).sort(),
    ends: Float64Array.from(lanes.flatMap((ids) => [...ids].map((item) => run.end[item]))).sort(),
    label,
    kind: 'calls',
    key: label,
    parts: [],
    lanes,
    height: heightOfLane(lanes.length, 220),
    foldedAtFirst: lanes.length > MANY_LANES,
    last,
  });
  return slow.length ? [group('Slowest calls', slow), group('Other calls', others)] : [group('Calls', others)];
}

/** High enough for a name, or low. */
function heightOfLane(count, room) {
  const height = Math.floor(room / Math.max(count, 1));
  return height > 12 ? Math.min(height - 1, HIGH_LANE) : Math.max(LOW_LANE, Math.min(height, 6));
}

/** The calls inside a call: depth by depth, on several lanes where those of one depth overlap. */
function lanesInside(call) {
  const depths = new Map([[call, -1]]);
  const levels = [];
  for (const one of callsInside(call, MOST_OPEN)) {
    const depth = (depths.get(calls.parent[one]) ?? -1) + 1;
    depths.set(one, depth);
    (levels[depth] ??= []).push(calls.item[one]);
  }
  return levels.flatMap((items) => packed(items.sort(byStart))).slice(0, MOST_OPEN_LANES);
}
