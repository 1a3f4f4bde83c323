// SPDX-License-Identifier: MIT
// The grid of channels, and which of them is open. The server sends the list once a second.

import * as large from "./large.js";
import { rate } from "./text.js";

const $ = id => document.getElementById(id);
const tiles = new Map();
const THUMB_WAIT = 1000, AT_ONCE = 3; // ms between two pictures of a tile; requests at a time

let channels = [], waiting = false;

// ---- tiles ----

function makeTile(name) {
  const tile = $("tile").content.firstElementChild.cloneNode(true);
  tile.href = `#/${encodeURIComponent(name)}`;
  tile.dataset.name = name;
  tile.querySelector(".name").textContent = tile.title = name;
  tile.next = 0;
  tiles.set(name, tile);
  return tile;
}

function fillTile(tile, one) {
  const badge = tile.querySelector(".badge");
  badge.textContent = one.state;
  badge.className = `badge ${one.state === "live" ? "" : one.state === "dead" ? "dead" : "odd"}`;
  tile.querySelector(".what").textContent = one.format ?? one.reason ?? "";
  tile.querySelector(".rate").textContent = one.fps === null || one.fps === undefined ? "" : `${rate(one.fps)} fps`;
  tile.live = one.state === "live";
}

function showGrid() {
  const text = $("filter").value.toLowerCase();
  const shown = channels.filter(one => one.name.toLowerCase().includes(text));
  const wanted = shown.map(one => {
    const tile = tiles.get(one.name) ?? makeTile(one.name);
    fillTile(tile, one);
    return tile;
  });
  for (const [name, tile] of tiles)
    if (!wanted.includes(tile)) {
      tile.remove();
      tiles.delete(name);
    }
  wanted.forEach((tile, i) => $("grid").children[i] !== tile && $("grid").insertBefore(tile, $("grid").children[i] ?? null));
  const live = channels.filter(one => one.state === "live").length;
  $("summary").textContent = `${live} live${channels.length > live ? `, ${channels.length - live} not` : ""}`;
  $("none").hidden = channels.length > 0 || !$("large").hidden;
}

// ---- thumbnails: single pictures, since a browser keeps few connections to a server ----

function isVisible(tile) {
  const box = tile.getBoundingClientRect();
  return box.bottom > 0 && box.top < innerHeight;
}

async function refresh(tile) {
  const image = tile.querySelector("img");
  tile.asked = true;
  try {
    const answer = await fetch(`/snap/${encodeURIComponent(tile.dataset.name)}.jpg?width=480&height=270`);
    if (!answer.ok) throw new Error(await answer.text());
    const old = image.src;
    image.src = URL.createObjectURL(await answer.blob());
    if (old) URL.revokeObjectURL(old);
    tile.next = performance.now() + THUMB_WAIT;
    tile.failures = 0;
  } catch (error) {
    tile.querySelector(".thumb").title = error.message;
    tile.failures = (tile.failures ?? 0) + 1;
    tile.next = performance.now() + THUMB_WAIT * Math.min(2 ** tile.failures, 30);
  }
  tile.asked = false;
}

function nextDue() {
  const now = performance.now();
  if (document.hidden || $("grid").hidden) return null;
  const due = [...tiles.values()].filter(tile => tile.live && !tile.asked && tile.next <= now && isVisible(tile));
  return due.sort((a, b) => a.next - b.next)[0] ?? null;
}

async function refreshLoop() {
  for (;;) {
    const tile = nextDue();
    if (tile) await refresh(tile);
    else await new Promise(done => setTimeout(done, 100));
  }
}

// ---- pages ----

function route() {
  let name = null;
  try {
    name = location.hash.startsWith("#/") ? decodeURIComponent(location.hash.slice(2)) : null;
  } catch { /* not an address of ours: all channels */ }
  $("grid").hidden = name !== null;
  $("large").hidden = name === null;
  $("filter").hidden = name !== null;
  if (name === null) large.close();
  else large.open(name);
  showGrid();
  large.update(channels, null);
  if (last) take(last);
}

let last = null;

function take(answer) {
  last = answer;
  channels = answer.channels;
  showGrid();
  large.update(channels, answer.encoder);
}

let events = null;

function connect() {
  events = new EventSource("/api/events");
  events.onmessage = event => take(JSON.parse(event.data));
  events.onopen = () => {
    if (waiting) large.again();
    waiting = false;
  };
  events.onerror = () => {
    waiting = true;
    $("summary").textContent = "The server does not answer; trying again.";
  };
}

// A browser keeps six connections to a server for all its tabs: one that is hidden uses none.
document.addEventListener("visibilitychange", () => {
  events.close();
  if (document.hidden) large.pause();
  else {
    connect();
    large.again();
  }
});

// ---- keys ----

function moveInGrid(key) {
  const list = [...$("grid").children], at = list.indexOf(document.activeElement);
  const across = list.filter(tile => tile.offsetTop === list[0]?.offsetTop).length || 1;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[key];
  if (step) list[Math.min(Math.max(at < 0 ? 0 : at + step, 0), list.length - 1)]?.focus();
  return Boolean(step);
}

document.addEventListener("keydown", event => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.ctrlKey || event.altKey || event.metaKey || $("keys").open) return;
  if (typing && event.key !== "Escape") return;
  let done = true;
  if (typing) event.target.blur();
  else if (event.key === "?") $("keys").showModal();
  else if (event.key === "/" && !$("filter").hidden) $("filter").focus();
  else done = $("large").hidden ? moveInGrid(event.key) : large.key(event);
  if (done) event.preventDefault();
});

const themes = ["", "light", "dark"];

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").textContent = theme || "theme";
  localStorage.setItem("theme", theme);
}

$("theme").onclick = () => setTheme(themes[(themes.indexOf(localStorage.getItem("theme") ?? "") + 1) % themes.length]);
$("help").onclick = () => $("keys").showModal();
$("filter").oninput = showGrid;
window.addEventListener("hashchange", route);
setTheme(localStorage.getItem("theme") ?? "");
route();
connect();
for (let i = 0; i < AT_ONCE; i++) refreshLoop();
