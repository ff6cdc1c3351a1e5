// What there is to say of a range, an operation or a phase: in the tooltip, and below the timeline.

const LEVELS = ['', 'error', 'warn', 'info', 'debug', 'trace'];
const KINDS = {
  ranges: 'range',
  lifetimes: 'lifetime (start/end)',
  calls: 'call',
  api: 'CUDA API call',
  projections: 'range, projected',
  operations: 'GPU operation',
  idle: 'GPU idle',
  marks: 'event',
};

/** Name, pairs of a label and a value, and for idle time the ranges around it. */
function factsOf(item) {
  const row = rowOf(item);
  const length = lengthOf(item);
  const detail = detailOf(item);
  const facts = [];
  const add = (label, value) =>
    value !== undefined && value !== null && value !== '' && facts.push([label, String(value)]);
  if (row.part !== 'marks') add('duration', human(length) + (length >= 1000 ? ' (' + integer(length) + ' ns)' : ''));
  add('start', human(run.start[item]));
  add('process', run.processes[processOfItem(item)]);
  if (row.part !== 'calls') add(run.groups[row.group].kind, run.groups[row.group].label);
  if (row.part !== 'idle') add('kind', kindOf(item, row) + (detail.cut ? ', open at the end and cut there' : ''));
  add('began', utcOf(run.start[item]));
  if (detail.cancelled) add('ended', 'cancelled: dropped while it waited');
  if (row.part === 'marks') add('level', LEVELS[row.level]);
  add('category', detail.category);
  add('payload', detail.payload);
  for (const [name, value] of detail.fields || []) add(name || 'fields', value);
  if (detail.more_fields) add('and', counted(detail.more_fields, 'more field', 'more fields'));
  if (detail.ended_on !== undefined) add('ended on', threadName(detail.ended_on));
  add('API', detail.api);
  if (detail.result) add('result', 'error ' + detail.result);
  const launch = launchOf(item, row);
  if (launch) {
    add('grid', detail.grid);
    add('block', detail.block);
    add('registers', detail.registers);
    if (detail.shared_bytes) add('shared memory', humanBytes(detail.shared_bytes));
    if (launch.bytes) add('bytes', humanBytes(launch.bytes) + ' (' + integer(launch.bytes) + ')');
    if (launch.bytes && length) add('speed', (launch.bytes / length).toFixed(2) + ' GB/s');
    if (detail.from || detail.to) add('memory', [detail.from, detail.to].filter(Boolean).join(' to '));
    add('set to', detail.set_to);
    add('launched by', launch.span || (launch.at === null ? '' : 'no span'));
    if (launch.at !== null)
      add('launched', human(run.start[item] - launch.at) + ' before, on ' + threadName(launch.thread));
    add('graph node', detail.graph_node);
    add('correlation', launch.correlation);
  }
  // Idle time that follows a wait belongs to the ranges that were open when the wait began.
  const moment = detail.waited ? run.start[item] - detail.waited : (run.start[item] + run.end[item]) / 2;
  const around = row.part === 'idle' ? rangesAt(detail.thread, moment) : null;
  if (around) {
    if (!around.length) add('in', 'no range');
    add('before', detail.ended_by);
    add('launched on', detail.thread === undefined ? 'a thread that is not known' : threadName(detail.thread));
  }
  return { name: nameOf(item), facts, around };
}

/** Of a range of a future: which poll. */
function kindOf(item, row) {
  const call = callOf(item);
  if (row.part !== 'ranges' || call < 0 || !calls.long[call]) return KINDS[row.part];
  const polls = pollsOf(call);
  return 'poll ' + integer(polls.indexOf(item) + 1) + ' of ' + integer(polls.length);
}

function threadName(number) {
  const name = run.threads[number];
  return name ? name + ' (' + number + ')' : 'thread ' + number;
}

function fill(target, { name, facts, around }) {
  const list = element('dl', '');
  for (const [label, value] of facts)
    list.append(element('div', '', element('dt', '', label), element('dd', '', value)));
  target.replaceChildren(element('strong', '', name), around ? trail(around) : '', list);
}

/** Beside a point of the window, inside it. */
function showTip(content, x, y) {
  const tip = byId('tip');
  fill(tip, content);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const beside = x + 16 + width < innerWidth ? x + 16 : x - 16 - width;
  const below = y + 18 + height < innerHeight ? y + 18 : y - 12 - height;
  tip.style.transform = `translate(${Math.max(4, beside)}px, ${Math.max(4, below)}px)`;
}

function hideTip() {
  byId('tip').hidden = true;
}
