// Brings the page up, and the keys that work everywhere on it.

function resizeAll() {
  resizeTimeline();
  resizeFlame();
  if (heat.items.length) drawHeat();
}

function isTyping(target) {
  return target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement;
}

function goToSearch() {
  byId('search').focus();
  byId('search').select();
}

const EVERYWHERE = {
  '/': goToSearch,
  n: () => goToMatch(1),
  p: () => goToMatch(-1),
  N: () => goToMatch(-1),
  w: () => zoom(0.7),
  s: () => zoom(1 / 0.7),
  '+': () => zoom(0.7),
  '=': () => zoom(0.7),
  '-': () => zoom(1 / 0.7),
  a: () => pan(-0.1),
  d: () => pan(0.1),
  0: showAll,
  f: foldAll,
  m: markSeen,
  '?': () => byId('help').showModal(),
  Escape: () => {
    hideTip();
    timeline.hovered = -1;
    select(-1);
    selectPhase(-1);
    searchFor('');
  },
};

document.addEventListener('keydown', (event) => {
  if (byId('help').open) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'f') {
    if (document.activeElement === byId('search')) return; // the second time it is the browser's own
    event.preventDefault();
    goToSearch();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const key = event.key.length === 1 && event.key !== 'N' ? event.key.toLowerCase() : event.key;
  if (!Object.hasOwn(EVERYWHERE, key)) return;
  event.preventDefault();
  EVERYWHERE[key]();
});
byId('keys').addEventListener('click', EVERYWHERE['?']);

byId('unfinished').hidden = true;
byId('unscripted').remove();
byId('page').hidden = false;
document.documentElement.lang = 'en';
applyTheme();
byId('overview').hidden = !run.is_run;
for (const part of [byId('previous'), byId('next'), ...document.querySelectorAll('.of-run')]) part.hidden = !run.is_run;
if (run.is_run) showFigures();
showIdentity();
showComparison();
showLeftOut();
showNotes();
readTree();
colorNames();
showHotLists();
showIdle();
layOutRows();
byId('timeline').hidden = run.count === 0;
tables.list = [...run.tables];
if (run.tree.length) tables.list.splice(1, 0, treeTable());
byId('tables').hidden = tables.list.length === 0;
if (tables.list.length) openTable(firstTable());
showFlame(flame.mode);
resizeAll();
showAll();
link.ready = true;
if (location.hash) readView(location.hash);
later(() => {
  if (!anyLong) Object.assign(calls, readCalls());
  showSlowCalls();
  showHeat();
  byName('ranges'); // else the first selection would wait for it
});
theme.listeners.push(() => {
  showHotLists();
  showIdle();
  showSlowCalls();
  showTables();
  if (heat.items.length) drawHeat();
  redraw();
  drawFlame();
});
addEventListener('resize', resizeAll);
// Widths change without the window, too: where a scroll bar comes or goes.
new ResizeObserver(() => {
  if (timeline.scroller.clientWidth !== timeline.width || flame.box.clientWidth !== flame.width) resizeAll();
}).observe(byId('page'));

/** For tests and the console: the state of the timeline, where an item is on the screen, and drawing at once. */
window.page = {
  run,
  palettes: PALETTES,
  timeline,
  search,
  flame,
  find: (name) => Array.from({ length: run.count }, (_, item) => item).filter((item) => nameOf(item) === name),
  show,
  select,
  calls,
  statesOf,
  human,
  factsOf,
  lineOf,
  color: colorOf,
  draw: () => {
    const began = performance.now();
    drawTimeline();
    timeline.canvas.getContext('2d').getImageData(0, 0, 1, 1); // waits for the pixels
    return performance.now() - began;
  },
  point: (item) => {
    const box = timeline.canvas.getBoundingClientRect();
    const line = lineOf(item);
    const middle = (Math.max(xOf(run.start[item]), timeline.gutter) + Math.min(xOf(run.end[item]), timeline.width)) / 2;
    return { x: box.left + middle, y: box.top + line.y - timeline.scroller.scrollTop + line.height / 2 };
  },
  phase: (name) => {
    const box = flame.canvas.getBoundingClientRect();
    const node = run.tree.findIndex((node) => node.name === name);
    const place = flameBox(node);
    return { x: box.left + place.x + place.width / 2, y: box.top + place.y + FLAME_ROW / 2 };
  },
};
document.documentElement.dataset.ready = 'yes';
