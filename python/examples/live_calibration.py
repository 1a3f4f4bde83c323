# SPDX-License-Identifier: MIT
"""Records what a network takes while it runs on the frames of a channel, then quantizes it: live_calibration.py MODEL.onnx"""
import sys

import numpy as np
import onnxruntime
from onnxruntime.quantization import quantize_static

import sluice
from sluice.live.calibrate import CalibrationSet, Recorder

model = sys.argv[1]
network = onnxruntime.InferenceSession(model)
picture = np.empty((1, 3, 64, 64), np.float32)
style = np.float32([[0.7, 0.3]])

with sluice.Reader("camera", wait=10) as reader, Recorder("calib", every=10) as recorder:
    for frame in reader:                                              # until the writer ends
        sluice.convert(picture, frame, scale=2, bias=-1)              # uint8 to -1..1
        inputs = {"picture": picture, "style": style}
        for name, tensor in inputs.items():
            recorder.tap(name, tensor)                                # of every 10th run
        painted, = network.run(None, inputs)

batches = CalibrationSet.load("calib").for_model(model)
print(f"{recorder.records} runs recorded, {len(batches)} batches")
quantize_static(model, "quantized.onnx", batches.reader())
