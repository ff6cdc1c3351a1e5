// A call that is selected: its ranges on threads and its work on streams are drawn over all else, which is dim, with
// links from each to the next.

/** Links that are drawn. */
const MOST_LINKS = 2000;
/** Calls inside that have links of their own. */
const LINKED_CALLS = 1000;

/** Batches of the selected call that are shown with it, or calls that it serves. */
const MOST_LINKED = 500;

/** What belongs to the selected call; null where nothing does. */
let traced = null;

/** Follows the call of an item. */
function trace(item) {
  const call = callOf(item);
  const before = traced;
  if (call < 0 || calls.item[call] < 0) traced = null;
  else if (!traced || traced.call !== call) traced = followed(call);
  const isShort = traced && !calls.long[call] && traced.items.length < 2;
  const isAlone = isShort && !traced.linked.length && !traced.suspects.length;
  if (isAlone) traced = null;
  if (traced !== before && [traced, before].some((one) => one?.open.length || one?.suspects.length)) layOutAgain(item);
}

function followed(call) {
  const batches = linkedIn(links.batches, call).slice(0, MOST_LINKED);
  const served = linkedIn(links.served, call).slice(0, MOST_LINKED);
  const linked = [...batches, ...served];
  const own = itemsInside(call);
  const ofLinked = linked.flatMap((one) => [calls.item[one], ...pollsOf(one)]);
  const items = inOrder(linked.length ? Uint32Array.from(new Set([...own, ...ofLinked])) : own);
  const isLong = calls.long[call] || callsInside(call, 200).some((inner) => calls.long[inner]);
  const operations = run.rows
    .filter((row) => row.part === 'operations')
    .flatMap((row) => {
      const { first, last } = among(items, row);
      return [...items.subarray(first, Math.min(last, first + MOST_LINKS))];
    });
  const toBatches = [...batches.map((batch) => [batch, call]), ...served.map((one) => [call, one])];
  return {
    call,
    items,
    operations,
    links: [...linksOf(call), ...toBatches.map(linkOfBatch)],
    open: isLong ? lanesInside(call) : [],
    linked: linked.map((one) => calls.item[one]),
    suspects: packed(suspectsOf(calls.item[call])),
  };
}

/** From a call to the batch that serves it, when that begins: from the poll before, where the call is not drawn. */
function linkOfBatch([batch, call]) {
  const [to, item] = [pollsOf(batch)[0] ?? calls.item[batch], calls.item[call]];
  const until = run.start[to];
  const from = lineOf(item) ? item : (pollsOf(call).findLast((poll) => run.start[poll] <= until) ?? item);
  return { from, at: Math.min(Math.max(until, run.start[from]), run.end[from]), to, until, kind: 'batch' };
}

/** Items by their numbers, which is by rows and time. */
function inOrder(items) {
  if (items.length < 50000) return items.slice().sort();
  const has = new Uint8Array(run.count);
  for (const item of items) has[item] = 1;
  const sorted = new Uint32Array(items.length);
  let count = 0;
  for (let item = 0; item < run.count; item++) if (has[item]) sorted[count++] = item;
  return sorted;
}

/** From poll to poll, from a call to one inside it that runs on another thread, from launch to work. */
function linksOf(call) {
  const links = [];
  const all = [call, ...callsInside(call, LINKED_CALLS)];
  for (const one of all) {
    if (links.length > MOST_LINKS) break;
    const polls = pollsOf(one);
    for (let index = 1; index < polls.length && index < MOST_LINKS; index++) {
      const [from, to] = [polls[index - 1], polls[index]];
      links.push({ from, at: run.end[from], to, until: run.start[to], kind: 'poll' });
    }
    const above = calls.parent[one];
    if (one === call || !polls.length || above < 0) continue;
    const [first, began] = [polls[0], run.start[calls.item[one]]];
    const from = pollsOf(above).findLast((poll) => run.start[poll] <= began);
    if (from !== undefined && rowOf(from).group !== rowOf(first).group)
      links.push({ from, at: Math.min(began, run.end[from]), to: first, until: run.start[first], kind: 'call' });
  }
  return links;
}

/** Which of these sorted items are on a row. */
function among(items, row) {
  const first = firstIndex(0, items.length, (index) => items[index] >= row.first);
  return { ids: items, first, last: firstIndex(first, items.length, (index) => items[index] >= row.last) };
}

/** As what belongs to the selected call is drawn. */
const WHOLE = { fades: false, whole: true };

/** Draws over the dim timeline what belongs to the selected call, whatever a search finds. */
function drawTraced(context, top, lines) {
  const item = calls.item[traced.call];
  for (const line of lines) {
    const y = line.y - top;
    if (traced.open.includes(line.ids) || traced.suspects.includes(line.ids)) drawRow(context, line, y, WHOLE);
    else if (line.part === 'calls') {
      const ids = [item, ...traced.linked].filter((one) => lineOf(one) === line);
      ids.sort((a, b) => run.start[a] - run.start[b]);
      drawRow(context, { ...line, ids, first: 0, last: ids.length }, y, WHOLE);
    } else for (const row of line.rows ?? []) drawRow(context, { ...line, ...among(traced.items, row) }, y, WHOLE);
  }
  drawLinks(context, top);
}

function drawLinks(context, top) {
  context.strokeStyle = theme.accent;
  context.lineWidth = 1;
  context.globalAlpha = 0.75;
  context.beginPath();
  for (const { from, at, to, until } of traced.links) {
    if (until < timeline.from || at > timeline.to) continue;
    const [one, other] = [lineOf(from), lineOf(to)];
    if (!one || !other) continue;
    const start = [xOf(at), one.y + one.height / 2 - top];
    const end = [xOf(until), other.y + other.height / 2 - top];
    if (one === other && end[0] - start[0] < 3) continue;
    curve(context, start, end);
  }
  for (const item of traced.operations) {
    const { thread, at } = launchOf(item, rowOf(item));
    if (at === null || run.start[item] < timeline.from || at > timeline.to) continue;
    const [one, other] = [lineOfThread(thread, at), lineOf(item)];
    if (one && other) curve(context, [xOf(at), one.y + one.height - top], [xOf(run.start[item]), other.y - top]);
  }
  context.stroke();
  context.globalAlpha = 1;
}

/** From left to right, or down where there is no room between. */
function curve(context, [x, y], [toX, toY]) {
  const bend = Math.max(Math.min((toX - x) / 2, 60), 8);
  context.moveTo(x, y);
  context.bezierCurveTo(x + bend, y, toX - bend, toY, toX, toY);
}
