# SPDX-License-Identifier: MIT
"""Reads "camera", writes "edges": a jitted function of JAX. Set XLA_PYTHON_CLIENT_PREALLOCATE=false if others use the GPU."""
import jax
import jax.numpy as jnp

import sluice


@jax.jit
def edges(picture):
    gray = picture.astype(jnp.float32).mean(axis=2)
    across = jnp.abs(jnp.diff(gray, axis=1, append=gray[:, -1:]))
    down = jnp.abs(jnp.diff(gray, axis=0, append=gray[-1:]))
    return jnp.clip(4 * (across + down), 0, 255).astype(jnp.uint8)


def main():
    reader = sluice.Reader("camera", wait=30, hold=4)    # JAX may still be at work on frames that the loop has dropped
    count = 0
    size = reader.format["image"]
    with sluice.Writer("edges", sluice.Image("gray", size.width, size.height), device="cuda:0") as writer:
        for frame in reader:
            result = edges(frame.jax())        # JAX reads the slot; its result has memory of JAX's own
            writer.send(result, like=frame)
            count += 1
    print(count, "frames")


if __name__ == "__main__":
    main()
