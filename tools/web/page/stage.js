// SPDX-License-Identifier: MIT
// The picture of the large view: where it lies, zoom and move, which pixel is under the pointer.

const MOST = 64; // screen pixels for each pixel of the picture

export class Stage {
  // Calls moved() when the part that is shown changes, pointed(x, y) for the pixel under the pointer.
  constructor(element, moved, pointed) {
    Object.assign(this, { element, moved, pointed, width: 16, height: 9, scale: 1, x: 0, y: 0, fitted: true, picture: null, part: null });
    this.pointers = new Map();
    element.addEventListener("wheel", event => this.wheel(event), { passive: false });
    for (const kind of ["pointerdown", "pointermove", "pointerup", "pointercancel", "pointerleave"])
      element.addEventListener(kind, event => this.pointer(event));
    new ResizeObserver(() => this.fitted ? this.fit() : this.place()).observe(element);
  }

  // The size of the whole picture.
  size(width, height) {
    if (width === this.width && height === this.height) return;
    Object.assign(this, { width, height });
    this.fit();
  }

  // Shows an element; `part` is what it has of the picture: x, y, width, height, or null for all.
  show(picture, part) {
    const old = this.picture;
    Object.assign(this, { picture, part });
    if (old !== picture) {
      old?.remove();
      if (picture) this.element.append(picture);
    }
    this.place();
  }

  place() {
    this.element.classList.toggle("sharp", this.scale >= 3);
    if (!this.picture) return;
    const { x, y, width, height } = this.part ?? { x: 0, y: 0, width: this.width, height: this.height };
    const style = this.picture.style;
    style.left = `${x * this.scale - this.x}px`;
    style.top = `${y * this.scale - this.y}px`;
    style.width = `${width * this.scale}px`;
    style.height = `${height * this.scale}px`;
  }

  fit() {
    const { clientWidth: w, clientHeight: h } = this.element;
    if (!w || !h) return;
    this.scale = Math.min(w / this.width, h / this.height);
    this.x = (this.width * this.scale - w) / 2;
    this.y = (this.height * this.scale - h) / 2;
    this.fitted = true;
    this.place();
    this.moved();
  }

  // Zooms by a factor; the point px, py of the element stays where it is.
  zoom(factor, px = this.element.clientWidth / 2, py = this.element.clientHeight / 2) {
    const least = Math.min(this.element.clientWidth / this.width, this.element.clientHeight / this.height, 1);
    const scale = Math.min(Math.max(this.scale * factor, least), MOST), by = scale / this.scale;
    this.x = (this.x + px) * by - px;
    this.y = (this.y + py) * by - py;
    this.scale = scale;
    this.fitted = false;
    this.place();
    this.moved();
  }

  move(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.fitted = false;
    this.place();
    this.moved();
  }

  // The part of the picture that is visible, in whole pixels.
  visible() {
    const x = Math.max(0, Math.floor(this.x / this.scale)), y = Math.max(0, Math.floor(this.y / this.scale));
    const right = Math.min(this.width, Math.ceil((this.x + this.element.clientWidth) / this.scale));
    const bottom = Math.min(this.height, Math.ceil((this.y + this.element.clientHeight) / this.scale));
    return { x, y, width: Math.max(0, right - x), height: Math.max(0, bottom - y) };
  }

  wheel(event) {
    event.preventDefault();
    const box = this.element.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
  }

  pointer(event) {
    const box = this.element.getBoundingClientRect(), at = { x: event.clientX - box.left, y: event.clientY - box.top };
    const before = this.pointers.get(event.pointerId);
    if (event.type === "pointerdown") {
      this.element.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, at);
    } else if (event.type !== "pointermove") {
      this.pointers.delete(event.pointerId);
    } else if (before && this.pointers.size === 1) {
      this.move(before.x - at.x, before.y - at.y);
      this.pointers.set(event.pointerId, at);
    } else if (before) {
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
      const apart = (a, b) => Math.hypot(a.x - b.x, a.y - b.y) || 1;
      this.zoom(apart(at, other) / apart(before, other), (at.x + other.x) / 2, (at.y + other.y) / 2);
      this.pointers.set(event.pointerId, at);
    }
    const x = Math.floor((at.x + this.x) / this.scale), y = Math.floor((at.y + this.y) / this.scale);
    const inside = event.type !== "pointerleave" && x >= 0 && y >= 0 && x < this.width && y < this.height;
    this.pointed(inside ? x : null, inside ? y : null);
  }
}
