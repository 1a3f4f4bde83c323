// SPDX-License-Identifier: MIT
// Reads the clock of tests/web/clock.c back from the picture that is shown, once for each frame of the display. Returns
// how old each new picture was when it could be seen first, in ms.
(count => new Promise(resolve => {
  const ages = [], canvas = document.createElement("canvas"), seen = new Set();
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  function look() {
    const picture = document.querySelector("#stage img, #stage canvas"), width = picture?.naturalWidth || picture?.width || 0;
    if (width) {
      const block = Math.floor(width / 32);
      canvas.width = width;
      canvas.height = block;
      pen.drawImage(picture, 0, 0);
      const row = pen.getImageData(0, block >> 1, width, 1).data;
      let time = 0;
      for (let bit = 0; bit < 32; bit++) time = time * 2 + (row[4 * (bit * block + (block >> 1)) + 1] > 127);
      const now = Math.round((performance.timeOrigin + performance.now()) * 10) % 2 ** 32;
      if (time && !seen.has(time)) {
        seen.add(time);
        ages.push((now - time) / 10);
      }
    }
    if (ages.length > count) resolve(ages.slice(1));
    else requestAnimationFrame(look);
  }
  look();
}))
