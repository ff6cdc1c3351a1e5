// Flame graphs of the phase tree, from the root down: a phase is as wide as its own time and that of the phases in it.

const FLAME_ROW = 20;
const flame = {
  box: byId('flame'),
  canvas: byId('flame').querySelector('canvas'),
  mode: 'cpu',
  root: -1,
  selected: -1,
  hovered: -1,
  parents: [],
  ends: [],
  graphs: {},
};

/** Widths and places of all nodes, by what each took itself. */
function graphOf(own) {
  const count = run.tree.length;
  const value = Float64Array.from(run.tree, own);
  for (let node = count - 1; node >= 0; node--) {
    if (flame.parents[node] >= 0) value[flame.parents[node]] += value[node];
  }
  const place = new Float64Array(count);
  const used = new Float64Array(count);
  let total = 0;
  let depth = 0;
  for (let node = 0; node < count; node++) {
    const parent = flame.parents[node];
    if (parent < 0) {
      place[node] = total;
      total += value[node];
    } else {
      place[node] = place[parent] + used[parent];
      used[parent] += value[node];
    }
    if (value[node] > 0) depth = Math.max(depth, run.tree[node].depth);
  }
  return { value, place, total, depth };
}

function readTree() {
  const stack = [];
  run.tree.forEach((node, index) => {
    while (stack.length > node.depth) flame.ends[stack.pop()] = index;
    flame.parents[index] = stack.length ? stack[stack.length - 1] : -1;
    stack.push(index);
  });
  for (const index of stack) flame.ends[index] = run.tree.length;
  flame.graphs.cpu = graphOf((node) => node.own);
  const busy = busyWidths();
  flame.graphs.gpu = graphOf((_, index) => busy[index]);
  const waited = (node) => (run.hot.loops.includes(node.name) ? 0 : (node.awaited_own ?? 0));
  flame.graphs.latency = graphOf((node) => node.own + waited(node));
  byId('flame-gpu').hidden = flame.graphs.gpu.total === 0;
  byId('flame-latency').hidden = flame.graphs.latency.total === flame.graphs.cpu.total;
  byId('flame-cpu').hidden = byId('flame-gpu').hidden && byId('flame-latency').hidden;
  if (flame.graphs.cpu.total === 0 && flame.graphs.gpu.total > 0) showFlame('gpu');
  byId('flames').hidden = flame.graphs.cpu.total + flame.graphs.gpu.total === 0;
}

/** The widths of busy times. What a phase replays has a part of the phase's, in which it fits. */
function busyWidths() {
  const busy = Float64Array.from(run.tree, (node) => node.gpu?.busy_own ?? 0);
  const phase = [];
  const replayed = new Float64Array(run.tree.length);
  run.tree.forEach((node, index) => {
    const above = flame.parents[index];
    phase[index] = !node.captured ? index : phase[above];
    if (node.captured && above === phase[index]) replayed[above] += node.gpu.busy ?? 0;
  });
  const own = busy.slice();
  run.tree.forEach((node, index) => {
    const [whole, part] = [own[phase[index]], replayed[phase[index]]];
    if (!node.captured) busy[index] = Math.max(whole - part, 0);
    else if (part > whole) busy[index] *= whole / part;
  });
  return busy;
}

function isUnder(node, root) {
  return root < 0 || (node >= root && node < flame.ends[root]);
}

/** Where a node is drawn; null where it is not. */
function flameBox(node) {
  const graph = flame.graphs[flame.mode];
  const width = flame.width;
  const [from, whole] = flame.root < 0 ? [0, graph.total] : [graph.place[flame.root], graph.value[flame.root]];
  const y = (run.tree[node].depth + 1) * FLAME_ROW;
  if (node !== flame.root && isUnder(flame.root, node)) return flame.root < 0 ? null : { x: 0, y, width };
  if (!isUnder(node, flame.root) || whole === 0) return null;
  return { x: ((graph.place[node] - from) / whole) * width, y, width: (graph.value[node] / whole) * width };
}

function resizeFlame() {
  flame.width = flame.box.clientWidth;
  const height = (flame.graphs[flame.mode].depth + 2) * FLAME_ROW;
  sizeCanvas(flame.canvas, flame.width, height);
  drawFlame();
}

function drawFlame() {
  const graph = flame.graphs[flame.mode];
  const context = flame.canvas.getContext('2d');
  context.clearRect(0, 0, flame.width, flame.canvas.height);
  context.font = FONT;
  context.textBaseline = 'middle';
  drawFlameBar(context, -1, { x: 0, y: 0, width: flame.width }, 'All: ' + human(graph.total), theme.line, theme.text);
  let node = 0;
  while (node < run.tree.length) {
    const box = graph.value[node] > 0 ? flameBox(node) : null;
    const isElsewhere = !box && flame.root >= 0 && !isUnder(flame.root, node) && !isUnder(node, flame.root);
    if (isElsewhere || (box && box.width < 0.4)) {
      node = flame.ends[node];
      continue;
    }
    if (box) {
      const { name } = run.tree[node];
      context.globalAlpha = search.text && !search.matches(name) ? 0.25 : isUnder(node, flame.root) ? 1 : 0.6;
      drawFlameBar(context, node, box, name, colorOfName(name), textOnName(name));
      context.globalAlpha = 1;
    }
    node++;
  }
  for (const [marked, color] of [
    [flame.hovered, theme.text],
    [flame.selected, theme.accent],
  ]) {
    const box = marked >= 0 && flameBox(marked);
    if (!box) continue;
    context.strokeStyle = color;
    context.lineWidth = 2;
    context.strokeRect(box.x + 1, box.y + 1, Math.max(box.width - 2, 1), FLAME_ROW - 3);
  }
}

function drawFlameBar(context, node, box, name, color, textColor) {
  context.fillStyle = color;
  context.fillRect(box.x, box.y, Math.max(box.width - (box.width > 3 ? 1 : 0), 0.5), FLAME_ROW - 1);
  if (search.text && node >= 0 && search.matches(name)) {
    context.fillStyle = theme.found;
    context.fillRect(box.x, box.y + FLAME_ROW - 4, Math.max(box.width - 1, 1), 3);
  }
  const text = fitting(context, name, box.width - 8);
  if (text) {
    context.fillStyle = textColor;
    context.fillText(text, box.x + 4, box.y + FLAME_ROW / 2);
  }
}

function phaseAt(x, y) {
  const depth = Math.floor(y / FLAME_ROW) - 1;
  if (depth < 0) return -1;
  const graph = flame.graphs[flame.mode];
  for (let node = 0; node < run.tree.length;) {
    const box = graph.value[node] > 0 ? flameBox(node) : null;
    if (!box || x < box.x || x >= Math.max(box.x + box.width, box.x + 1)) {
      node = flame.ends[node];
    } else if (run.tree[node].depth === depth) {
      return node;
    } else {
      node++;
    }
  }
  return -1;
}

function factsOfPhase(index) {
  const node = run.tree[index];
  const graph = flame.graphs[flame.mode];
  const facts = [];
  const mean = meanOf(node);
  if (node.instances) {
    facts.push(
      ['total', human(node.total)],
      ['self', human(node.own) + ' (' + percent(node.own, flame.graphs.cpu.total) + ' of all)'],
    );
    facts.push(
      ['calls', integer(node.calls)],
      ['per call', mean === null ? '-' : human(mean)],
      ['instances', integer(node.instances)],
    );
  }
  if (node.gpu && node.gpu.busy !== undefined) {
    const says = node.captured ? 'sum of GPU times' : 'GPU busy';
    facts.push([says, human(node.gpu.busy)], [says + ', self', human(node.gpu.busy_own ?? 0)]);
    facts.push([node.captured ? 'nodes' : 'GPU operations', integer(node.gpu.operations)]);
  }
  if (node.stream_total !== undefined) facts.push(['on streams', human(node.stream_total)]);
  facts.push(['width', percent(graph.value[index], graph.total)]);
  return { name: node.name, facts };
}

function selectPhase(node) {
  flame.selected = node;
  if (node < 0) byId('flame-details').replaceChildren();
  else {
    fill(byId('flame-details'), factsOfPhase(node));
    byId('flame-details').append(idleOfRange(run.tree[node].name));
  }
  drawFlame();
}

function zoomFlame(node) {
  flame.root = node;
  byId('flame-all').hidden = node < 0;
  selectPhase(node);
}

/** What a phase is as wide as. */
const FLAME_SAYS = {
  cpu: 'time in spans, of all threads together',
  latency: 'time in spans and waiting, of all calls together; loops that wait for work do not count',
  gpu: 'time the GPU was busy with what a phase launched; what overlaps counts for each',
};

function showFlame(mode) {
  flame.mode = mode;
  flame.root = -1;
  byId('flame-all').hidden = true;
  for (const other of Object.keys(FLAME_SAYS))
    byId('flame-' + other).setAttribute('aria-pressed', String(other === mode));
  byId('flame-says').textContent = 'width: ' + FLAME_SAYS[mode];
  resizeFlame();
}

/** The next node in a direction that is wide enough to be there. */
function neighbourPhase(node, key) {
  const { value } = flame.graphs[flame.mode];
  if (node < 0) return run.tree.findIndex((_, index) => value[index] > 0);
  const parent = flame.parents[node];
  if (key === 'ArrowUp') return parent < 0 ? node : parent;
  const family = [];
  const within = key === 'ArrowDown' ? node : parent;
  const [first, end] = within < 0 ? [0, run.tree.length] : [within + 1, flame.ends[within]];
  for (let child = first; child < end; child = flame.ends[child]) if (value[child] > 0) family.push(child);
  if (key === 'ArrowDown')
    return family.reduce((best, child) => (best === node || value[child] > value[best] ? child : best), node);
  const at = family.indexOf(node) + (key === 'ArrowLeft' ? -1 : 1);
  return family[at] ?? node;
}

flame.canvas.addEventListener('pointermove', (event) => {
  const node = phaseAt(event.offsetX, event.offsetY);
  if (node !== flame.hovered) {
    flame.hovered = node;
    drawFlame();
  }
  if (node < 0) hideTip();
  else showTip(factsOfPhase(node), event.clientX, event.clientY);
});
flame.canvas.addEventListener('pointerleave', () => {
  flame.hovered = -1;
  hideTip();
  drawFlame();
});
flame.canvas.addEventListener('click', (event) => zoomFlame(phaseAt(event.offsetX, event.offsetY)));
flame.box.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key.startsWith('Arrow')) selectPhase(neighbourPhase(flame.selected, event.key));
  else if (event.key === 'Enter') zoomFlame(flame.selected);
  else if (event.key === 'Backspace') zoomFlame(-1);
  else return;
  event.preventDefault();
});
for (const mode of Object.keys(FLAME_SAYS)) byId('flame-' + mode).addEventListener('click', () => showFlame(mode));
byId('flame-all').addEventListener('click', () => zoomFlame(-1));
