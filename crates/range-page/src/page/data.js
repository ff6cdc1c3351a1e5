// Reads what the profiler wrote: names and tables as JSON, items as columns of numbers.

/** Numbers of seven bits a byte, the lowest first, in base 64. */
function numbersIn(id, into) {
  const text = atob(byId('column-' + id).textContent);
  if (!text) return into;
  let at = 0;
  for (let i = 0; i < into.length; i++) {
    let byte = text.charCodeAt(at++);
    let number = byte & 0x7f;
    for (let scale = 128; byte > 127; scale *= 128) {
      byte = text.charCodeAt(at++);
      number += (byte & 0x7f) * scale;
    }
    into[i] = number;
  }
  return into;
}

/** Each number as its difference to the one before: 0, -1, 1, -2, ... as 0, 1, 2, 3, ... */
function differencesIn(id, into) {
  numbersIn(id, into);
  let number = 0;
  for (let i = 0; i < into.length; i++) {
    number += into[i] % 2 === 1 ? -(into[i] + 1) / 2 : into[i] / 2;
    into[i] = number;
  }
  return into;
}

/**
 * The items, a column for each thing known of them. They stand in the order of rows, and by time on each row, where no
 * two overlap. An item is known by its index.
 */
function readRun() {
  const run = JSON.parse(byId('data').textContent);
  run.rows = [];
  let count = 0;
  let operations = 0;
  run.groups.forEach((group, g) => {
    for (const track of group.tracks) {
      track.rows = track.rows.map(([level, length]) => {
        const row = {
          index: run.rows.length,
          group: g,
          part: track.part,
          level,
          first: count,
          last: count + length,
          launch: -1,
        };
        if (track.part === 'operations') {
          row.launch = operations;
          operations += length;
        }
        run.rows.push(row);
        count += length;
        return row;
      });
    }
  });
  run.count = count;
  run.start = numbersIn('start', new Float64Array(count));
  run.end = numbersIn('length', new Float64Array(count));
  run.name = numbersIn('name', new Uint32Array(count));
  run.detail = numbersIn('detail', new Uint32Array(count));
  run.onCpu = numbersIn('on-cpu', new Float64Array(count));
  run.offCpu = numbersIn('off-cpu', new Float64Array(count));
  run.color = numbersIn('color', new Uint32Array(count));
  // Of spans: the call of each item, the call that this one runs in, and the span; 0 where that is not known. Of an
  // operation, the call that launched it.
  run.call = differencesIn('call', new Uint32Array(count));
  run.parent = differencesIn('parent', new Uint32Array(count));
  run.links = {
    batch: numbersIn('link-batch', new Uint32Array(run.linked)),
    served: numbersIn('link-served', new Uint32Array(run.linked)),
  };
  // Of parts of waits, the call, and the text of who is to blame, or 0; whether that held its thread.
  const start = differencesIn('wait-start', new Float64Array(run.waited));
  const by = numbersIn('wait-by', new Uint32Array(run.waited));
  run.waits = {
    call: numbersIn('wait-call', new Uint32Array(run.waited)),
    start,
    end: numbersIn('wait-length', new Float64Array(run.waited)).map((length, index) => start[index] + length),
    by: by.map((number) => number >> 1),
    isForWorker: by.map((number) => number & 1),
  };
  run.span = numbersIn('span', new Uint32Array(count)).map((span, item) => span || run.call[item]);
  let last = 0;
  for (const row of run.rows) {
    let before = 0;
    for (let i = row.first; i < row.last; i++) {
      before += run.start[i];
      run.start[i] = before;
      run.end[i] += before;
    }
    last = Math.max(last, row.last > row.first ? run.end[row.last - 1] : 0);
  }
  run.until = Math.max(run.elapsed_ns, last, 1);
  run.launch = {
    thread: numbersIn('launch-thread', new Float64Array(operations)),
    lead: numbersIn('launch-lead', new Float64Array(operations)),
    span: numbersIn('launch-span', new Uint32Array(operations)),
    bytes: numbersIn('bytes', new Float64Array(operations)),
    correlation: numbersIn('correlation', new Float64Array(operations)),
  };
  for (const script of document.querySelectorAll('script[id]')) script.remove();
  return run;
}

function rowOf(item) {
  return run.rows[firstIndex(0, run.rows.length, (index) => run.rows[index].last > item)];
}

/** The items of some rows by keys below `count`: those of a key are `items[from[key]]` to `items[from[key + 1]]`. */
function itemsByKey(rows, count, keyOf) {
  const from = new Uint32Array(count + 1);
  const forEach = (use) => {
    for (const row of rows)
      for (let item = row.first; item < row.last; item++) if (keyOf(item) >= 0) use(keyOf(item), item);
  };
  forEach((key) => from[key + 1]++);
  for (let key = 0; key < count; key++) from[key + 1] += from[key];
  const items = new Uint32Array(from[count]);
  const next = from.slice();
  forEach((key, item) => (items[next[key]++] = item));
  return { from, items };
}

/** Which process an item is of: of a page of one, 0. */
function processOfItem(item) {
  return run.groups[rowOf(item).group].process ?? 0;
}

function nameOf(item) {
  return run.texts[run.name[item]];
}

/** How long the thread of a range surely ran, and surely did not run. */
function cpuOf(item) {
  return [run.onCpu[item], run.offCpu[item]];
}

/** What else is known of an item; see `html/details.rs`. */
function detailOf(item) {
  const text = run.texts[run.detail[item]];
  try {
    return text ? JSON.parse(text) : {};
  } catch {
    return { fields: [['', text]] }; // the words that stand for texts beyond the budget
  }
}

/** Of an operation: where it was launched and what it moved. */
function launchOf(item, row) {
  if (row.launch < 0) return null;
  const index = row.launch + item - row.first;
  const { thread, lead, span, bytes, correlation } = run.launch;
  const folded = lead[index];
  const before = folded % 2 === 1 ? -(folded + 1) / 2 : folded / 2;
  return {
    thread: thread[index] - 1,
    at: thread[index] > 0 ? run.start[item] - before : null,
    span: run.texts[span[index]],
    bytes: bytes[index],
    correlation: correlation[index],
  };
}

const run = readRun();
