# SPDX-License-Identifier: MIT
"""iceoryx2, by its Python package: a slice is loaned and sent, and an event wakes the subscriber."""
import ctypes
import gc
import os

import peer


class Iceoryx2(peer.Peer):
    def __init__(self, size):
        super().__init__(size)
        self.name = f"sluice-bench-{os.getpid()}"

    def services(self):
        import iceoryx2
        iceoryx2.set_log_level(iceoryx2.LogLevel.Error)
        self.node = iceoryx2.NodeBuilder.new().create(iceoryx2.ServiceType.Ipc)
        name = iceoryx2.ServiceName.new(self.name)
        self.service = (self.node.service_builder(name).publish_subscribe(iceoryx2.Slice[ctypes.c_uint8])
                        .enable_safe_overflow(False).subscriber_max_buffer_size(peer.SLOTS - 2).open_or_create())
        self.event = self.node.service_builder(name).event().open_or_create()
        return iceoryx2

    def writer_open(self):
        package = self.services()
        self.publisher = (self.service.publisher_builder().initial_max_slice_len(self.size)
                          .backpressure_strategy(package.BackpressureStrategy.RetryUntilDelivered).create())
        self.notifier = self.event.notifier_builder().create()

    def loan(self):
        self.sample = self.publisher.loan_slice_uninit(self.size)
        return self.sample.payload_ptr

    def send(self, own):
        if own is not None:
            ctypes.memmove(self.loan(), own, self.size)
        self.sample.assume_init().send()
        self.notifier.notify()

    def writer_close(self):
        self.sample = None
        self.publisher.delete()
        self.notifier.delete()
        self.leave()

    def leave(self):
        """Drops everything, which would otherwise stay in /dev/shm."""
        self.service = self.event = self.node = None
        gc.collect()

    def reader_open(self):
        self.failure = self.services().ListenerWaitError
        self.listener = self.event.listener_builder().create()
        self.subscriber = self.service.subscriber_builder().create()

    def receive(self):
        while (sample := self.subscriber.receive()) is None:
            try:
                self.listener.blocking_wait()
            except self.failure as failure:
                if "Interrupt" not in str(failure):  # stopped and continued: try again
                    raise
        self.sample = sample
        return sample.payload_ptr

    def address(self):
        return self.sample.payload_ptr

    def release(self):
        self.sample.delete()

    def reader_close(self):
        self.sample = None
        self.subscriber.delete()
        self.listener.delete()
        self.leave()


peer.main(Iceoryx2)
