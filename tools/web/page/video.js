// SPDX-License-Identifier: MIT
// H.264 by fetch() and WebCodecs. A part is four bytes with the length of a packet, one byte that is 1 for a key frame,
// and the packet, so it is decoded as soon as it is here.

export const possible = window.isSecureContext && "VideoDecoder" in window;

const QUEUE = 8;   // packets that wait in the decoder before frames are skipped
const STILL = 100; // ms for which nothing is drawn while newer packets wait: decoding alone catches up

// The decoder's name for the stream's profile and level, from the first key frame.
function codecOf(packet) {
  for (let i = 0; i + 7 < packet.length; i++)
    if (packet[i] === 0 && packet[i + 1] === 0 && packet[i + 2] === 1 && (packet[i + 3] & 31) === 7)
      return "avc1." + [4, 5, 6].map(k => packet[i + k].toString(16).padStart(2, "0")).join("");
  return null;
}

// Calls part(key, packet) for each.
async function read(url, signal, part) {
  const answer = await fetch(url, { signal });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  const reader = answer.body.getReader();
  let held = new Uint8Array(0);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("The stream has ended.");
    const all = new Uint8Array(held.length + value.length);
    all.set(held);
    all.set(value, held.length);
    let at = 0;
    for (;;) {
      if (all.length - at < 5) break;
      const size = new DataView(all.buffer, at).getUint32(0);
      if (all.length - at < 5 + size) break;
      part(all[at + 4] === 1, all.subarray(at + 5, at + 5 + size));
      at += 5 + size;
    }
    held = all.slice(at);
  }
}

// Plays into a canvas until stop() is called; `fail` gets the error that ended it.
export function play(url, canvas, shown, fail) {
  const pen = canvas.getContext("2d"), abort = new AbortController();
  let decoder = null, codec = null, count = 0, skips = true, drawn = 0;

  function show(frame) {
    const now = performance.now();
    if (decoder.decodeQueueSize > 0 && now - drawn < STILL) {
      frame.close();
      return;
    }
    drawn = now;
    if (canvas.width !== frame.displayWidth || canvas.height !== frame.displayHeight) {
      canvas.width = frame.displayWidth;
      canvas.height = frame.displayHeight;
    }
    pen.drawImage(frame, 0, 0);
    frame.close();
    shown();
  }

  function part(key, packet) {
    const name = key && codecOf(packet);
    if (name && name !== codec) {
      decoder?.close();
      decoder = new VideoDecoder({ output: show, error: error => { abort.abort(); fail(error); } });
      decoder.configure({ codec: name, optimizeForLatency: true });
      codec = name;
    }
    skips = !decoder || (decoder.decodeQueueSize > QUEUE && !key) || (skips && !key);
    if (!skips) decoder.decode(new EncodedVideoChunk({ type: key ? "key" : "delta", timestamp: count++, data: packet }));
  }

  read(url, abort.signal, part).catch(error => abort.signal.aborted || fail(error));
  return function stop() {
    abort.abort();
    if (decoder && decoder.state !== "closed") decoder.close();
  };
}
