// The address keeps the view: `#t=FROM,TO` in nanoseconds, `q=` what is searched for, `s=` the selected item, `p=` what
// the first panel shows. Sent to somebody with the page, it shows the same.

const link = { ready: false, timer: 0 };

function viewAsText() {
  const { from, to, selected } = timeline;
  const parts = [];
  if (to - from < run.until) parts.push('t=' + Math.round(from) + ',' + Math.round(to));
  if (search.query) parts.push('q=' + encodeURIComponent(search.query));
  if (selected >= 0) parts.push('s=' + selected);
  if (overview.by !== overview.atFirst) parts.push('p=' + overview.by);
  return parts.length ? '#' + parts.join('&') : '';
}

/** Writes the address when what is seen has not changed for a while: browsers bound how often it may change. */
function keepView() {
  if (!link.ready) return;
  clearTimeout(link.timer);
  link.timer = setTimeout(writeView, 300);
}

function writeView() {
  clearTimeout(link.timer);
  const text = viewAsText();
  if (text === location.hash) return;
  try {
    history.replaceState(null, '', location.href.split('#')[0] + text);
  } catch {
    // A frame without an address of its own.
  }
}

/** Shows what the end of an address says; what it does not say stays. */
function readView(view) {
  const parts = view.slice(1).split('&');
  const said = new Map(parts.map((part) => part.split('=')));
  const [from, to] = (said.get('t') ?? '').split(',').map(Number);
  const number = Number(said.get('s') ?? -1);
  const item = Number.isInteger(number) && number >= 0 && number < run.count ? number : -1;
  if (overview.list.includes(said.get('p'))) showHotBy(said.get('p'));
  if (said.has('q')) searchFor(decoded(said.get('q') ?? ''));
  select(item);
  if (to > from) show(from, to);
  else if (item < 0) showAll();
  if (item >= 0) bringUp(item);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A link that selects an item and shows it with something around it. */
function linkTo(item, ...content) {
  const margin = Math.max(lengthOf(item) * 0.15, 50);
  const made = element('a', '', ...content);
  made.href = `#t=${Math.round(run.start[item] - margin)},${Math.round(run.end[item] + margin)}&s=${item}`;
  return made;
}

// `newURL` is where the link leads. The address may say something else by now: `writeView` can come first.
addEventListener('hashchange', ({ newURL }) => {
  readView(new URL(newURL).hash);
  byId('timeline').scrollIntoView();
  focusStrip();
});
