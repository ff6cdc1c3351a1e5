// What a call did at each moment, and what made it wait, as far as the records prove that.

/** Parts of a call shorter than this part of it are not looked into. */
const LEAST_PART = 1 / 2000;
/** A smaller share of a range's own time would be shown as none. */
const LEAST_SHARE = 1 / 2000;
/** Segments of one call, and how deep calls inside it are followed. */
const MOST_SEGMENTS = 3000;
const MOST_DEPTH = 40;
/** Calls of one name in a queue that are followed to its head. */
const MOST_QUEUED = 200;
/** An operation that another stream waited for ended at most so long before that went on. */
const SOON_NS = 20_000;
/** Fewer waits alike are weak evidence. */
const FEW_WAITS = 30;

/** Of each state its words, those before who is to blame, the look of its segment, and where a chain of causes ends. */
const STATES = {
  cuda: { says: 'in CUDA', cause: ': ', look: 'cuda', ends: 'a call of the API of the GPU' },
  cpu: { says: 'on the CPU', look: 'runs', ends: 'the CPU' },
  off: { says: 'off the CPU', look: 'off', ends: 'a lock, a system call or a busy processor' },
  offLikely: { says: 'off the CPU', cause: ' for ', look: 'held' },
  thread: { says: 'on a thread', look: 'runs', ends: 'a thread' },
  fresh: { says: 'ready, not polled yet', look: 'ready' },
  ready: { says: 'ready for a thread', look: 'ready' },
  worker: { says: 'ready for a thread', cause: ', held by ', look: 'held' },
  held: { says: 'waiting', cause: ' for ', look: 'held' },
  likely: { says: 'waiting', cause: ' for ', look: 'held' },
  behind: { says: 'waiting', cause: ' in a queue, behind ', look: 'held' },
  woken: { says: 'waiting for a timer, I/O or the end of a task', look: 'waits', ends: 'what has no span' },
  queued: { says: 'waiting for a busy GPU', cause: ', behind ', look: 'held' },
  across: { says: 'waiting for a busy GPU', cause: ', probably behind ', look: 'held' },
  gpu: { says: 'waiting for its GPU work', cause: ', ', look: 'gpu', ends: 'the GPU' },
  wait: { says: 'waiting', look: 'waits', ends: 'what no record names' },
  late: { says: 'after its last poll', look: 'waits', ends: 'another handle of its span, or a call inside it' },
  more: { says: 'not looked into', look: 'waits' },
};

/** The parts of waits by call: indices of `run.waits`, by time. */
const partsOfWaits = remembered(() => Map.groupBy(run.waits.call.keys(), (index) => run.waits.call[index] - 1));

/** What is told of the waits of a call: from, to, the state and who is to blame; after a wake, that it is ready. */
const toldOf = remembered((call) => {
  const { start, end, by, isForWorker } = run.waits;
  const parts = partsOfWaits().get(call) ?? [];
  const process = parts.length ? processOfItem(calls.item[call]) : 0;
  const polls = parts.length ? pollsOf(call) : [];
  const pollAfter = (at) => polls[firstIndex(0, polls.length, (index) => run.start[polls[index]] >= at)];
  const found = parts.map((part) => {
    const [from, to, name] = [start[part], end[part], run.texts[by[part]]];
    if (!by[part]) return { from, to, state: 'woken' };
    const poll = pollAfter(to);
    const group = isForWorker[part] && poll !== undefined ? rowOf(poll).group : -1;
    return { from, to, state: isForWorker[part] ? 'worker' : 'held', by: name, ...openAt(name, to, process, group) };
  });
  const woken = found.filter(({ state }) => state !== 'worker');
  const ready = woken.flatMap(({ to }, index) => {
    const poll = pollAfter(to);
    const until = Math.min(poll === undefined ? to : run.start[poll], woken[index + 1]?.from ?? Infinity);
    return until > to ? [{ from: to, to: until, state: 'ready' }] : [];
  });
  return [...found.filter(({ state }) => state === 'worker'), ...woken, ...ready]; // the first that applies counts
});

/** Who of a name was open at a moment in a process, on one thread or any: the first, or its call, and how many. */
function openAt(name, at, process, group = -1) {
  const found = [];
  for (const row of run.rows) {
    if (row.part !== 'ranges' || (group >= 0 && row.group !== group)) continue;
    if ((run.groups[row.group].process ?? 0) !== process) continue;
    const item = firstIndex(row.first, row.last, (index) => run.end[index] >= at - 1);
    if (item < row.last && run.start[item] <= at + 1 && nameOf(item) === name) found.push(item);
  }
  return { target: wholeOf(found[0] ?? -1), among: found.length };
}

/** The call whose poll an item is, or itself. */
function wholeOf(item) {
  const call = callOf(item);
  return call >= 0 && calls.long[call] ? calls.item[call] : item;
}

/** By process, the ranges, or the calls, of a name by when they ended. */
const byEnd = remembered((name) => byProcess(namedItems('ranges', name)));
const callsByEnd = remembered((name) => byProcess(callsNamed(name)));

function byProcess(items) {
  const sorted = items.slice().sort((a, b) => run.end[a] - run.end[b]);
  return run.processes.length ? Map.groupBy(sorted, processOfItem) : new Map([[0, sorted]]);
}

/** The last of these items, by their ends, that ended between two moments. */
function lastBetween(items = [], from, to) {
  const after = firstIndex(0, items.length, (index) => run.end[items[index]] > to);
  return after > 0 && run.end[items[after - 1]] >= from ? items[after - 1] : undefined;
}

/** Who probably ended a wait of a name that took so long and ended between two moments: many such waits did so. */
function likelyCause(name, process, length, [from, to]) {
  for (const pattern of run.patterns) {
    if (pattern.waiter !== name || length < pattern.over_ns) continue;
    const target = lastBetween(byEnd(pattern.by).get(process), from - pattern.within_ns, to + pattern.before_ns);
    if (target === undefined) continue;
    return { by: pattern.by, target: wholeOf(target), among: 1, pattern };
  }
  return null;
}

/**
 * The likely causes of a wait of a call, one after the other: of a queue, whoever made its head wait until that went
 * on, and then those of its own name in front of it, each of which ended right before the next went on.
 */
function likelyCauses(call, from, to) {
  const [name, process] = [nameOf(calls.item[call]), processOfItem(calls.item[call])];
  const within = Math.max(0, ...run.patterns.filter(({ waiter }) => waiter === name).map((one) => one.within_ns));
  const found = [];
  for (let at = to; within > 0 && found.length < MOST_QUEUED;) {
    const cause = likelyCause(name, process, at - from, [at, at]);
    if (cause) return [{ from, to: at, state: 'likely', ...cause }, ...found];
    const before = lastBetween(callsByEnd(name).get(process), at - within, at);
    const wait = before === undefined || !calls.long[callOf(before)] ? null : longestWait(callOf(before));
    if (!wait || wait[1] >= at || wait[1] <= from) break;
    found.unshift({ from: wait[1], to: at, state: 'behind', by: name, target: before, among: 1 });
    at = wait[1];
  }
  return [];
}

/** From the end of a poll to the start of the next, where that takes longest; null where there is none. */
function longestWait(call) {
  const polls = pollsOf(call);
  const waits = Array.from(polls.subarray(1), (poll, index) => [run.end[polls[index]], run.start[poll]]);
  return waits.reduce((a, b) => (a && a[1] - a[0] >= b[1] - b[0] ? a : b), null);
}

/** Few waits, or many of them by chance, are weak evidence. */
function surely({ waits, by_chance: chance }) {
  return waits < FEW_WAITS || chance * 10 > waits ? 'probably' : 'most likely';
}

function evidenceOf({ waits, of, by_chance: chance, value }) {
  const such = integer(waits) + ' of ' + integer(of) + ' such waits ended right after one';
  return such + (value ? ' with ' + value : '') + ', ' + integer(chance) + ' would by chance';
}

/** The segments of a time, each as long as its part of it that `known` does not cover; and those that do. */
function cut(segments, known) {
  return known.reduce(
    (all, part) =>
      all.flatMap((segment) => {
        const [from, to] = [Math.max(segment.from, part.from), Math.min(segment.to, part.to)];
        if (from >= to || !['wait', 'fresh', 'ready'].includes(segment.state)) return [segment];
        if (segment.state === 'ready' && part.state !== 'worker') return [segment];
        const between = { ...segment, ...part, from, to, path: segment.path };
        return [{ ...segment, to: from }, between, { ...segment, from: to }].filter((one) => one.to > one.from);
      }),
    segments,
  );
}

/** What a thread did in a range between two moments: the innermost ranges, calls of the GPU's API apart. */
function onThread(item, from, to, path, least) {
  const { group } = rowOf(item);
  const found = [];
  const own = (row, owner, call, from, to) => {
    if (to <= from) return;
    const next = run.rows[row.index + 1];
    if (to - from < least || !next || next.group !== group || next.part !== 'ranges') {
      found.push({ from, to, item: owner, path, call });
      return;
    }
    let at = from;
    let inner = firstIndex(next.first, next.last, (index) => run.end[index] > from);
    for (; inner < next.last && run.start[inner] < to; inner++) {
      own(next, owner, call, at, Math.max(at, run.start[inner]));
      const callOfInner = callOf(inner) < 0 ? call : callOf(inner);
      own(next, inner, callOfInner, Math.max(at, run.start[inner]), (at = Math.min(to, run.end[inner])));
    }
    own(next, owner, call, at, to);
  };
  own(rowOf(item), item, callOf(item) < 0 ? path.at(-1) : callOf(item), from, to);
  const parts = apiCallsIn(group, from, to).reduce(
    (all, api) =>
      all.flatMap((one) => {
        const [begin, end] = [Math.max(one.from, run.start[api]), Math.min(one.to, run.end[api])];
        if (begin >= end || one.state === 'cuda') return [one];
        const { call } = one;
        const inside = { from: begin, to: end, state: 'cuda', by: nameOf(api), target: api, among: 1, path, call };
        return [{ ...one, to: begin }, inside, { ...one, from: end }].filter((part) => part.to > part.from);
      }),
    found,
  );
  return parts.flatMap((one) => (one.state ? [one] : inProportion(one)));
}

/** The calls of the GPU's API on a thread between two moments: of each level of nested ones, so many at most. */
function apiCallsIn(group, from, to) {
  const rows = run.rows.filter((row) => row.part === 'api' && row.group === group);
  return rows.flatMap((row) => {
    const first = firstIndex(row.first, row.last, (index) => run.end[index] > from);
    const after = firstIndex(first, Math.min(row.last, first + MOST_SEGMENTS), (index) => run.start[index] >= to);
    return Array.from({ length: after - first }, (_, index) => first + index);
  });
}

/** A part of a range's own time, divided as all of it is: how long each state took is known, and when is not. */
function inProportion(one) {
  let from = one.from;
  return ranIn(one.item).map((state, index, all) => {
    const to = index === all.length - 1 ? one.to : from + state.share * (one.to - one.from);
    const part = { ...one, ...state, from, to };
    from = to;
    return part;
  });
}

/**
 * For which share of a range's own time, without the ranges and calls of the GPU's API inside it, its thread surely
 * ran, surely did not run, and did one of both.
 */
const ranIn = remembered((item) => {
  const row = rowOf(item);
  const next = run.rows[row.index + 1];
  const inside = next && next.group === row.group && next.part === 'ranges' ? next : { first: 0, last: 0 };
  const inApi = (one) => timeOf(common(spanOf(apiCallsIn(row.group, ...intervalOf(one))), [intervalOf(one)]));
  let [own, [on, off]] = [lengthOf(item), cpuOf(item)];
  let api = inApi(item);
  let inner = firstIndex(inside.first, inside.last, (index) => run.end[index] > run.start[item]);
  for (; inner < inside.last && run.start[inner] < run.end[item]; inner++) {
    const [ran, waited] = cpuOf(inner);
    [own, on, off] = [own - lengthOf(inner), on - ran, off - waited];
    if (api > 0) api -= inApi(inner);
  }
  // What may have been in the API is not known to have been beside it.
  const beside = Math.max(own - api, 1);
  on = Math.min(Math.max(on - api, 0), beside);
  off = Math.min(Math.max(off - api, 0), beside - on);
  // The wait may have ended as long before the range as its thread ran meanwhile.
  const ended = [run.end[item] - (lengthOf(item) - off), run.end[item]];
  const likely = off * 2 >= beside && likelyCause(nameOf(item), processOfItem(item), off, ended);
  const states = [
    { state: 'cpu', share: on / beside },
    { state: 'thread', share: 1 - (on + off) / beside },
    { ...(likely ? { state: 'offLikely', ...likely } : { state: 'off' }), share: off / beside },
  ];
  const seen = states.filter(({ share }) => share >= LEAST_SHARE);
  const most = seen.reduce((a, b) => (b.share > a.share ? b : a));
  most.share = 1 - seen.reduce((sum, one) => sum + (one === most ? 0 : one.share), 0);
  return seen;
});

/** Waits for operations that were launched in a call: for those in front of them in their streams, or for them. */
function forGpu(call, from, to) {
  const found = [];
  for (const item of operationsOf(call)) {
    const [start, end] = intervalOf(item);
    const { at } = launchOf(item, rowOf(item));
    if (end <= from || (at ?? start) >= to) continue;
    found.push({ from: start, to: end, state: 'gpu', by: nameOf(item), target: item, among: 1 });
    if (at === null || at >= start) continue;
    const row = rowOf(item);
    const first = firstIndex(row.first, item, (index) => run.end[index] > at);
    for (let before = first; before < item; before++) {
      const [begin, until] = [Math.max(at, run.start[before]), Math.min(start, run.end[before])];
      found.push({ from: begin, to: until, state: 'queued', by: nameOf(before), target: before, among: 1 });
    }
    const free = first < item ? Math.max(at, run.end[item - 1]) : at;
    const other = start - free > SOON_NS ? endedAcross(row, free, start) : undefined;
    if (other !== undefined)
      found.push({ from: free, to: start, state: 'across', by: nameOf(other), target: other, among: 1 });
    if (found.length > MOST_SEGMENTS) break;
  }
  const rank = ({ state }) => (state === 'gpu' ? 0 : 1);
  return found.filter((one) => one.to > one.from).sort((a, b) => rank(a) - rank(b) || a.from - b.from);
}

/** The operation of another stream that ended right before one began, and ran for most of the time it could have. */
function endedAcross({ group, part }, from, to) {
  const deviceOf = (group) => run.groups[group].process + run.groups[group].label.split('stream')[0];
  const isBeside = (row) => row.part === part && row.group !== group && deviceOf(row.group) === deviceOf(group);
  const others = run.rows.filter(isBeside);
  const last = others.map((row) => {
    const item = firstIndex(row.first, row.last, (index) => run.end[index] > to) - 1;
    return item >= row.first && run.end[item] >= to - SOON_NS ? item : -1;
  });
  return last.find((item) => item >= 0 && (to - Math.max(from, run.start[item])) * 2 > to - from);
}

/** What a call did between two moments, in segments. `path`: from the call that is asked for to it. */
function segmentsOf(call, from, to, path, least) {
  const polls = pollsOf(call).filter((poll) => run.end[poll] > from && run.start[poll] < to);
  const children = childrenOf(call).sort((a, b) => run.start[calls.item[a]] - run.start[calls.item[b]]);
  const found = [];
  const inside = { children, next: 0, alive: [], path, least };
  const wait = (from, to, state) => {
    if (to > from) found.push(...waitsIn(call, [from, to], state, inside));
  };
  const all = pollsOf(call);
  const isWhole = run.left_out.short === 0 && run.left_out.lost === 0; // else a poll may be missing
  let at = from;
  for (const poll of polls) {
    const [start, end] = [Math.max(at, run.start[poll]), Math.min(to, run.end[poll])];
    wait(at, start, poll === all[0] && isWhole ? 'fresh' : 'wait');
    if (end > start) found.push(...onThread(poll, start, end, path, least));
    at = Math.max(at, end);
    if (found.length > MOST_SEGMENTS) return [...found, { from: at, to, state: 'more', path, call }];
  }
  const { cancelled, cut: isCut } = detailOf(calls.item[call]);
  // What was polled once and lives on may wait, and be dropped without a poll.
  const isLate = all.length > 1 && at >= run.end[all.at(-1)] && !cancelled && !isCut;
  wait(at, to, isLate ? 'late' : 'wait');
  return cut(found, toldOf(call));
}

/** A wait of a call: in the call inside it that lives longest, where there is one; else for its GPU work. */
function waitsIn(call, [from, to], state, inside) {
  const { children, path, least } = inside;
  const [startOf, endOf] = [(one) => run.start[calls.item[one]], (one) => run.end[calls.item[one]]];
  const found = [];
  let at = from;
  while (at < to) {
    if (found.length > MOST_SEGMENTS) {
      found.push({ from: at, to, state: 'more', path, call });
      break;
    }
    while (inside.next < children.length && startOf(children[inside.next]) <= at)
      inside.alive.push(children[inside.next++]);
    inside.alive = inside.alive.filter((one) => endOf(one) > at);
    const inner = inside.alive.reduce((a, b) => (a >= 0 && endOf(a) >= endOf(b) ? a : b), -1);
    const next = inside.next < children.length ? startOf(children[inside.next]) : to;
    const until = Math.min(to, inner >= 0 ? endOf(inner) : next);
    if (inner < 0) found.push(...ownWait(call, at, until, state, path));
    else if (path.length < MOST_DEPTH && until - at >= least)
      found.push(...segmentsOf(inner, at, until, [...path, inner], least));
    else found.push({ from: at, to: until, state: 'wait', path: [...path, inner], call: inner });
    at = until;
  }
  return found;
}

function ownWait(call, from, to, state, path) {
  const own = cut([{ from, to, state, path, call }], [...toldOf(call), ...forGpu(call, from, to)]);
  const last = own.at(-1);
  return last.state === 'wait' ? [...own.slice(0, -1), ...cut([last], likelyCauses(call, last.from, to))] : own;
}

/** What an item did, from its start to its end, in as few segments as tell it. */
const statesOf = remembered((item) => joined(allStatesOf(item), item));

/**
 * The same in segments that each lie in one call: of a call, its states; of a range, what its thread did. Waits in a
 * call that is the only one in those around it are told of these.
 */
const allStatesOf = remembered((item) => {
  const call = callOf(item);
  const [from, to] = intervalOf(item);
  const least = (to - from) * LEAST_PART;
  if (call < 0 || calls.item[call] !== item) return onThread(item, from, to, [], least);
  let segments = segmentsOf(call, from, to, [call], least);
  let inner = call;
  for (const above of callsAround(call).reverse()) {
    const isAlive = (one) => one !== inner && run.start[calls.item[one]] < to && run.end[calls.item[one]] > from;
    if (childrenOf(above).some(isAlive)) break;
    segments = cut(segments, toldOf(above));
    inner = above;
  }
  return segments;
});

/** Neighbours of one state and cause are one. */
function joined(segments, root) {
  const found = [];
  for (const one of segments) {
    const says = sayState(one, root);
    const last = found.at(-1);
    const isSame = last && last.says === says && last.target === one.target && last.share === one.share;
    if (isSame && one.from - last.to <= 1) last.to = one.to;
    else found.push({ ...one, says });
  }
  return found;
}

/** `waiting in save > append_ledger for compact ledger` */
function sayState({ state, by, item, path, pattern }, root) {
  const places = path.slice(1).map((call) => nameOf(calls.item[call]));
  const isOwn = item === undefined || item === root || (callOf(item) >= 0 && callOf(item) === path.at(-1));
  if (!isOwn) places.push(nameOf(item));
  const { says, cause } = STATES[state];
  const place = places.length ? ' in ' + places.join(' > ') : '';
  return says + place + (pattern ? ', ' + surely(pattern) : '') + (cause ? cause + by : '');
}

/** A state as its segment names it: `mostly off the CPU in save, 62.0 %` where that is so of a part of a range. */
function sayShare({ says, share = 1 }) {
  return share < 1 ? (share < 0.5 ? 'partly ' : 'mostly ') + says + ', ' + percent(share, 1) : says;
}

/** `780.1 ms (96.0 %) waiting in query for compact ledger` */
function saidParts(item, count) {
  const said = ({ time, says }) => human(Math.round(time)) + ' (' + percent(time, lengthOf(item)) + ') ' + says;
  return largestParts(item, count).map(said).join(', ');
}

/** In what a call spent most of its time: the first few of its states, each with its sum, the longest first. */
function largestParts(item, count) {
  const sums = new Map();
  for (const one of statesOf(item)) {
    const sum = sums.get(one.says);
    if (!sum) sums.set(one.says, { ...one, time: one.to - one.from });
    else sum.time += one.to - one.from;
  }
  return [...sums.values()].sort((a, b) => b.time - a.time).slice(0, count);
}
