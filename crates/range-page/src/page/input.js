// Mouse, touch and keys of the timeline.

const pointers = new Map();
let pressed = null;
/** The second click of two may meet another item, because the first has scrolled: it counts for the same. */
let lastClick = { at: -1e9, x: 0, y: 0, item: -1 };
let pinch = 0;

/** How far apart two fingers are, and the middle between them. */
function fingers() {
  const [a, b] = [...pointers.values()];
  return { apart: Math.max(10, Math.abs(a - b)), middle: (a + b) / 2 };
}

function hover(event) {
  const { item, others } = itemAt(event.offsetX, event.offsetY);
  if (item !== timeline.hovered) {
    timeline.hovered = item;
    redraw();
  }
  if (item < 0) return hideTip();
  const content = factsOf(item);
  if (lateSays(item)) content.facts.unshift(['rank', lateSays(item)]);
  if (others > 0) content.facts.push(['here', counted(others, 'more', 'more') + ': zoom in']);
  showTip(content, event.clientX, event.clientY);
}

timeline.canvas.addEventListener('pointerdown', (event) => {
  if (event.button !== 0) return;
  pointers.set(event.pointerId, event.offsetX);
  timeline.canvas.setPointerCapture(event.pointerId);
  if (pointers.size === 2) pinch = fingers().apart;
  pressed = { x: event.offsetX, from: timeline.from, to: timeline.to, moved: false };
  if (event.shiftKey) {
    const [time, y] = [timeAt(event.offsetX), event.offsetY + timeline.scroller.scrollTop];
    timeline.marked = { from: time, to: time, y, toY: y };
  }
  hideTip();
});

timeline.canvas.addEventListener('pointermove', (event) => {
  if (!pointers.has(event.pointerId)) return hover(event);
  pointers.set(event.pointerId, event.offsetX);
  if (pointers.size === 2) {
    const { apart, middle } = fingers();
    zoom(pinch / apart, middle);
    pinch = apart;
    pressed = null;
    return;
  }
  if (!pressed) return;
  if (Math.abs(event.offsetX - pressed.x) > 3) pressed.moved = true;
  if (timeline.marked && event.shiftKey) {
    timeline.marked.to = timeAt(event.offsetX);
    timeline.marked.toY = event.offsetY + timeline.scroller.scrollTop;
    redraw();
  } else if (pressed.moved) {
    const by = (pressed.x - event.offsetX) / scaleNow();
    show(pressed.from + by, pressed.to + by);
  }
});

function release(event) {
  pointers.delete(event.pointerId);
  const still = pressed && !pressed.moved && event.type === 'pointerup';
  if (timeline.marked && pressed?.moved && event.shiftKey) showArea();
  else if (still && event.offsetX < timeline.gutter) foldAt(event.offsetY);
  else if (still) click(event);
  pressed = null;
  redraw();
}

function click(event) {
  const { at, x, y, item: last } = lastClick;
  const isAgain = event.timeStamp - at < 400 && event.clientX === x && event.clientY === y;
  if (isAgain && last >= 0 && last === timeline.selected) return;
  const { item } = itemAt(event.offsetX, event.offsetY);
  lastClick = { at: event.timeStamp, x: event.clientX, y: event.clientY, item };
  select(item);
  if (item >= 0) bringUp(item); // what is said of it may lie over it
}

/** Folds or unfolds the group whose name is at this height. */
function foldAt(y) {
  const at = y + timeline.scroller.scrollTop;
  const group = timeline.groups.find((group) => group.key && group.y <= at && at < group.bottom);
  if (group) fold(group);
}

timeline.canvas.addEventListener('pointerup', release);
timeline.canvas.addEventListener('pointercancel', release);
timeline.canvas.addEventListener('pointerleave', () => {
  timeline.hovered = -1;
  hideTip();
  redraw();
});
timeline.canvas.addEventListener('dblclick', (event) => {
  if (event.offsetX >= timeline.gutter && timeline.selected >= 0) zoomTo(timeline.selected);
});

timeline.scroller.addEventListener(
  'wheel',
  (event) => {
    const lines = event.deltaMode === 1 ? 30 : 1;
    if (event.ctrlKey || event.metaKey || event.altKey) {
      event.preventDefault();
      zoom(
        Math.exp(Math.max(-120, Math.min(120, event.deltaY * lines)) / 250),
        event.clientX - timeline.scroller.getBoundingClientRect().left,
      );
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan(((event.deltaX || event.deltaY) * lines) / (timeline.width - timeline.gutter));
    }
  },
  { passive: false },
);
timeline.scroller.addEventListener('scroll', () => {
  hideTip();
  redraw();
});

/** The first item seen, to begin with. */
function firstSeen() {
  for (const line of timeline.lines) {
    const item = line.part === 'marks' ? -1 : firstOn(line, timeline.from, timeline.to);
    if (item >= 0) return item;
  }
  return -1;
}

function stepTo(direction) {
  const item = timeline.selected < 0 ? firstSeen() : neighbour(timeline.selected, direction);
  if (item < 0) return;
  select(item);
  reveal(item);
}

const SHIFTED = { ArrowLeft: 'before', ArrowRight: 'after', ArrowUp: 'around', ArrowDown: 'inside' };
timeline.scroller.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.shiftKey && SHIFTED[event.key]) stepTo(SHIFTED[event.key]);
  else if (event.key === 'ArrowLeft') pan(-0.1);
  else if (event.key === 'ArrowRight') pan(0.1);
  else if (event.key === 'ArrowUp' && timeline.scroller.scrollTop > 0) timeline.scroller.scrollTop -= 40;
  else if (event.key === 'ArrowDown' && timeline.scroller.scrollTop + timeline.height < timeline.contentHeight)
    timeline.scroller.scrollTop += 40;
  else if (event.key === 'Home') show(0, timeline.to - timeline.from);
  else if (event.key === 'End') show(run.until - (timeline.to - timeline.from), run.until);
  else if (event.key === 'Enter' && timeline.marked) zoomToMarked();
  else if (event.key === 'Enter' && timeline.selected >= 0) zoomTo(timeline.selected);
  else return;
  event.preventDefault();
});

/** Folds all that can be folded, or unfolds it if all of it is folded. */
function foldAll() {
  const groups = timeline.all.filter((group) => group.key);
  const folded = !groups.every(isFolded);
  for (const group of groups) folds.set(group.key, folded);
  layOutAgain();
}

byId('fold-all').addEventListener('click', foldAll);
byId('zoom-in').addEventListener('click', () => zoom(0.5));
byId('zoom-out').addEventListener('click', () => zoom(2));
byId('zoom-all').addEventListener('click', showAll);
