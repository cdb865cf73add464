"use strict";
// The page of a drawing: rows come from Python, coordinates are found here, since they depend on
// which groups are open. The constants are those of places.py and svg.py.
const GAP = 14, BEND_WIDTH = 6, ROW_GAP = 30, PADDING = 10, HEAD = 24, LINE = 15;
const SWEEPS = 6, BEND_WEIGHT = 3, END_WEIGHT = 0.05, LONGEST = 30, TOP = "";
const FONT = 'px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';
const PILLS = new Set(["input", "variable", "parameter", "constant", "item", "leaf", "saved"]);
const COLOURS = {
  input: ["value", "value-line"], parameter: ["value", "value-line"], item: ["value", "value-line"],
  variable: ["weight", "weight-line"], leaf: ["weight", "weight-line"], kernel: ["group", "kernel"],
  loop: ["group", "loop"], branch: ["group", "branch"], region: ["group", "branch"],
};
const MARKS = { new: ["+", "new: made by this pass"], changed: ["~", "changed by this pass"],
  gone: ["−", "gone after the next pass"] };
const byId = (id) => document.getElementById(id);
const canvas = byId("canvas"), context = canvas.getContext("2d");
const state = {
  stages: [], stage: 0, open: new Set(), selected: null, hover: null, query: "", hits: [],
  view: { x: 0, y: 0, k: 1 }, boxes: new Map(), list: [], width: 0, height: 0, colours: {},
};

// -- data ---------------------------------------------------------------------------------------

async function readData() {
  const bytes = Uint8Array.from(atob(byId("data").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

function prepare(stage) {
  if (stage.byId) return stage;
  stage.byId = new Map(stage.nodes.map((n) => [n.id, n]));
  stage.children = new Map();
  stage.edgesIn = new Map();
  for (const n of stage.nodes) {
    n.operands = [];
    n.users = [];
    push(stage.children, n.parent ?? TOP, n);
    if (n.operand !== undefined) n.operands.push(n.operand);
  }
  for (let i = 0; i < stage.edges.length; i += 2) {
    const source = stage.edges[i], target = stage.edges[i + 1];
    push(stage.edgesIn, stage.byId.get(target).parent ?? TOP, [source, target]);
    stage.byId.get(target).operands.push(source);
    const users = stage.byId.get(source).users;
    if (users[users.length - 1] !== target) users.push(target);
  }
  const next = state.stages[state.stages.indexOf(stage) + 1];
  stage.mark = new Map();
  for (const id of next ? next.gone : []) stage.mark.set(id, "gone");
  for (const id of stage.changed) stage.mark.set(id, "changed");
  for (const id of stage.new) stage.mark.set(id, "new");
  return stage;
}

function push(map, key, value) {
  if (map.has(key)) map.get(key).push(value);
  else map.set(key, [value]);
}

const stageNow = () => prepare(state.stages[state.stage]);
const isGroup = (node) => stageNow().children.has(node.id);
const isOpen = (node) => isGroup(node) && state.open.has(node.key);

// -- where everything stands --------------------------------------------------------------------

const spot = (row, item) => row * 4194304 + item + 2097152;
const cut = (text) => (text.length <= LONGEST ? text : text.slice(0, LONGEST - 1) + "…");

function textLines(node) {
  if (PILLS.has(node.kind)) return [cut(`${node.label} ${node.type ?? ""}`.trim())];
  const lines = [cut(node.label)];
  if (node.type) lines.push(cut(node.type));
  if (isGroup(node)) lines.push(`${node.kind}, ${stageNow().children.get(node.id).length} nodes`);
  return lines;
}

function layGroup(stage, group, character) {
  const nodes = stage.children.get(group) ?? [], edges = stage.edgesIn.get(group) ?? [];
  const sizes = new Map(), inner = new Map();
  for (const node of nodes) {
    if (isOpen(node)) {
      const inside = layGroup(stage, node.id, character);
      const title = cut(`${node.kind} ${node.label}`).length * character + 20;
      inner.set(node.id, inside);
      sizes.set(node.id, [Math.max(inside.width, title) + 2 * PADDING, inside.height + HEAD + PADDING]);
    } else {
      const lines = textLines(node);
      const width = Math.max(...lines.map((l) => l.length)) * character + 16;
      sizes.set(node.id, [width + (isGroup(node) ? 14 : 0), LINE * lines.length + 7]);
    }
  }
  return { nodes, sizes, inner, ...place(stage.rows[group] ?? [], edges, sizes) };
}

function place(rows, edges, sizes) {
  const rank = new Map(), bends = new Set();
  rows.forEach((row, r) => row.forEach((item) => {
    if (item >= 0) rank.set(item, r);
    else bends.add(spot(r, item));
  }));
  const ways = new Map();
  for (const [source, target] of edges) {
    const way = [[rank.get(source), source]];
    for (let r = rank.get(source) + 1; r < rank.get(target) && bends.has(spot(r, -1 - source)); r++) {
      way.push([r, -1 - source]);
    }
    way.push([rank.get(target), target]);
    ways.set(`${source} ${target}`, way);
  }
  const width = (item) => (item >= 0 ? sizes.get(item)[0] : BEND_WIDTH);
  const xs = findAcross(rows, ways, width);
  const tops = [], heights = [];
  let y = 0;
  for (const row of rows) {
    const height = row.reduce((most, i) => (i >= 0 ? Math.max(most, sizes.get(i)[1]) : most), 0);
    tops.push(y);
    heights.push(height);
    y += height + ROW_GAP;
  }
  let left = Infinity, right = -Infinity;
  rows.forEach((row, r) => row.forEach((item) => {
    left = Math.min(left, xs.get(spot(r, item)) - width(item) / 2);
    right = Math.max(right, xs.get(spot(r, item)) + width(item) / 2);
  }));
  if (left > right) left = right = 0;
  const middles = new Map();
  for (const [item, r] of rank) middles.set(item, [xs.get(spot(r, item)) - left, tops[r] + heights[r] / 2]);
  const lines = [];
  for (const way of ways.values()) {
    const points = [], [first, source] = way[0], [last, target] = way[way.length - 1];
    points.push(middles.get(source)[0], middles.get(source)[1] + sizes.get(source)[1] / 2);
    for (const [r, item] of way) {
      const x = xs.get(spot(r, item)) - left;
      if (r !== first) points.push(x, tops[r]);
      if (r !== last) points.push(x, tops[r] + heights[r]);
    }
    points.push(middles.get(target)[0], middles.get(target)[1] - sizes.get(target)[1] / 2);
    lines.push({ source, target, points });
  }
  return { middles, lines, width: right - left, height: Math.max(y - ROW_GAP, 0) };
}

function findAcross(rows, ways, width) {
  const above = new Map(), below = new Map(), xs = new Map();
  for (const way of ways.values()) {
    for (let i = 1; i < way.length; i++) {
      const a = spot(...way[i - 1]), b = spot(...way[i]);
      push(below, a, b);
      push(above, b, a);
    }
  }
  const weights = rows.map((row, r) => row.map((item) => {
    const at = spot(r, item);
    return item < 0 ? BEND_WEIGHT : above.has(at) && below.has(at) ? 1 : END_WEIGHT;
  }));
  rows.forEach((row, r) => keepApart(r, row, row.map(() => 0), weights[r], width, xs));
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const near = sweep % 2 ? below : above;
    for (let i = 0; i < rows.length; i++) {
      const r = sweep % 2 ? rows.length - 1 - i : i;
      const wanted = rows[r].map((item) => {
        const all = near.get(spot(r, item)) ?? [spot(r, item)], onward = all.filter((o) => near.has(o));
        const others = onward.length ? onward : all;
        return others.reduce((sum, o) => sum + xs.get(o), 0) / others.length;
      });
      keepApart(r, rows[r], wanted, weights[r], width, xs);
    }
  }
  return xs;
}

// Isotonic regression: as near as can be to where each is wanted, in order and without overlap.
function keepApart(r, row, wanted, weights, width, xs) {
  const offsets = [], blocks = [];
  let offset = 0;
  row.forEach((item, i) => {
    if (i) offset += (width(row[i - 1]) + width(item)) / 2 + GAP;
    offsets.push(offset);
    let mean = wanted[i] - offset, weight = weights[i], count = 1;
    while (blocks.length && blocks[blocks.length - 1][0] >= mean) {
      const [other, more, items] = blocks.pop();
      mean = (mean * weight + other * more) / (weight + more);
      weight += more;
      count += items;
    }
    blocks.push([mean, weight, count]);
  });
  let at = 0;
  for (const [mean, , count] of blocks) {
    for (let i = 0; i < count; i++, at++) xs.set(spot(r, row[at]), mean + offsets[at]);
  }
}

function layOut() {
  context.font = 11 + FONT;
  const all = layGroup(stageNow(), TOP, context.measureText("0").width);
  state.boxes = new Map();
  state.list = [];
  state.width = all.width;
  state.height = all.height;
  flatten(all, 0, 0, 0);
  document.body.dataset.boxes = String(state.boxes.size);
}

function flatten(group, left, top, depth) {
  for (const line of group.lines) {
    const points = line.points.map((v, i) => v + (i % 2 ? top : left));
    const xs = points.filter((_, i) => i % 2 === 0);
    const box = [Math.min(...xs), points[1], Math.max(...xs), points[points.length - 1]];
    state.list.push({ line: true, source: line.source, target: line.target, points, box });
  }
  for (const node of group.nodes) {
    const [x, y] = group.middles.get(node.id), [w, h] = group.sizes.get(node.id);
    const box = [left + x - w / 2, top + y - h / 2, left + x + w / 2, top + y + h / 2];
    const item = { node, box, depth, open: group.inner.has(node.id) };
    state.boxes.set(node.id, item);
    state.list.push(item);
    if (item.open) flatten(group.inner.get(node.id), box[0] + PADDING, box[1] + HEAD, depth + 1);
  }
}

// -- drawing ------------------------------------------------------------------------------------

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["page", "ink", "faint", "edge", "op", "op-line", "value", "value-line", "weight",
    "weight-line", "group", "kernel", "loop", "branch", "select", "hit", "new", "changed", "gone"]) {
    state.colours[name] = style.getPropertyValue("--" + name).trim();
  }
}

let isAsked = false;
function redraw() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => { isAsked = false; paint(); });
}

function paint() {
  const ratio = window.devicePixelRatio || 1, { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const { x, y, k } = state.view, colours = state.colours;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = colours.page;
  context.fillRect(0, 0, width, height);
  context.setTransform(ratio * k, 0, 0, ratio * k, ratio * x, ratio * y);
  const seen = [-x / k, -y / k, (width - x) / k, (height - y) / k];
  const hits = new Set(state.hits), focus = state.hover ?? state.selected;
  const closedHits = new Set(state.hits.map((id) => visibleOf(id)));
  let painted = 0;
  for (const item of state.list) {
    const b = item.box;
    if (b[2] < seen[0] || b[0] > seen[2] || b[3] < seen[1] || b[1] > seen[3]) continue;
    painted++;
    if (item.line) paintLine(item, focus, k);
    else paintBox(item, k, hits.has(item.node.id) || (!item.open && closedHits.has(item.node.id)));
  }
  document.body.dataset.painted = String(painted);
}

function paintLine(item, focus, k) {
  const p = item.points, isNear = item.source === focus || item.target === focus;
  const many = stageNow().byId.get(item.source).users.length > 8;
  context.strokeStyle = context.fillStyle = isNear ? state.colours.select : state.colours.edge;
  context.globalAlpha = isNear ? 1 : many ? 0.35 : 0.8;
  context.lineWidth = (isNear ? 2 : 1) / Math.max(Math.min(k, 1), 0.2);
  context.beginPath();
  context.moveTo(p[0], p[1]);
  for (let i = 2; i < p.length; i += 2) {
    const middle = (p[i - 1] + p[i + 1]) / 2;
    if (p[i] === p[i - 2]) context.lineTo(p[i], p[i + 1]);
    else context.bezierCurveTo(p[i - 2], middle, p[i], middle, p[i], p[i + 1]);
  }
  context.stroke();
  if (k > 0.3) {
    const x = p[p.length - 2], y = p[p.length - 1];
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x - 3, y - 6);
    context.lineTo(x + 3, y - 6);
    context.fill();
  }
  context.globalAlpha = 1;
}

function paintBox(item, k, isHit) {
  const { node, box: [left, top, right, bottom], open } = item, c = state.colours;
  const [fill, stroke] = COLOURS[node.kind] ?? ["op", "op-line"];
  const mark = stageNow().mark.get(node.id), isChosen = node.id === state.selected;
  const radius = PILLS.has(node.kind) && !open ? (bottom - top) / 2 : 4;
  context.beginPath();
  context.roundRect(left, top, right - left, bottom - top, radius);
  if (!open) { context.fillStyle = c.page; context.fill(); }
  context.fillStyle = c[fill];
  context.fill();
  context.setLineDash(node.kind === "saved" || mark === "gone" ? [4, 3] : []);
  context.strokeStyle = isChosen ? c.select : mark ? c[mark] : c[stroke];
  const strong = isChosen || mark || (node.outputs && node.parent === undefined);
  context.lineWidth = (strong ? 2.5 : node.id === state.hover ? 2 : 1) / Math.max(Math.min(k, 1), 0.25);
  context.stroke();
  context.setLineDash([]);
  if (isHit) {
    context.strokeStyle = c.hit;
    context.lineWidth = 3 / Math.min(k, 1);
    context.beginPath();
    context.roundRect(left - 4, top - 4, right - left + 8, bottom - top + 8, radius + 4);
    context.stroke();
  }
  if (k < 0.28) return;
  context.textBaseline = "middle";
  context.textAlign = "center";
  if (!open) {
    const lines = textLines(node), middle = (left + right) / 2 + (isGroup(node) ? 7 : 0);
    lines.forEach((line, i) => {
      context.font = 11 + FONT;
      context.fillStyle = i ? c.faint : c.ink;
      context.fillText(line, middle, (top + bottom) / 2 + LINE * (i - (lines.length - 1) / 2));
    });
  } else {
    context.font = 11 + FONT;
    context.textAlign = "left";
    context.fillStyle = c.ink;
    context.fillText(cut(`${node.kind} ${node.label}`), left + PADDING + 16, top + HEAD / 2);
  }
  if (isGroup(node)) paintHandle(left, top, open, c[stroke]);
  if (mark) {
    context.font = "bold " + 11 + FONT;
    context.textAlign = "center";
    context.fillStyle = c[mark];
    context.fillRect(right - 7, top - 7, 14, 14);
    context.fillStyle = c.page;
    context.fillText(MARKS[mark][0], right, top + 0.5);
  }
}

function paintHandle(left, top, open, colour) {
  const x = left + 12, y = top + 12;
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.strokeRect(x - 5, y - 5, 10, 10);
  context.beginPath();
  context.moveTo(x - 3, y);
  context.lineTo(x + 3, y);
  if (!open) { context.moveTo(x, y - 3); context.lineTo(x, y + 3); }
  context.stroke();
}

// -- looking around -----------------------------------------------------------------------------

function fit() {
  const { clientWidth: width, clientHeight: height } = canvas;
  const k = Math.min(1, (width - 40) / Math.max(state.width, 1), (height - 40) / Math.max(state.height, 1));
  state.view = { k, x: (width - state.width * k) / 2, y: Math.max((height - state.height * k) / 2, 20) };
  redraw();
}

function begin() {
  fit();
  const least = Math.max(state.view.k, 0.45);
  if (least > state.view.k) {  // too small to read: begin at the top
    const top = state.list.find((item) => !item.line);
    const middle = top ? (top.box[0] + top.box[2]) / 2 : 0;
    state.view = { k: least, x: canvas.clientWidth / 2 - middle * least, y: 20 };
  }
  redraw();
}

function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const view = state.view, k = Math.min(Math.max(view.k * factor, 0.01), 6), by = k / view.k;
  state.view = { k, x: x - (x - view.x) * by, y: y - (y - view.y) * by };
  redraw();
}

function nodeAt(clientX, clientY) {
  const rect = canvas.getBoundingClientRect(), { x, y, k } = state.view;
  const px = (clientX - rect.left - x) / k, py = (clientY - rect.top - y) / k;
  for (let i = state.list.length - 1; i >= 0; i--) {
    const item = state.list[i], b = item.box;
    if (!item.line && px >= b[0] && px <= b[2] && py >= b[1] && py <= b[3]) {
      return { item, onHandle: isGroup(item.node) && px < b[0] + 22 && py < b[1] + 22 };
    }
  }
  return null;
}

function bringIntoView(id) {
  const item = state.boxes.get(id), { clientWidth: width, clientHeight: height } = canvas;
  if (!item) return;
  if (state.view.k < 0.5) state.view.k = 0.8;
  const { k } = state.view, b = item.box, margin = 30;
  const left = b[0] * k + state.view.x, right = b[2] * k + state.view.x;
  const top = b[1] * k + state.view.y, bottom = b[3] * k + state.view.y;
  if (left < margin || right > width - margin || top < margin || bottom > height - margin) {
    state.view.x = width / 2 - ((b[0] + b[2]) / 2) * k;
    state.view.y = bottom - top > height ? margin - b[1] * k : height / 2 - ((b[1] + b[3]) / 2) * k;
  }
  redraw();
}

function visibleOf(id) {
  const stage = stageNow();
  while (id !== undefined && !state.boxes.has(id)) id = stage.byId.get(id).parent;
  return id;
}

function select(id, isMoving = true) {
  state.selected = id;
  state.hover = null;
  showDetails(id);
  if (id !== null && isMoving) { reveal(id); bringIntoView(id); }
  redraw();
}

function reveal(id) {
  const stage = stageNow();
  let isNew = false;
  for (let at = stage.byId.get(id).parent; at !== undefined; at = stage.byId.get(at).parent) {
    const { key } = stage.byId.get(at);
    isNew = isNew || !state.open.has(key);
    state.open.add(key);
  }
  if (isNew) layOut();
}

function toggle(id) {
  const node = stageNow().byId.get(id);
  if (!isGroup(node)) return;
  const before = state.boxes.get(id).box;
  if (state.open.has(node.key)) state.open.delete(node.key);
  else {
    state.open.add(node.key);
    for (const child of stageNow().children.get(id)) if (child.kind === "region") state.open.add(child.key);
  }
  layOut();
  const after = state.boxes.get(id).box;  // what was clicked stays where it is
  state.view.x += (before[0] - after[0]) * state.view.k;
  state.view.y += (before[1] - after[1]) * state.view.k;
  redraw();
}

function openAll(isOpening) {
  state.open.clear();
  const stage = stageNow();
  if (isOpening) for (const id of stage.children.keys()) if (id !== TOP) state.open.add(stage.byId.get(id).key);
  if (state.selected !== null) state.selected = visibleOf(state.selected) ?? null;
  layOut();
  begin();
}

function setStage(index) {
  const old = state.selected === null ? null : stageNow().byId.get(state.selected);
  const before = state.boxes.get(state.selected)?.box;
  state.stage = Math.min(Math.max(index, 0), state.stages.length - 1);
  const stage = stageNow();
  state.hover = null;
  const same = old && stage.nodes.find((n) => n.key === old.key);
  state.selected = same ? same.id : null;
  byId("pass").value = String(state.stage);
  showStage(stage);
  search(state.query, false);
  layOut();
  showDetails(state.selected);
  const after = state.boxes.get(visibleOf(state.selected ?? undefined))?.box;
  if (!before || !after) return begin();
  state.view.x += (before[0] - after[0]) * state.view.k;  // what is selected stays where it is
  state.view.y += (before[1] - after[1]) * state.view.k;
  redraw();
}

function search(query, isMoving) {
  state.query = query;
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const textOf = (n) => [n.label, n.name, n.type, n.kind, ...(n.lines ?? []), ...(n.outputs ?? []),
    ...Object.entries(n.attrs ?? {}).flat()].join(" ").toLowerCase();
  state.hits = !words.length ? [] : stageNow().nodes
    .filter((n) => { const text = (n.text ??= textOf(n)); return words.every((w) => text.includes(w)); })
    .map((n) => n.id);
  state.hit = -1;
  byId("found").textContent = words.length ? `${state.hits.length} found` : "";
  if (isMoving && state.hits.length) nextHit(1);
  redraw();
}

function nextHit(step) {
  const count = state.hits.length;
  if (!count) return;
  state.hit = (state.hit + step + count) % count;
  select(state.hits[state.hit]);
  byId("found").textContent = `${state.hit + 1} of ${count}`;
}

function step(direction) {
  const stage = stageNow(), now = state.boxes.get(state.selected);
  if (!now) {
    const first = state.list.find((item) => !item.line);
    if (first) select(first.node.id);
    return;
  }
  const node = now.node;
  if (direction === "up" || direction === "down") {
    const near = direction === "up" ? node.operands.filter((id) => stage.byId.get(id).parent === node.parent) : node.users;
    if (near.length) return select(near[0]);
    if (direction === "up" && node.parent !== undefined) return select(node.parent);
    if (direction === "down" && now.open) return select(stage.children.get(node.id)[0].id);
    return;
  }
  const sign = direction === "left" ? -1 : 1, x = (now.box[0] + now.box[2]) / 2, y = (now.box[1] + now.box[3]) / 2;
  let best = null, least = Infinity;
  for (const item of state.boxes.values()) {
    if (item.node.parent !== node.parent || item === now) continue;
    const dx = ((item.box[0] + item.box[2]) / 2 - x) * sign, dy = Math.abs((item.box[1] + item.box[3]) / 2 - y);
    if (dx > 1 && dy < now.box[3] - now.box[1] + 30 && dx + 4 * dy < least) { least = dx + 4 * dy; best = item; }
  }
  if (best) select(best.node.id);
}

// -- words --------------------------------------------------------------------------------------

function element(tag, text, parent, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== null) made.textContent = text;
  Object.assign(made, attributes);
  parent?.append(made);
  return made;
}

// 1234567 as 1,234,567; a formula as it is.
const group = (text) => (/^\d{4,}$/.test(text) ? Number(text).toLocaleString("en") : text);

function showDetails(id) {
  const place = byId("details"), stage = stageNow();
  place.replaceChildren();
  if (id === null || id === undefined) {
    const groups = [...stage.children.keys()].length - 1;
    element("h2", `${stage.nodes.length} nodes`, place);
    element("p", `${stage.edges.length / 2} edges, ${groups} groups. Point at a node, or choose one.`, place);
    return;
  }
  const node = stage.byId.get(id), list = document.createElement("dl");
  element("h2", node.name && !PILLS.has(node.kind) ? `${node.name} = ${node.label}` : node.label, place);
  const row = (name, value) => { if (value) { element("dt", name, list); element("dd", group(value), list); } };
  row("type", node.type);
  row("is", state.kinds[node.kind]);
  row("result", (node.outputs ?? []).join(", "));
  row("line", (node.lines ?? []).join(", "));
  row("bytes", node.bytes);
  row("FLOPs", node.flops);
  for (const [name, value] of Object.entries(node.attrs ?? {})) row(name, value);
  const mark = stage.mark.get(id);
  row("pass", mark ? MARKS[mark][1] : "");
  place.append(list);
  if (isGroup(node)) {
    element("button", isOpen(node) ? "Close" : "Open", place, { type: "button", onclick: () => { toggle(id); showDetails(id); } });
  }
  showLinks("From", node.operands, place);
  showLinks("To", node.users, place);
}

function showLinks(title, ids, place) {
  if (!ids.length) return;
  element("p", `${title}:`, place, { className: "links" });
  for (const id of ids.slice(0, 40)) showLink(id, place, state.stage);
  if (ids.length > 40) element("span", `and ${ids.length - 40} more`, place);
}

function showLink(id, place, stage) {
  const node = prepare(state.stages[stage]).byId.get(id);
  const isValue = ["input", "variable", "parameter", "leaf"].includes(node.kind);
  const text = isValue || !node.name ? node.label : `${node.name} ${node.label}`;
  element("button", text, place, { type: "button", title: node.type ?? "", onclick: () => {
    if (stage !== state.stage) setStage(stage);
    select(id);
  } });
}

function showStage(stage) {
  const { length } = state.stages, count = (list, word) => (list.length ? `, ${list.length} ${word}` : "");
  const after = state.stage ? `after ${stage.name}` : `as ${stage.name}`;
  byId("pass-name").textContent = length < 2 ? "" : `${after} (${state.stage + 1} of ${length})` +
    `${count(stage.new, "new")}${count(stage.changed, "changed")}${count(stage.gone, "gone")}`;
  byId("pass").setAttribute("aria-valuetext", byId("pass-name").textContent);
  byId("pass").title = stage.counts.map(([rule, n]) => `${rule}: ${n}`).join("\n");
  const gone = byId("gone-list"), list = gone.querySelector("ul");
  gone.hidden = !stage.gone.length;
  gone.querySelector("summary").textContent = `Gone by ${stage.name}: ${stage.gone.length}`;
  list.replaceChildren();
  for (const id of stage.gone.slice(0, 60)) showLink(id, element("li", null, list), state.stage - 1);
  if (stage.gone.length > 60) element("li", `and ${stage.gone.length - 60} more`, list);
  showLegend(stage);
}

function showLegend(stage) {
  const list = byId("legend").querySelector("ul"), kinds = new Set(stage.nodes.map((n) => n.kind));
  list.replaceChildren();
  for (const kind of Object.keys(state.kinds)) {
    if (!kinds.has(kind)) continue;
    const [fill, stroke] = COLOURS[kind] ?? ["op", "op-line"], item = element("li", null, list);
    const chip = element("span", "", item, { className: PILLS.has(kind) ? "chip round" : "chip" });
    chip.style.cssText = `background: var(--${fill}); border-color: var(--${stroke}); border-style: ${kind === "saved" ? "dashed" : "solid"}`;
    element("span", `${kind}: ${state.kinds[kind]}`, item);
  }
  for (const mark of new Set(stage.mark.values())) {
    const item = element("li", null, list), chip = element("span", MARKS[mark][0], item, { className: "chip" });
    chip.style.cssText = `color: var(--page); background: var(--${mark}); border-color: var(--${mark})`;
    element("span", MARKS[mark][1], item);
  }
}

// -- events -------------------------------------------------------------------------------------

const pointers = new Map();
let hasMoved = false, spread = 0;

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, [event.clientX, event.clientY]);
  hasMoved = false;
  spread = 0;
});
canvas.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) return hoverAt(event);
  const [dx, dy] = [event.clientX - before[0], event.clientY - before[1]];
  if (!hasMoved && Math.hypot(dx, dy) < 4) return;
  hasMoved = true;
  pointers.set(event.pointerId, [event.clientX, event.clientY]);
  state.view.x += dx / pointers.size;
  state.view.y += dy / pointers.size;
  if (pointers.size === 2) {
    const [[ax, ay], [bx, by]] = pointers.values(), now = Math.hypot(ax - bx, ay - by);
    const rect = canvas.getBoundingClientRect();
    if (spread) zoom(now / spread, (ax + bx) / 2 - rect.left, (ay + by) / 2 - rect.top);
    spread = now;
  }
  redraw();
});
function release(event) {
  if (!pointers.delete(event.pointerId) || hasMoved || event.type === "pointercancel") return;
  const found = nodeAt(event.clientX, event.clientY);
  if (found?.onHandle) toggle(found.item.node.id);
  select(found ? found.item.node.id : null, false);
}
canvas.addEventListener("pointerup", release);
canvas.addEventListener("pointercancel", release);
canvas.addEventListener("dblclick", (event) => {
  const found = nodeAt(event.clientX, event.clientY);
  if (found && !found.onHandle) { toggle(found.item.node.id); showDetails(found.item.node.id); }
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const rect = canvas.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.clientX - rect.left, event.clientY - rect.top);
}, { passive: false });
canvas.addEventListener("pointerleave", () => hover(null));

function hoverAt(event) {
  const found = nodeAt(event.clientX, event.clientY);
  canvas.style.cursor = found ? "pointer" : "grab";
  hover(found ? found.item.node.id : null);
}

function hover(id) {
  if (id === state.hover) return;
  state.hover = id;
  showDetails(id ?? state.selected);
  redraw();
}

const KEYS = {
  ArrowUp: () => step("up"), ArrowDown: () => step("down"), ArrowLeft: () => step("left"), ArrowRight: () => step("right"),
  Enter: () => { if (state.selected !== null) { toggle(state.selected); showDetails(state.selected); } },
  Escape: () => select(null), "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: fit,
  o: () => openAll(true), c: () => openAll(false), "/": () => byId("find").focus(),
  "[": () => setStage(state.stage - 1), "]": () => setStage(state.stage + 1),
};
KEYS[" "] = KEYS.Enter;
document.addEventListener("keydown", (event) => {
  const isFind = event.key === "f" && (event.ctrlKey || event.metaKey);
  if (isFind) { event.preventDefault(); byId("find").focus(); byId("find").select(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  const isHere = document.activeElement === canvas || document.activeElement === document.body;
  if (!isHere) return;
  event.preventDefault();
  KEYS[event.key]();
});
byId("find").addEventListener("input", (event) => search(event.target.value, false));
byId("find").addEventListener("keydown", (event) => {
  if (event.key === "Enter") { event.preventDefault(); nextHit(event.shiftKey ? -1 : 1); }
  if (event.key === "Escape") { event.target.value = ""; search("", false); canvas.focus(); }
});
byId("pass").addEventListener("input", (event) => setStage(Number(event.target.value)));
byId("open").addEventListener("click", () => openAll(true));
byId("close").addEventListener("click", () => openAll(false));
byId("in").addEventListener("click", () => zoom(1.25));
byId("out").addEventListener("click", () => zoom(0.8));
byId("fit").addEventListener("click", fit);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); redraw(); });

// -- the beginning ------------------------------------------------------------------------------

// What follows # in the address says what is shown: #pass=fuse&open=all&find=matmul
function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const stage = state.stages.findIndex((s) => s.name === asked.get("pass"));
  setStage(stage < 0 ? state.shown : stage);
  if (asked.get("open") === "all") openAll(true);
  if (asked.has("find")) { byId("find").value = asked.get("find"); search(asked.get("find"), true); }
}

async function main() {
  const data = await readData();
  Object.assign(state, { stages: data.stages, kinds: data.kinds, shown: data.shown });
  const { length } = data.stages;
  byId("passes").hidden = length < 2;
  byId("pass").max = String(length - 1);
  readColours();
  readAddress();
  window.addEventListener("hashchange", readAddress);
  new ResizeObserver(redraw).observe(canvas);
  document.body.dataset.ready = "yes";
}
main();
