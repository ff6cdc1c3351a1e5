// The lines of the timeline from top to bottom: lanes of calls, threads, streams; which are folded, and where each is.

const GAP = 9;
const HEADER = 20;
const HEIGHTS = { marks: 14, ranges: 19, lifetimes: 17, api: 15, projections: 17, operations: 19, idle: 19 };
/** Threads of one name are folded at first where there are more than this, or where calls are drawn above them. */
const FEW_THREADS = 4;
/** More processes are folded at first. */
const FEW_PROCESSES = 4;
/** A folded process is so high, whatever is in it. */
const FOLDED_PROCESS = 18;

const folds = new Map();

function isFolded(group) {
  return folds.get(group.key) ?? group.foldedAtFirst ?? false;
}

function fold(group, folded = !isFolded(group)) {
  folds.set(group.key, folded);
  layOutAgain();
}

/** What is shown as one: the calls, and of each process threads of one name, a thread, a stream. */
function readGroups() {
  const all = run.groups.filter(({ kind }) => kind !== 'calls');
  const ofProcesses = run.processes.flatMap((_, process) => groupsOfProcess(all, process));
  const groups = ofProcesses.length ? ofProcesses : groupsIn(all);
  if (calls.roots.length) groups.unshift(...groupsOfCalls());
  return groups;
}

/** The heading of a process, and what it folds. */
function groupsOfProcess(all, process) {
  const parts = all.filter((group) => group.process === process);
  if (!parts.length) return [];
  const heading = { label: run.processes[process], parts, kind: 'process', key: 'process ' + process };
  heading.foldedAtFirst = run.processes.length > FEW_PROCESSES;
  return [heading, ...groupsIn(parts, 'process ' + process + ' ').map((group) => ({ ...group, heading }))];
}

function groupsIn(parts, key = '') {
  const groups = [];
  const byName = new Map();
  for (const group of parts) {
    const name = group.kind === 'thread' ? run.threads[group.thread] : undefined;
    if (!name || !byName.has(name)) {
      const made = { label: group.label, parts: [group], kind: group.kind };
      groups.push(made);
      if (name) byName.set(name, made);
    } else {
      byName.get(name).parts.push(group);
    }
  }
  for (const group of groups) {
    if (group.parts.length < 2) continue;
    group.name = run.threads[group.parts[0].thread];
    group.key = key + 'threads ' + group.name;
    group.foldedAtFirst = group.parts.length > FEW_THREADS || calls.roots.length > 0;
    group.label = group.name + ' \u00d7 ' + group.parts.length;
  }
  return groups;
}

/** Gives each line its place, and each row of items the line that it is on. */
function layOutRows() {
  timeline.all ??= readGroups();
  timeline.groups = timeline.all.filter(({ heading }) => !heading || !isFolded(heading));
  timeline.lines = [];
  timeline.nextY = RULER + 4;
  const put = (line) => {
    line.y = timeline.nextY;
    timeline.nextY += line.height + (line.gap ?? 1);
    timeline.lines.push(line);
    return line;
  };
  for (const group of timeline.groups) {
    if (timeline.lines.length) timeline.nextY += group.kind === 'process' && isFolded(group) ? GAP / 3 : GAP;
    group.y = timeline.nextY;
    group.labels = [];
    if (group.kind === 'process' && !isFolded(group)) timeline.nextY += HEADER - GAP;
    else if (group.kind === 'calls') layOutCalls(group, put);
    else if (group.kind === 'process') layOutFolded(group, FOLDED_PROCESS, put);
    else if (group.parts.length > 1) layOutThreads(group, put);
    else layOutTracks(group, group.parts[0], put);
    timeline.nextY = group.bottom = Math.max(timeline.nextY, group.y + HEADER);
  }
  timeline.contentHeight = timeline.nextY + 6;
}

function lineFor(row, group) {
  return {
    rows: [row],
    part: row.part,
    level: row.level,
    group,
    ids: null,
    first: row.first,
    last: row.last,
    height: HEIGHTS[row.part],
  };
}

function layOutTracks(group, part, put) {
  for (const track of part.tracks) {
    track.rows.forEach((row, index) => {
      row.line = put(lineFor(row, part));
      const label = index === 0 && track !== part.tracks[0] && PART_LABELS[track.part];
      if (label) group.labels.push({ text: label, y: row.line.y + row.line.height / 2 });
    });
  }
}

/** Threads of one name: folded, a low line for the outermost ranges of each. */
function layOutThreads(group, put) {
  if (isFolded(group)) return layOutFolded(group, 160, put);
  timeline.nextY += HEADER;
  for (const part of group.parts) {
    layOutTracks(group, part, put);
    const first = part.tracks[0].rows[0].line;
    group.labels.push({ text: part.label, y: first.y + first.height / 2, own: true });
    timeline.nextY += 3;
  }
}

/** A low line for the outermost ranges of each thread, and for what each stream ran. */
function layOutFolded(group, room, put) {
  const height = Math.max(2, Math.min(10, Math.floor(room / group.parts.length)));
  for (const part of group.parts) {
    const isMain = ({ part }) => part === 'ranges' || part === 'operations';
    const main = part.tracks.find(isMain) ?? part.tracks[0];
    const line = put({ ...lineFor(main.rows[0], part), rows: main.rows, height });
    for (const track of part.tracks) for (const row of track.rows) row.line = line;
  }
}

/** Lanes of calls, or folded how many there are; and below the slowest what is inside the selected one. */
function layOutCalls(group, put) {
  const lane = (ids, height) => {
    put({ part: 'calls', level: 0, group, ids, first: 0, last: ids.length, height, gap: height > 6 ? 1 : 0 });
    for (const item of ids) if (item < group.last) timeline.lanes[item] = timeline.lines.length - 1;
  };
  const isFirst = group === timeline.groups[0];
  if (isFirst) timeline.lanes = new Int32Array(group.last).fill(-1);
  if (isFolded(group)) {
    put({ part: 'flight', level: 0, group, ids: null, first: 0, last: 0, height: 34 });
    for (const ids of group.lanes) {
      for (const item of ids)
        if (item < group.last && timeline.lanes[item] < 0) timeline.lanes[item] = timeline.lines.length - 1;
    }
  } else {
    for (const ids of group.lanes) lane(ids, group.height);
  }
  if (!isFirst || !(traced?.open.length || traced?.suspects.length)) return;
  timeline.nextY = Math.max(timeline.nextY + 5, group.y + HEADER);
  const own = calls.item[traced.call];
  const isApart = timeline.lines[timeline.lanes[own]]?.part !== 'calls';
  if (isApart || traced.open.length)
    group.labels.push({ text: 'the selected call', y: timeline.nextY + 9, accent: true });
  if (isApart) lane([own], HIGH_LANE);
  for (const ids of traced.open) lane(ids, HIGH_LANE);
  if (!traced.suspects.length) return;
  timeline.nextY += 5;
  group.labels.push({ text: 'held it up', y: timeline.nextY + 9, accent: true });
  for (const ids of traced.suspects)
    put({ part: 'ranges', level: 0, group, ids, first: 0, last: ids.length, height: HIGH_LANE });
}

/** The line on which an item is drawn, or null. */
function lineOf(item) {
  const row = rowOf(item);
  return row.part === 'calls' ? (timeline.lines[timeline.lanes[item]] ?? null) : (row.line ?? null);
}

function groupOfThread(thread) {
  return run.groups.find((group) => group.kind === 'thread' && group.thread === thread);
}

/** The ranges that a thread has open at a moment, the outermost first. */
function rangesAt(thread, at) {
  const tracks = groupOfThread(thread)?.tracks.filter((track) => track.part === 'ranges') ?? [];
  return tracks.flatMap((track) =>
    track.rows.flatMap((row) => {
      const item = firstIndex(row.first, row.last, (index) => run.end[index] >= at);
      return item < row.last && run.start[item] <= at ? [item] : [];
    }),
  );
}

/** The line of the innermost range of a thread at a moment. */
function lineOfThread(thread, at) {
  const innermost = rangesAt(thread, at).at(-1);
  if (innermost !== undefined) return lineOf(innermost);
  return groupOfThread(thread)?.tracks.at(-1).rows.at(-1).line ?? null;
}

/** The items of a line in the order of time: at an index of it, which. */
function itemOn(line, index) {
  return line.ids ? line.ids[index] : index;
}

/** After something was folded or opened: what was at a height stays there, if an item is given. */
function layOutAgain(item = -1) {
  const before = item >= 0 ? lineOf(item)?.y : undefined;
  layOutRows();
  const after = item >= 0 ? lineOf(item)?.y : undefined;
  resizeTimeline();
  if (before !== undefined && after !== undefined) timeline.scroller.scrollTop += after - before;
  redraw();
}
