// SPDX-License-Identifier: MIT
// Numbers as text, and sparklines.

export function duration(ns) {
  if (ns === null || ns === undefined) return "–";
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]])
    if (ns >= size) return `${(ns / size).toPrecision(3)} ${unit}`;
  return `${Math.round(ns)} ns`;
}

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  let unit = 0;
  for (; count >= 1024 && unit < 4; unit++) count /= 1024;
  return `${unit ? count.toPrecision(3) : count} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

export function rate(fps) {
  return fps === null || fps === undefined ? "–" : fps.toFixed(1);
}

export function number(value) {
  if (value === null) return "not finite";
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
}

// Draws the values, the newest at the right; null leaves a gap.
export function sparkline(canvas, values, length) {
  const scale = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const pen = canvas.getContext("2d"), most = Math.max(...values.filter(value => value !== null), 1e-9);
  pen.scale(scale, scale);
  pen.strokeStyle = getComputedStyle(canvas).getPropertyValue("--accent");
  pen.lineWidth = 1.5;
  pen.beginPath();
  let drawn = false;
  values.forEach((value, i) => {
    const x = width - (values.length - 1 - i) * width / (length - 1), y = height - 2 - (height - 5) * (value ?? 0) / most;
    if (value !== null && drawn) pen.lineTo(x, y);
    else if (value !== null) pen.moveTo(x, y);
    drawn = value !== null;
  });
  pen.stroke();
}
