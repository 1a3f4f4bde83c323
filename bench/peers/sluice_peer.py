# SPDX-License-Identifier: MIT
"""Sluice, by its Python package: beside other systems' Python packages."""
import os

import peer


class Sluice(peer.Peer):
    def writer_open(self):
        import sluice
        os.environ["SLUICE_DIR"] = os.getcwd()
        self.writer = sluice.Writer("bench", shape=self.size, slots=peer.SLOTS, max_slots=peer.SLOTS, policy="wait", wait=30)

    def loan(self):
        self.frame = self.writer.frame()
        return self.frame[0].address

    def send(self, own):
        if own is None:
            self.frame.commit()
        else:
            self.writer.send(memoryview(own))

    def writer_close(self):
        self.writer.close()

    def reader_open(self):
        import sluice
        os.environ["SLUICE_DIR"] = os.getcwd()
        self.reader = sluice.Reader("bench", mode="in_order")

    def receive(self):
        self.frame = self.reader.next(timeout=30)
        return self.frame.view()

    def address(self):
        return self.frame[0].address

    def release(self):
        self.frame.release()

    def reader_close(self):
        self.reader.close()


peer.main(Sluice)
