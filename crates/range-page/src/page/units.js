// Figures as the text tables write them, and small helpers for elements.

/** In the smallest of three units, for 10^3, 10^6 and 10^9, in which four digits do. */
function fourDigits(value, units) {
  for (let power = 0; power < 3; power++) {
    const size = 1000 ** (power + 1);
    for (const decimals of [3, 2, 1]) {
      const scaled = Math.round((value / size) * 10 ** decimals);
      if (scaled < 10000) return (scaled / 10 ** decimals).toFixed(decimals) + ' ' + units[power];
    }
  }
  return integer(Math.round(value / 1e9)) + ' ' + units[2];
}

/** A time: `1.764 ms`. Parts of nanoseconds, which only averages have, with one decimal. */
function human(ns) {
  if (ns < 999.95) return (Number.isInteger(ns) ? ns : ns.toFixed(1)) + ' ns';
  return fourDigits(ns, ['\u00b5s', 'ms', 's']);
}

/** Words of the printed report as the page writes them. */
function plain(text) {
  return text.replace(/(\d) us\b/g, '$1 \u00b5s');
}

/** A size: `4.194 MB`, in thousands. */
function humanBytes(bytes) {
  return bytes < 1000 ? Math.round(bytes) + ' B' : fourDigits(bytes, ['KB', 'MB', 'GB']);
}

/** `1,234,567` */
function integer(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** One decimal, with separators. */
function oneDecimal(value) {
  const [whole, decimal] = value.toFixed(1).split('.');
  return integer(whole) + '.' + decimal;
}

function percent(part, whole) {
  return whole > 0 ? ((100 * part) / whole).toFixed(1) + ' %' : '-';
}

function counted(count, one, many) {
  return integer(count) + ' ' + (count === 1 ? one : many);
}

/** A moment on an axis whose ticks are `step` ns apart: no more digits than the step needs. */
function moment(ns, step) {
  if (ns === 0) return '0';
  const [size, unit] =
    step >= 1e8 ? [1e9, 's'] : step >= 1e5 ? [1e6, 'ms'] : step >= 100 ? [1e3, '\u00b5s'] : [1, 'ns'];
  const decimals = Math.max(0, Math.round(Math.log10(size)) - Math.floor(Math.log10(step) + 1e-9));
  const [whole, decimal] = (ns / size).toFixed(decimals).split('.');
  return integer(whole) + (decimal ? '.' + decimal : '') + ' ' + unit;
}

/** A moment of the run on the world's clock, if that is known: `12:03:04.567 UTC`. */
function utcOf(ns) {
  return run.started_ms ? new Date(run.started_ms + ns / 1e6).toISOString().slice(11, 23) + ' UTC' : '';
}

/** After the page has been drawn. */
function later(work) {
  requestAnimationFrame(() => setTimeout(work));
}

function byId(id) {
  return document.getElementById(id);
}

/** An element with a class, and text or children. */
function element(tag, className, ...content) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...content);
  return made;
}

/** A button, and what a click on it does. */
function buttonFor(click, className, ...content) {
  const made = element('button', className, ...content);
  made.type = 'button';
  made.addEventListener('click', click);
  return made;
}

/** The same as `firstIndex` where the answer is likely to be near `from`. */
function nextIndex(from, to, passes) {
  let step = 1;
  let low = from;
  while (low < to && !passes(low)) {
    from = low + 1;
    low += step;
    step *= 2;
  }
  return firstIndex(from, Math.min(low, to), passes);
}

/** The value that `rank` others of these numbers are not above. It changes their order. */
function ranked(numbers, rank) {
  let [from, to] = [0, numbers.length - 1];
  while (from < to) {
    const pivot = numbers[(from + to) >>> 1];
    let [low, high] = [from, to];
    while (low <= high) {
      while (numbers[low] < pivot) low++;
      while (numbers[high] > pivot) high--;
      if (low > high) break;
      [numbers[low], numbers[high]] = [numbers[high], numbers[low]];
      low++;
      high--;
    }
    if (rank <= high) to = high;
    else if (rank >= low) from = low;
    else break;
  }
  return numbers[rank];
}

/** The part `q` of these numbers: as the tables have it, the smallest that so many are not above. */
function quantileOf(numbers, q) {
  return ranked(numbers, Math.max(0, Math.ceil(q * numbers.length) - 1));
}

/** Sorted numbers: the first index in [from, to) that `passes`, or `to`. */
function firstIndex(from, to, passes) {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (passes(middle)) to = middle;
    else from = middle + 1;
  }
  return from;
}
