// Why a call took as long as it did, in words.

/** Calls of a name that are looked at to learn what is usual inside them. */
const SAMPLED_CALLS = 200;
/** A call that differs from the median by less than so many percent took about the median. */
const NEAR_MEDIAN = 5;

/** Intervals in their order, as few as they can be. */
function merged(intervals) {
  const found = [];
  for (const [from, to] of intervals.sort((a, b) => a[0] - b[0])) {
    const last = found[found.length - 1];
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else found.push([from, to]);
  }
  return found;
}

/** What two such lists have in common. */
function common(list, other) {
  const found = [];
  for (let i = 0, j = 0; i < list.length && j < other.length;) {
    const [from, to] = [Math.max(list[i][0], other[j][0]), Math.min(list[i][1], other[j][1])];
    if (to > from) found.push([from, to]);
    if (list[i][1] < other[j][1]) i++;
    else j++;
  }
  return found;
}

function timeOf(list) {
  return list.reduce((sum, [from, to]) => sum + to - from, 0);
}

function spanOf(items) {
  return merged([...items].map(intervalOf));
}

/** How long any of many items lasted. Before the next begins, as many have ended as have begun where none lasts. */
function coveredBy(items) {
  const [starts, ends] = [run.start, run.end].map((column) => Float64Array.from(items, (item) => column[item]).sort());
  let time = items.length ? ends.at(-1) - starts[0] : 0;
  for (let index = 1; index < items.length; index++) time -= Math.max(0, starts[index] - ends[index - 1]);
  return time;
}

/** How long threads surely ran, and surely did not, in these items. */
function cpuIn(items) {
  return items.map(cpuOf).reduce(([on, off], [ran, waited]) => [on + ran, off + waited], [0, 0]);
}

/** The calls directly inside some, by the texts of their names. */
function familiesIn(within) {
  return Map.groupBy(within.flatMap(childrenOf).slice(0, MOST_INSIDE), (one) => run.name[calls.item[one]]);
}

/** How long what has a name takes in all inside a call of a name, and how many they are: the medians of some. */
const usualInside = remembered((text) => {
  const items = callsNamed(run.texts[text]);
  const step = Math.max(1, Math.floor(items.length / SAMPLED_CALLS));
  const sampled = [...items.filter((_, index) => index % step === 0)];
  const figures = ([name, family]) => [name, timeOf(spanOf(family.map((one) => calls.item[one]))), family.length];
  const all = sampled.flatMap((item) => [...familiesIn([callOf(item)])].map(figures));
  // Where it is not in most of the calls, the median is none.
  const median = (list) => quantileOf([...list, ...new Array(sampled.length - list.length).fill(0)], 0.5);
  const medians = (list) => [1, 2].map((index) => median(list.map((one) => one[index])));
  return new Map([...Map.groupBy(all, ([name]) => name)].map(([name, list]) => [name, medians(list)]));
});

/**
 * Where the time of a call went. From it down to the calls of one name inside, as long as these explain more than all
 * else: of a call that takes longer than others of its name, by what they take more than is usual in it; of others, by
 * what they take. Then the state in which most of the time of the last was, as the strip has it.
 */
function reasonOf(call) {
  let step = { calls: [call], time: spanOf([calls.item[call]]), usual: typicalOf(nameOf(calls.item[call])) };
  const path = [step];
  const whole = Math.max(1, timeOf(step.time));
  for (;;) {
    const next = heaviest(step);
    if (!next) break;
    path.push((step = next));
  }
  // What is too short to be looked into counts for the call around it.
  const statesIn = ({ calls: family }) => largestIn(calls.item[call], new Set(family));
  const last = path.findLast((one) => statesIn(one)) ?? path[0];
  const [verb, most] = statesIn(last) ?? ['waiting', 0];
  const named = ({ calls: family }) =>
    nameOf(calls.item[family[0]]) + (family.length > 1 ? ' \u00d7 ' + integer(family.length) : '');
  const inner = path.slice(1, path.indexOf(last) + 1);
  const place = inner.length ? ' in ' + inner.map(named).join(' > ') : '';
  return { most, share: most / whole, text: verb + place, last };
}

/** The state in which most of an item's time in some calls was, and how long. */
function largestIn(item, family) {
  const sums = new Map();
  for (const { state, call, from, to } of allStatesOf(item)) {
    const { says } = STATES[state];
    if (family.has(call)) sums.set(says, (sums.get(says) ?? 0) + to - from);
  }
  return [...sums].sort((a, b) => b[1] - a[1])[0];
}

/** Of the calls of each name inside some, those that explain most of their time; null where it is their own. */
function heaviest({ calls: within, time, usual }) {
  const taken = timeOf(time);
  const isSlow = taken > 1.3 * usual;
  const usually = usualInside(run.name[calls.item[within[0]]]);
  let best = null;
  let explained = 0;
  for (const [name, family] of familiesIn(within)) {
    const part = common(spanOf(family.map((one) => calls.item[one])), time);
    const [expected, count] = (usually.get(name) ?? [0, 0]).map((one) => within.length * one);
    const weight = isSlow ? Math.max(0, timeOf(part) - expected) : timeOf(part);
    explained += weight;
    if (!best || weight > best.weight) best = { calls: family, time: part, usual: expected, count, weight, within };
  }
  return best && best.weight > 0 && best.weight >= (isSlow ? taken - usual : taken) - explained ? best : null;
}

/** After a reason: how several calls lie to each other, and what is usual of them, in time and number. */
function usuallySays({ calls: family, time, usual, count, within }) {
  const sum = family.reduce((all, one) => all + lengthOf(calls.item[one]), 0);
  const together = sum / Math.max(1, timeOf(time));
  const order = together < 1.05 ? ', one after another' : together > 1.5 ? ', at the same time' : '';
  const [around, inside] = [within[0], family[0]].map((one) => nameOf(calls.item[one]));
  const often = count === family.length ? '' : '\u00d7 ' + integer(count) + ', ';
  const usually = count
    ? ', usually ' + often + human(Math.round(usual))
    : '. Most calls of ' + around + ' have no ' + inside;
  return (family.length > 1 ? order : '') + usually + '. ';
}

/** `780.1 ms (96.0 %) waiting in query > wait for a connection` */
function plainReason(call) {
  const { most, share, text } = reasonOf(call);
  return human(Math.round(most)) + ' (' + percent(share, 1) + ') ' + text;
}

/** A sentence on how the call compares with others of its name, and one on where its time went. */
function showReason(call) {
  const item = calls.item[call];
  const length = lengthOf(item);
  const others = callsNamed(nameOf(item));
  const typical = typicalOf(nameOf(item));
  const box = element('p', 'reason');
  if (others.length > 1)
    box.append(
      element('strong', '', timesTypical(length, typical)),
      ' (' + human(typical) + ', of ' + integer(others.length) + ' calls on this page). ',
    );
  const { share, last } = reasonOf(call);
  const [inside] = last.calls;
  const isSlow = length > 1.3 * typical;
  const begins = share >= 0.5 ? 'Most of it: ' : isSlow ? 'What took longer: ' : 'The largest part: ';
  box.append(begins, element('strong', '', plainReason(call)));
  if (inside === call) return box;
  box.append(usuallySays(last), toInside(last.calls));
  return box;
}

/** Shows calls inside what is selected, all of them. It stays selected, so that all of it stays drawn and told of. */
function toInside(inside) {
  const items = inside.map((one) => calls.item[one]);
  const span = spanOf(items);
  const [from, to] = [span[0][0], span.at(-1)[1]];
  const showIt = () => {
    show(from - (to - from) * 0.15, to + (to - from) * 0.15);
    bringUp(items[0]);
  };
  return buttonFor(showIt, '', 'Show it');
}

function timesTypical(length, typical) {
  const times = length / Math.max(typical, 1);
  if (times >= 1.5) return (times >= 10 ? integer(Math.round(times)) : times.toFixed(1)) + ' times the median';
  const more = Math.round(100 * times) - 100;
  if (Math.abs(more) < NEAR_MEDIAN) return 'About the median';
  return Math.abs(more) + ' % ' + (more > 0 ? 'above' : 'below') + ' the median';
}

/** Whether processor time was measured. */
const knowsCpu = remembered(() => [run.onCpu, run.offCpu].some((column) => column.some((known) => known > 0)));

/** Time on threads, waiting, and how often it was polled. */
function factsOfCall(call) {
  const [start, end] = intervalOf(calls.item[call]);
  const polls = pollsOf(call);
  const onThread = timeOf(common(spanOf(polls), [[start, end]]));
  const threads = new Set([...polls].map((item) => rowOf(item).group)).size;
  const [onCpu, offCpu] = cpuIn([...polls]).map(human);
  const cpu = knowsCpu() ? ', ' + onCpu + ' of it on the CPU, ' + offCpu + ' off it' : '';
  const operations = operationsOf(call);
  const facts = [
    [
      'on a thread',
      human(onThread) +
        ' in ' +
        counted(polls.length, 'poll', 'polls') +
        ' on ' +
        counted(threads, 'thread', 'threads') +
        cpu,
    ],
    ['waiting', human(end - start - onThread)],
  ];
  if (operations.length)
    facts.push([
      'on the GPU',
      human(timeOf(spanOf(operations))) + ' in ' + counted(operations.length, 'operation', 'operations'),
    ]);
  return facts;
}

/** What is selected: the calls around it, why it took as long if there is something inside it, and its facts. */
function fillSelected(target, item) {
  const call = callOf(item);
  const { name, facts, around } = factsOf(item);
  const { part } = rowOf(item);
  const isCall = call >= 0 && calls.item[call] >= 0;
  fill(target, { name, facts: isCall && calls.long[call] ? [...facts, ...factsOfCall(call)] : facts, around });
  if (part === 'ranges' || part === 'calls') target.append(idleOfRange(name));
  target.prepend(crumbs());
  const own = isCall ? calls.item[call] : item;
  const strip = part === 'ranges' || part === 'calls' ? stripOf(own) : [];
  target.querySelector('strong').after(...strip, lateLine(item));
  if (!isCall) return;
  const hasInside = calls.long[call] || calls.size[call] > 1 || itemsInside(call).length > 1;
  const launches = item >= firstOnStream ? [call] : [];
  const outer = [...callsAround(call), ...launches].map((above) => calls.item[above]);
  const linked = [linkedLine('in batch', links.batches, call), linkedLine('serves', links.served, call)];
  const reason = hasInside && item < firstOnStream ? showReason(call) : '';
  target.querySelector('strong').after(trail(outer), ...strip, reason, ...linked);
  compareByFields(target, calls.item[call]);
}

/** Makes the names of fields buttons that compare the calls of a name by each. */
function compareByFields(target, item) {
  const fields = new Set((detailOf(item).fields ?? []).map(([name]) => name));
  if (callsNamed(nameOf(item)).length < 2) return;
  for (const label of target.querySelectorAll('dt')) {
    const field = label.textContent;
    if (!fields.has(field)) continue;
    const button = buttonFor(() => showValues(item, field), 'by', field);
    button.title = 'p50 and p99 of all calls of this name by ' + field;
    label.replaceChildren(button);
  }
}

/** How long the calls of a name took, by the values of a field: those with the highest p99 first. */
function showValues(item, field) {
  const name = nameOf(item);
  const valueOf = remembered((text) => {
    const pair = (detailOf(text).fields ?? []).find(([other]) => other === field);
    return pair ? pair[1] : 'none';
  });
  const firstWith = new Map(); // equal details have one text: each is read once
  const keyOf = (one) => firstWith.get(run.detail[one]) ?? (firstWith.set(run.detail[one], one), one);
  const values = [...Map.groupBy(callsNamed(name), (one) => valueOf(keyOf(one)))].map(([value, items]) => {
    const lengths = lengthsOf(items);
    return { value, count: items.length, p50: quantileOf(lengths, 0.5), p99: quantileOf(lengths, 0.99) };
  });
  values.sort((a, b) => b.p99 - a.p99);
  const rows = values.slice(0, AREA_ROWS).map(({ value, count, p50, p99 }) => {
    const button = buttonFor(() => searchFor(name + ' ' + field + '=' + value), 'name', value);
    const cells = [integer(count), human(p50), human(p99)].map((cell) => element('td', 'figure', cell));
    return element('tr', '', element('th', '', button), ...cells);
  });
  const titles = [field, 'Calls', 'p50', 'p99'].map((title, index) => element('th', index ? 'figure' : '', title));
  const table = element('table', '', element('thead', '', element('tr', '', ...titles)), element('tbody', '', ...rows));
  const more = values.length - rows.length;
  const rest = more > 0 ? [element('p', 'quiet', 'and ' + counted(more, 'more value', 'more values'))] : [];
  const head = element('strong', '', name + ' by ' + field + ', as far as its calls are on this page');
  byId('details').replaceChildren(head, table, ...rest);
  table.querySelector('button').focus({ preventScroll: true });
}

/** Batches and what they serve that are listed. */
const MOST_LISTED = 20;

/** A line with the batches of a call, or with what it serves, as links; empty where there are none. */
function linkedLine(words, map, call) {
  const all = linkedIn(map, call).map((one) => calls.item[one]);
  if (!all.length) return '';
  const shown = all.slice(0, MOST_LISTED).map((item) => linkTo(item, nameOf(item) + ' ' + human(lengthOf(item))));
  const more = all.length > MOST_LISTED ? ', and ' + integer(all.length - MOST_LISTED) + ' more' : '';
  const count = all.length > 1 ? ' ' + integer(all.length) : '';
  const listed = shown.flatMap((link, index) => [index ? ', ' : '', link]);
  return element('p', 'linked', words + count + ': ', ...listed, more);
}

/** What is around an item, from the outermost on, as links. */
function trail(around) {
  const links = around.flatMap((item) => [' \u203a ', linkTo(item, nameOf(item))]);
  return element('span', 'quiet', ...(links.length ? [' in ', ...links.slice(1)] : []));
}
