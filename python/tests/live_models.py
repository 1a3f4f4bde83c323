# SPDX-License-Identifier: MIT
"""A pipeline of diffusers with small networks and random weights."""
import json


def small_pipeline(folder):
    """StableDiffusionPipeline; its tokenizer's files are written into the folder."""
    import diffusers
    import torch
    import transformers
    torch.manual_seed(0)
    letters = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]  # of CLIP's bytes
    words = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    text = transformers.CLIPTextConfig(vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
                                       num_attention_heads=4, bos_token_id=len(words) - 2, eos_token_id=len(words) - 1)
    return diffusers.StableDiffusionPipeline(
        vae=diffusers.AutoencoderTiny(encoder_block_out_channels=(8,) * 4, decoder_block_out_channels=(8,) * 4),
        text_encoder=transformers.CLIPTextModel(text),
        tokenizer=transformers.CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=77),
        unet=diffusers.UNet2DConditionModel(sample_size=8, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=32,
                                            attention_head_dim=8, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                                            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D")),
        scheduler=diffusers.LCMScheduler(), safety_checker=None, feature_extractor=None, requires_safety_checker=False)
