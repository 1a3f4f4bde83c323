# SPDX-License-Identifier: MIT
"""The way of web_video_server: OpenCV encodes each frame anew for each viewer. usage: opencv_mjpeg.py CHANNEL"""
import http.server
import sys

import cv2
import sluice

PAGE = b'<!doctype html><title>opencv</title><div id="stage"><img src="/stream"></div>'


class Viewer(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=b" if self.path == "/stream" else "text/html")
        self.end_headers()
        if self.path != "/stream":
            self.wfile.write(PAGE)
            return
        for frame in sluice.Reader(sys.argv[1], wait=10):
            image = cv2.cvtColor(frame.numpy("image"), cv2.COLOR_RGBA2BGR)
            data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 80])[1].tobytes()
            self.wfile.write(b"--b\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n%s\r\n" % (len(data), data))


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Viewer)
server.handle_error = lambda *_: None  # viewers that leave
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
