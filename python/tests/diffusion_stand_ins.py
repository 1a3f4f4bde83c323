# SPDX-License-Identifier: MIT
"""Engines that record what they are asked for, with the signatures of the real ones; a picture is the input's, inverted."""
import torch


class Net:
    """What a stream of StreamDiffusionWrapper keeps of its ControlNets."""

    def __init__(self):
        self.controlnet_images = [None, None]


class Stream:
    denoising_steps_num, use_denoising_batch = 1, True
    width, height, dtype, device = 16, 8, torch.float32, torch.device("cpu")
    last_frame_was_skipped = False

    def __init__(self):
        self._controlnet_module = Net()
        self.inputs = []

    def __call__(self, x=None):
        self.inputs.append(x)
        return -x


class StreamDiffusionWrapper:
    """As in forkni/StreamDiffusion at 04170e0."""

    def __init__(self, model_id_or_path="", t_index_list=(), mode="img2img", frame_buffer_size=1, width=512, height=512,
                 use_denoising_batch=True, cfg_type="self", seed=2, use_controlnet=False, controlnet_config=None):
        self.stream, self.calls, self.images = Stream(), [], []

    def update_stream_params(self, num_inference_steps=None, guidance_scale=None, delta=None, t_index_list=None, seed=None,
                             prompt_list=None, negative_prompt=None, prompt_interpolation_method="slerp",
                             normalize_prompt_weights=None, seed_list=None, seed_interpolation_method="linear",
                             normalize_seed_weights=None, controlnet_config=None, ipadapter_config=None,
                             image_preprocessing_config=None, image_postprocessing_config=None, latent_preprocessing_config=None,
                             latent_postprocessing_config=None, use_safety_checker=None, safety_checker_threshold=None,
                             cache_maxframes=None, cache_interval=None, fi_strength=None, fi_threshold=None):
        self.calls.append({name: value for name, value in locals().items()
                           if name != "self" and value not in (None, "slerp", "linear")})

    def update_control_image(self, index, image):
        self.images.append((index, image))
        self.stream._controlnet_module.controlnet_images[index] = image


class StreamDiffusion:
    """As in PyPI's streamdiffusion 0.1.1."""
    denoising_steps_num, use_denoising_batch, similar_image_filter = 1, True, False
    width, height, dtype, device = 16, 8, torch.float32, torch.device("cpu")

    def __init__(self, pipe=None, t_index_list=(), torch_dtype=torch.float16, width=512, height=512, do_add_noise=True,
                 use_denoising_batch=True, frame_buffer_size=1, cfg_type="self"):
        self.cfg_type, self.calls, self.delta = cfg_type, [], 1.0

    def prepare(self, prompt, negative_prompt="", num_inference_steps=50, guidance_scale=1.2, delta=1.0, generator=None, seed=2):
        self.calls.append(("prepare", prompt, num_inference_steps, seed))

    def update_prompt(self, prompt):
        self.calls.append(("update_prompt", prompt))

    def encode_image(self, image_tensors):
        return image_tensors

    def predict_x0_batch(self, x_t_latent):
        return -x_t_latent

    def decode_image(self, x_0_pred_out):
        assert not torch.is_grad_enabled()
        return x_0_pred_out


class Result:
    def __init__(self, images):
        self.images = images


class ControlNetImg2ImgPipeline:
    """As StableDiffusionControlNetImg2ImgPipeline of diffusers 0.42."""

    def __init__(self):
        self.calls = []

    def __call__(self, prompt=None, image=None, control_image=None, height=None, width=None, strength=0.8, num_inference_steps=50,
                 guidance_scale=7.5, negative_prompt=None, generator=None, output_type="pil", controlnet_conditioning_scale=0.8):
        self.calls.append(locals())
        return Result(1 - image)


class Img2ImgPipeline:
    def __init__(self):
        self.calls = []

    def __call__(self, prompt=None, image=None, strength=0.8, num_inference_steps=50, generator=None, output_type="pil"):
        self.calls.append(locals())
        return Result(1 - image)
