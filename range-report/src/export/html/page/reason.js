// Why a call took as long as it did, in words.

/** `780.1 ms (96.0 %) waiting in query > wait for a connection` */
function plainReason(call) {
  const { most, share, text } = reasonInWords(call);
  return human(Math.round(most)) + ' (' + percent(share, 1) + ') ' + text;
}

/** A sentence on how the call compares with others of its name, and one on where its time went. */
function showReason(call) {
  const item = calls.item[call];
  const name = nameOf(item);
  const length = lengthOf(item);
  const others = namedItems('calls', name);
  const typical = typicalOf(name);
  const box = element('p', 'reason');
  if (others.length > 1)
    box.append(
      element('strong', '', timesTypical(length, typical)),
      ' (' + human(typical) + ', of ' + integer(others.length) + ' calls on this page). ',
    );
  const { most, share, text, last } = reasonInWords(call);
  box.append('Most of it: ', element('strong', '', human(Math.round(most)) + ' (' + percent(share, 1) + ') ' + text));
  const usual = last !== call ? typicalOf(nameOf(calls.item[last])) : NaN;
  if (usual >= 0) box.append(', which takes ' + human(usual) + ' at the median');
  box.append('.');
  const link = last !== call ? linkTo(calls.item[last], 'Show it') : null;
  if (link) box.append(' ', link);
  return box;
}

function timesTypical(length, typical) {
  const times = length / Math.max(typical, 1);
  if (times >= 1.5) return (times >= 10 ? integer(Math.round(times)) : times.toFixed(1)) + ' times the median';
  return times >= 0.7 ? 'About the median' : 'Less than the median';
}

/** Running, waiting, and how often it was polled. */
function factsOfCall(call) {
  const [start, end] = intervalOf(calls.item[call]);
  const polls = pollsOf(call);
  const running = cover([...polls].map(intervalOf), start, end).covered;
  const threads = new Set([...polls].map((item) => rowOf(item).group)).size;
  const operations = operationsOf(call).map(intervalOf);
  const facts = [
    [
      'running',
      human(running) + ' in ' + counted(polls.length, 'poll', 'polls') + ' on ' + counted(threads, 'thread', 'threads'),
    ],
    ['waiting', human(end - start - running)],
  ];
  if (operations.length)
    facts.push([
      'on the GPU',
      human(cover(operations, 0, Infinity).covered) + ' in ' + counted(operations.length, 'operation', 'operations'),
    ]);
  return facts;
}

/** What is selected: its reason if it is a call that waited, the calls around it, and all that is known of it. */
function fillSelected(target, item) {
  const call = callOf(item);
  const facts = factsOf(item);
  if (call < 0 || calls.item[call] < 0 || !calls.long[call]) {
    fill(target, facts);
    if (call >= 0) target.firstChild.after(trail(call));
    return;
  }
  fill(target, { name: facts.name, facts: [...facts.facts, ...factsOfCall(call)] });
  target.firstChild.after(trail(call), showReason(call));
}

/** The calls around one, as links. */
function trail(call) {
  const around = callsAround(call).map((above) => calls.item[above]);
  const links = around.flatMap((item) => [' \u203a ', linkTo(item, nameOf(item))]);
  return element('span', 'quiet', ...(links.length ? [' in ', ...links.slice(1)] : []));
}
