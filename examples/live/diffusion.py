# SPDX-License-Identifier: MIT
"""A diffusion loop at the sizes of SD-Turbo, by the models of diffusers: diffusion.py [diffusion.yaml] [--weights FOLDER] [--upstream]

UNet, ControlNet and the tiny autoencoder, captured as two CUDA graphs, with control and without. `pip install diffusers transformers
torch`. FOLDER is a pipeline's, as diffusers saves them, with a folder `controlnet` in it. Without one the weights are random, scaled so
that the input and the control change the picture measurably; if they cannot be, the engine does not start.
--upstream runs the package streamdiffusion 0.1.1 itself on the same networks (it has no control).

Parameters, all live: `prompt`, `seed`, `strength` 0 to 1, how much noise is added. Arguments of the engine: `steps` (set engine.delay to
steps - 1: a stream batch answers so much later), `random_seed`."""
import logging
import types
import zlib

import torch

import loop

SIZES = {"sample_size": 64, "block_out_channels": (320, 640, 1280, 1280), "attention_head_dim": (5, 10, 20, 20),
         "cross_attention_dim": 1024, "use_linear_projection": True}
OUTPUT_STD, CONTROL_MOVES, BRIGHTNESS_MOVES = 50, 10, 30  # of 255: what random weights are scaled to, and must reach
CONTROL_SCALE = 0.577  # at which the control does; twice as much is tried for
TRIES = 12
BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}


class Networks:
    """UNet, ControlNet, autoencoder, and what makes an embedding of a prompt."""

    def __init__(self, device, dtype, weights=None, sizes=SIZES):
        from diffusers import AutoencoderTiny, ControlNetModel, UNet2DConditionModel
        self.device, self.dtype, self.weights, self.width = device, dtype, weights, sizes["cross_attention_dim"]
        kinds = {"unet": UNet2DConditionModel, "controlnet": ControlNetModel, "vae": AutoencoderTiny}
        for name, kind in kinds.items():
            if weights:
                net = kind.from_pretrained(weights, subfolder=name, torch_dtype=dtype, local_files_only=True)
            else:
                with torch.device(device):
                    net = kind(**{key: size for key, size in sizes.items() if name == "unet" or key != "sample_size"}
                               if name != "vae" else {})
            # diffusers' own to() warns of a dtype, which is meant here
            setattr(self, name, torch.nn.Module.to(net.eval().requires_grad_(False), device, dtype, memory_format=torch.channels_last))
        if weights:
            from transformers import CLIPTextModel, CLIPTokenizer
            self.tokenizer = CLIPTokenizer.from_pretrained(weights, subfolder="tokenizer", local_files_only=True)
            self.text = CLIPTextModel.from_pretrained(weights, subfolder="text_encoder", local_files_only=True).to(device, dtype)
            self.width = self.text.config.hidden_size

    def embedding(self, prompt):
        """(1, 77, width). Without weights it is noise of its own for each prompt."""
        if not self.weights:
            return noise((1, 77, self.width), zlib.crc32(prompt.encode()))
        ids = self.tokenizer(prompt, padding="max_length", max_length=77, truncation=True, return_tensors="pt").input_ids
        with torch.no_grad():
            return self.text(ids.to(self.device))[0]


def noise(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(int(seed) & (1 << 63) - 1))


class Engine:
    def __init__(self, live, weights=None, upstream=False, steps=1, random_seed=7, sizes=SIZES):
        device, dtype = live.device, getattr(torch, live.dtype)
        if device == "host":
            raise SystemExit("diffusion: it runs on a GPU alone: set device to cuda:0, or take style.py or filter.py")
        self.steps, self.upstream, self.ignored = int(steps), upstream, set()
        torch.manual_seed(random_seed)
        self.nets = Networks(device, dtype, weights, sizes)
        self.prompt, self.seed, self.strength = "", 2, 0.3
        self.rebuild(live)
        if not weights:
            with torch.no_grad():
                make_sensitive(self)
        self.rebuild(live)

    # ---- what changes ----

    def rebuild(self, live):
        """The buffers and graphs for a size."""
        device, dtype, steps = self.nets.device, self.nets.dtype, self.steps
        self.size = live.size
        self.latent = (steps, self.nets.vae.config.latent_channels, self.size[1] // 8, self.size[0] // 8)
        self.noise = torch.zeros(self.latent, device=device, dtype=dtype)
        self.state = torch.zeros_like(self.noise[1:])  # the pictures that still lack steps
        self.embedding = self.nets.embedding(self.prompt).to(device, dtype)
        self.times = torch.zeros(steps, device=device, dtype=torch.long)
        self.signal, self.dirt = (torch.ones((steps, 1, 1, 1), device=device, dtype=dtype) for _ in range(2))
        betas = torch.linspace(BETAS["beta_start"] ** 0.5, BETAS["beta_end"] ** 0.5, 1000) ** 2
        self.kept = torch.cumprod(1 - betas, 0)
        self.stream = None
        self.set(self.prompt, self.seed, self.strength)
        if self.upstream:
            self.prepare_upstream()

    def set(self, prompt=None, seed=None, strength=None, **others):
        """Parameters are tensors that the graphs read: a change captures nothing."""
        if prompt is not None:
            self.prompt = str(prompt)
            loop.write(self.embedding, self.nets.embedding(self.prompt))
        if seed is not None:
            self.seed = int(seed)
            loop.write(self.noise, noise(self.latent, self.seed))
        if strength is not None:
            self.strength = min(max(float(strength), 0.01), 1.0)
            times = torch.tensor([round(999 * self.strength * (self.steps - at) / self.steps) for at in range(self.steps)])
            loop.write(self.times, times)
            loop.write(self.signal, self.kept[times].sqrt().view(-1, 1, 1, 1))
            loop.write(self.dirt, (1 - self.kept[times]).sqrt().view(-1, 1, 1, 1))
        if new := set(others) - self.ignored:
            self.ignored |= new
            logging.warning("diffusion: it has no parameters %s: prompt, seed and strength are its own", ", ".join(sorted(new)))

    # ---- a picture ----

    def paint(self, image, control=None):
        """One run: (1, 3, height, width) in -1 to 1, from the input of `steps - 1` runs ago."""
        if self.upstream:
            return self.paint_upstream(image)
        nets = self.nets
        fresh = self.signal[:1] * nets.vae.encode(image).latents + self.dirt[:1] * self.noise[:1]
        batch = torch.cat([fresh, self.state])
        words = self.embedding.expand(self.steps, -1, -1)
        residuals = {}
        if control is not None:
            hint = control.image.expand(self.steps, -1, -1, -1)
            down, middle = nets.controlnet(batch, self.times, words, hint, conditioning_scale=control.scale, return_dict=False)
            residuals = {"down_block_additional_residuals": down, "mid_block_additional_residual": middle}
        dirt = nets.unet(batch, self.times, words, return_dict=False, **residuals)[0]
        clean = (batch - self.dirt * dirt) / self.signal
        self.state.copy_(self.signal[1:] * clean[:-1] + self.dirt[1:] * self.noise[1:])
        return nets.vae.decode(clean[-1:]).sample

    def capture(self, image, control):
        self.graphs.capture("plain", self.paint, image)
        if not self.upstream:
            self.graphs.capture("controlled", self.paint, image, control)

    def __call__(self, image, control):
        return self.graphs.replay("controlled" if control.on and not self.upstream else "plain")

    # ---- the package streamdiffusion ----

    def prepare_upstream(self):
        from diffusers import LCMScheduler
        from streamdiffusion import StreamDiffusion
        nets = self.nets
        pipe = types.SimpleNamespace(device=torch.device(nets.device), vae_scale_factor=8, scheduler=LCMScheduler(**BETAS), unet=nets.unet,
                                     vae=nets.vae, text_encoder=None, encode_prompt=lambda prompt, **_: (nets.embedding(prompt).to(nets.device, nets.dtype), None))
        indices = [round(49 - 49 * self.strength * (self.steps - at) / self.steps) for at in range(self.steps)]
        stream = StreamDiffusion(pipe, indices, nets.dtype, *self.size, cfg_type="none")
        stream.prepare(self.prompt, num_inference_steps=50, seed=self.seed, generator=torch.Generator())
        # its own tensors are made once; with these, prompt, seed and strength stay live
        stream.prompt_embeds, stream.init_noise = self.embedding.expand(self.steps, -1, -1), self.noise
        stream.sub_timesteps_tensor, stream.alpha_prod_t_sqrt, stream.beta_prod_t_sqrt = self.times, self.signal, self.dirt
        self.stream, self.stock = stream, stream.stock_noise

    def paint_upstream(self, image):
        """Its three stages, which __call__ runs between a preprocessing of its own and a wait for the GPU."""
        stream = self.stream
        stream.x_t_latent_buffer, stream.stock_noise = self.state if self.steps > 1 else None, self.stock
        clean = stream.predict_x0_batch(stream.encode_image(image))
        if self.steps > 1:  # it has made new tensors, which a graph would write and never read
            self.state.copy_(stream.x_t_latent_buffer)
            self.stock.copy_(stream.stock_noise)
        return stream.decode_image(clean)


# ---- random weights that show something ----

def probe(size, device, dtype):
    """A picture and its control that are always the same."""
    x, y = torch.meshgrid(torch.linspace(-1, 1, size[0]), torch.linspace(-1, 1, size[1]), indexing="xy")
    picture = torch.stack([torch.sin(6 * x + 2 * y), y, torch.where(x.hypot(y) < 0.5, 0.8, -0.6)])[None]
    edges = ((x.hypot(y) - 0.5).abs() < 0.02).float().expand(1, 3, -1, -1)
    return picture.to(device, dtype), edges.to(device, dtype)


def normalise(conv, values, mean, std):
    """Scales a last convolution so that each of its channels has this mean and standard deviation."""
    values = values.float().transpose(0, 1).flatten(1)
    factor = std / values.std(1).clamp_min(1e-6)
    conv.weight.copy_(conv.weight.float() * factor.view(-1, 1, 1, 1))
    bias = torch.zeros_like(factor) if conv.bias is None else conv.bias.float()
    conv.bias = torch.nn.Parameter(((bias - values.mean(1)) * factor + mean).to(conv.weight.dtype), requires_grad=False)


def make_sensitive(engine):
    """ControlNet's outputs are zero by construction and random autoencoders are nearly gray: this scales them. RuntimeError if the input
    or the control still change too little."""
    nets, (picture, edges) = engine.nets, probe(engine.size, engine.nets.device, engine.nets.dtype)
    net = nets.controlnet
    zeroed = [*net.controlnet_down_blocks, net.controlnet_mid_block, net.controlnet_cond_embedding.conv_out]
    for conv in zeroed:
        torch.nn.init.normal_(conv.weight, std=0.02)

    def run(image, scale=0.0):
        control = types.SimpleNamespace(image=edges, scale=torch.tensor(scale, device=nets.device))
        engine.state.zero_()
        for _ in range(engine.steps):
            result = engine.paint(image, control)
        return result.float()

    encoder, decoder = nets.vae.encoder.layers[-1], nets.vae.decoder.layers[-1]
    normalise(encoder, nets.vae.encode(picture).latents, 0, 1)
    for _ in range(TRIES):
        normalise(decoder, (run(picture) + 1) / 2, 0.5, OUTPUT_STD / 255)
        brightness = moved(run(torch.full_like(picture, -1)), run(torch.ones_like(picture)))
        if brightness >= BRIGHTNESS_MOVES:
            break
        encoder.weight.mul_(1.25)  # more of the input than of the noise
    for _ in range(0 if engine.upstream else TRIES):
        control = moved(run(picture), run(picture, CONTROL_SCALE))
        if control >= 2 * CONTROL_MOVES:
            break
        for conv in zeroed:
            conv.weight.mul_(1.5)
    control = CONTROL_MOVES if engine.upstream else control
    if not (control >= CONTROL_MOVES and brightness >= BRIGHTNESS_MOVES):  # also if it is no number
        raise RuntimeError(f"diffusion: these random weights show too little: control moves the picture by {control:.1f} of 255, not "
                           f"{CONTROL_MOVES}, and black to white by {brightness:.1f}, not {BRIGHTNESS_MOVES}: set another random_seed")
    logging.info("diffusion: random weights: black to white moves the picture by %.0f of 255%s", brightness,
                 "" if engine.upstream else f", the control by {control:.0f}")


def moved(one, other):
    """How far two pictures are apart, of 255."""
    return float((one.float().clamp(-1, 1) - other.float().clamp(-1, 1)).abs().mean()) * 127.5


if __name__ == "__main__":
    loop.main(Engine, "diffusion.yaml", __doc__, weights={"metavar": "FOLDER", "help": "of a pipeline; else random weights"},
              upstream={"action": "store_true", "help": "run the package streamdiffusion"})
