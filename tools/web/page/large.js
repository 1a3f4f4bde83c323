// SPDX-License-Identifier: MIT
// One channel, large: its picture, what is chosen of it, and its statistics.

import { Stage } from "./stage.js";
import * as video from "./video.js";
import { bytes, duration, number, rate, sparkline } from "./text.js";

const $ = id => document.getElementById(id);
const HISTORY = 120; // seconds
const CROP_WAIT = 300, RANGE_WAIT = 150, VALUES_WAIT = 80, RETRY_WAIT = 1000; // ms
const STREAMED = [1280, 720]; // a picture that is larger comes in parts once it is zoomed

let channel = null, format = null, session = null, stop = null, playing = null, cropped = null, timers = {};
let source = { width: 0, height: 0, planes: 1, low: null, high: null };
const stage = new Stage($("stage"), moved, pointed);
const histories = new Map();

function later(name, wait, what) {
  clearTimeout(timers[name]);
  timers[name] = setTimeout(what, wait);
}

// ---- addresses ----

function look(more = {}) {
  const query = new URLSearchParams(), numbers = !$("numbers").hidden;
  if ($("array").value && $("array").value !== standard()?.name) query.set("array", $("array").value);
  if (numbers && $("colour").value !== "auto") query.set("colour", $("colour").value);
  if (numbers && Number($("index").value)) query.set("index", $("index").value);
  if (numbers && !$("range").checked && limits()) {
    query.set("low", limits()[0]);
    query.set("high", limits()[1]);
  }
  for (const [key, value] of Object.entries(more)) query.set(key, value);
  return query.size || [...query].length ? `?${query}` : "";
}

// The array that the server shows if none is named.
const standard = () => format?.arrays.find(one => one.image) ?? format?.arrays[0];

const address = (tree, end = "", more) => `/${tree}/${encodeURIComponent(channel)}${end}${look(more)}`;

// What the sliders say, in values of the array.
function limits() {
  const { low, high } = source, at = id => low + (high - low) * $(id).value / 1000;
  return low !== null && at("low") < at("high") ? [at("low"), at("high")] : null;
}

// ---- the picture ----

function message(text) {
  const old = $("stage").querySelector(".message");
  old?.remove();
  if (!text) return;
  const line = document.createElement("p");
  line.className = "message";
  line.textContent = text;
  $("stage").append(line);
}

function failed(text) {
  const name = channel;
  message(text);
  playing = null;
  later("retry", RETRY_WAIT, () => name && name === channel && start());
}

// Both call ready(picture) for each picture that is shown, and return a function that ends them.

function startVideo(url, ready) {
  const canvas = document.createElement("canvas");
  return video.play(url, canvas, () => ready(canvas, canvas.width, canvas.height), error => failed(error.message));
}

function startImages(url, ready) {
  const image = new Image();
  image.alt = channel;
  image.onload = () => ready(image, image.naturalWidth, image.naturalHeight);
  image.onerror = () => failed("No picture; trying again.");
  image.src = url;
  return () => {
    image.onload = image.onerror = null;
    image.src = "";
  };
}

// Starts, or starts again after a choice: the old picture stays until the new one is there.
function start() {
  const more = cropped ? { x: cropped.x, y: cropped.y, w: cropped.width, h: cropped.height } : {};
  const h264 = $("codec").value === "h264", url = address(h264 ? "h264" : "mjpeg", "", more);
  for (const kind of ["png", "npy"]) $(kind).href = address("snap", `.${kind}`);
  $("png").hidden = format && !image();
  if (url === playing) return;
  playing = url;
  const old = stop, part = cropped;
  let shown = false;
  const ready = (picture, width, height) => {
    if (shown) return;
    shown = true;
    message("");
    if (!format) stage.size(width, height); // until more is known
    stage.show(picture, part);
    old?.();
  };
  const end = h264 ? startVideo(url, ready) : startImages(url, ready);
  stop = () => {
    end();
    if (!shown) old?.();
    shown = true;
  };
}

// A zoomed picture that is larger than what is streamed comes as the part that is visible.
function moved() {
  $("zoom").textContent = `${Math.round(stage.scale * 100)} %`;
  if (!channel) return;
  later("crop", CROP_WAIT, () => {
    const part = stage.visible(), large = source.width > STREAMED[0] || source.height > STREAMED[1];
    const whole = !large || stage.fitted || (part.width >= source.width && part.height >= source.height);
    const wanted = whole || !part.width || !part.height ? null : part;
    if (JSON.stringify(wanted) === JSON.stringify(cropped)) return;
    cropped = wanted;
    start();
  });
}

// ---- values ----

let asking = false, next = null;

// The pixel under the pointer; one question at a time.
async function pointed(x, y) {
  next = x === null ? null : [x, y];
  if (asking || !channel) return;
  if (!next) {
    $("pixel").textContent = "\u00a0";
    return;
  }
  asking = true;
  const [at, of] = [next, channel];
  try {
    const values = await ask(at[0], at[1]);
    if (of === channel && next) $("pixel").textContent = `${at[0]}, ${at[1]}: ${values.values[0][0].map(number).join("  ")}`;
  } catch {
    $("pixel").textContent = "\u00a0";
  }
  setTimeout(() => {
    asking = false;
    if (!next || next[0] !== at[0] || next[1] !== at[1]) pointed(...(next ?? [null, null]));
  }, VALUES_WAIT);
}

async function ask(x, y) {
  const query = new URLSearchParams({ x, y });
  if ($("array").value) query.set("array", $("array").value);
  if (Number($("index").value)) query.set("index", $("index").value);
  const answer = await fetch(`/api/channels/${encodeURIComponent(channel)}/values?${query}`);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

// ---- what there is to choose ----

const array = () => format?.arrays.find(one => one.name === $("array").value);
const image = () => array()?.image;

function showLimits() {
  const at = limits();
  $("lowText").textContent = at ? number(at[0]) : "";
  $("highText").textContent = at ? number(at[1]) : "";
}

// Learns the size of the array, and the range of numbers, then starts.
async function choose() {
  const name = channel, plain = image() && /^u?int8$/.test(array().dtype);
  $("numbers").hidden = !array() || Boolean(plain);
  cropped = null;
  source = { width: image()?.width ?? 1, height: image()?.height ?? 1, planes: 1, low: null, high: null };
  if (!plain) {
    const values = await ask(0, 0).catch(() => ({}));
    if (name !== channel) return;
    Object.assign(source, values);
  }
  stage.size(source.width, source.height);
  $("planes").hidden = source.planes < 2;
  $("index").max = source.planes - 1;
  showLimits();
  start();
}

async function readFormat() {
  const name = channel;
  const answer = await fetch(`/api/channels/${encodeURIComponent(name)}`);
  if (!answer.ok || name !== channel) return;
  format = (await answer.json()).arrays ?? { arrays: [] };
  const wanted = $("array").value;
  $("array").replaceChildren(...format.arrays.map(one => new Option(one.name)));
  $("array").value = format.arrays.some(one => one.name === wanted) ? wanted : standard()?.name ?? "";
  choose();
}

export function open(name) {
  close();
  channel = name;
  $("name").textContent = name;
  document.title = `${name} – Sluice`;
  $("codec").value = localStorage.getItem("codec") === "h264" && !$("codec").disabled ? "h264" : "mjpeg";
  $("array").replaceChildren();
  $("numbers").hidden = true;
  start();
  readFormat();
  $("stage").focus({ preventScroll: true });
}

export function close() {
  Object.values(timers).forEach(clearTimeout);
  stop?.();
  stop = null;
  stage.show(null, null);
  message("");
  channel = format = session = playing = cropped = null;
  document.title = "Sluice";
}

// Nobody looks.
export function pause() {
  clearTimeout(timers.retry);
  stop?.();
  stop = playing = null;
}

// Somebody looks again, or the server was away and is back.
export function again() {
  playing = null;
  if (channel) readFormat();
}

// ---- statistics ----

function remember(one) {
  const history = histories.get(one.name) ?? { fps: [], latency: [] };
  histories.set(one.name, history);
  for (const [key, value] of [["fps", one.fps], ["latency", one.latency_ns]])
    history[key] = [...history[key], value ?? null].slice(-HISTORY);
}

function row(cells) {
  const line = document.createElement("tr");
  line.append(...cells.map(text => Object.assign(document.createElement("td"), { textContent: text })));
  return line;
}

function facts(one) {
  const list = [["writer", `${one.program ?? "–"} (${one.pid})`], ["device", one.device ?? "–"], ["format", one.format ?? one.reason ?? "–"],
    ["frames", one.frames ?? "–"], ["per second", `${rate(one.fps)} (${bytes(one.bytes_per_s)})`], ["dropped", one.drops ?? "–"],
    ["missed", one.missed ?? "–"], ["last frame", one.age_ns === null ? "–" : `${duration(one.age_ns)} ago`],
    ["longest latency", duration(one.longest_ns)], ["lease", duration(one.held_ns)], ["slots", one.slots ?? "–"]];
  $("facts").replaceChildren(...list.flatMap(([key, value]) => [
    Object.assign(document.createElement("dt"), { textContent: key }),
    Object.assign(document.createElement("dd"), { textContent: value })]));
}

// Shows the newest statistics of all channels.
export function update(list, encoder) {
  list.forEach(remember);
  $("codec").disabled = !video.possible || !encoder;
  $("codec").title = !encoder ? "The server has no encoder for H.264" : video.possible ? "" : "H.264 needs https, or this machine";
  const one = list.find(each => each.name === channel);
  if (!one) return;
  const history = histories.get(channel);
  $("state").textContent = one.state;
  $("state").className = `badge ${one.state === "live" ? "" : one.state === "dead" ? "dead" : "odd"}`;
  facts(one);
  $("fpsNow").textContent = rate(one.fps);
  $("latencyNow").textContent = duration(one.latency_ns);
  sparkline($("fps"), history.fps, HISTORY);
  sparkline($("latency"), history.latency, HISTORY);
  $("readers").replaceChildren(...(one.readers ?? []).map(reader => row([`${reader.program} (${reader.pid})`, reader.mode.replace("_", " "),
    rate(reader.fps), duration(reader.latency_ns), reader.slots.length ? `slot ${reader.slots.join(", ")}` : reader.leases || "–", reader.missed])));
  const now = `${one.session} ${one.generation}`;
  if (session !== null && one.session && session !== now) readFormat();
  session = one.session ? now : session;
}

// ---- keys and buttons ----

export function key(event) {
  const step = 40, keys = {
    "+": () => stage.zoom(1.5), "=": () => stage.zoom(1.5), "-": () => stage.zoom(1 / 1.5), "0": () => stage.fit(),
    "1": () => stage.zoom(1 / stage.scale), s: () => $("png").click(), n: () => $("npy").click(), f: fullScreen,
    Escape: () => { location.hash = ""; }, ArrowLeft: () => stage.move(-step, 0), ArrowRight: () => stage.move(step, 0),
    ArrowUp: () => stage.move(0, -step), ArrowDown: () => stage.move(0, step),
  };
  keys[event.key]?.();
  return event.key in keys;
}

function fullScreen() {
  if (document.fullscreenElement) document.exitFullscreen();
  else $("stage").requestFullscreen();
}

$("in").onclick = () => stage.zoom(1.5);
$("out").onclick = () => stage.zoom(1 / 1.5);
$("fit").onclick = () => stage.fit();
$("one").onclick = () => stage.zoom(1 / stage.scale);
$("full").onclick = fullScreen;
$("array").onchange = () => {
  Object.assign($("range"), { checked: true });
  for (const [id, value] of [["low", 0], ["high", 1000], ["index", 0], ["colour", "auto"]]) $(id).value = value;
  choose();
};
$("index").onchange = choose;
$("colour").onchange = start;
$("codec").onchange = () => {
  localStorage.setItem("codec", $("codec").value);
  start();
};
$("range").onchange = start;
for (const id of ["low", "high"])
  $(id).oninput = () => {
    $("range").checked = false;
    showLimits();
    later("range", RANGE_WAIT, start);
  };
