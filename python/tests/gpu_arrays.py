# SPDX-License-Identifier: MIT
"""Arrays of other libraries on a GPU, by ctypes: they speak DLPack, its exchange table, or the CUDA array interface,
and, if asked to, pass for PyTorch's."""
import ctypes
import sys
import types

CODES = {"int8": (0, 8), "uint8": (1, 8), "uint16": (1, 16), "int32": (0, 32), "float32": (2, 32), "complex64": (5, 64)}
CUDA, MANAGED, CPU = 2, 13, 1
PYTHON = ctypes.PyDLL(None)  # of our own: what types its functions take is ours to say


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("type", ctypes.c_int32), ("id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Versioned(ctypes.Structure):
    pass


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Versioned))
Versioned._fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                      ("deleter", DELETER), ("flags", ctypes.c_uint64), ("tensor", DLTensor)]

BORROW = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
CURRENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class Exchange(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
                ("allocate", ctypes.c_void_p), ("from_object", ctypes.c_void_p), ("to_object", ctypes.c_void_p),
                ("borrow", BORROW), ("current_stream", CURRENT)]


new_capsule = PYTHON.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Memory:
    """A GPU's, or managed."""

    def __init__(self, gpu, size, ordinal=0, managed=False):
        self.gpu, self.size, self.ordinal = gpu, size, ordinal
        address = ctypes.c_uint64()
        with gpu.relaxed(), on_gpu(gpu, ordinal):
            if managed:
                gpu.call("MemAllocManaged", ctypes.byref(address), ctypes.c_size_t(size), 1)
            else:
                gpu.call("MemAlloc", ctypes.byref(address), ctypes.c_size_t(size))
        self.address = address.value

    def free(self):
        with self.gpu.relaxed(), on_gpu(self.gpu, self.ordinal):
            self.gpu.call("MemFree", ctypes.c_uint64(self.address))


class on_gpu:
    """With another GPU's context, which stays: its memory goes with it."""
    contexts: dict = {}

    def __init__(self, gpu, ordinal):
        self.gpu, self.ordinal = gpu, ordinal

    def __enter__(self):
        self.gpu.enter()
        if self.ordinal:
            if self.ordinal not in self.contexts:
                context = self.contexts[self.ordinal] = ctypes.c_void_p()
                self.gpu.call("DevicePrimaryCtxRetain", ctypes.byref(context), self.ordinal)
            self.gpu.call("CtxSetCurrent", self.contexts[self.ordinal])

    def __exit__(self, *_):
        self.gpu.enter()


def c_strides(shape, itemsize=1):
    strides = []
    for extent in reversed(shape):
        strides.insert(0, itemsize)
        itemsize *= extent
    return tuple(strides)


class Array:
    """Without a protocol; `strides` are in elements."""

    def __init__(self, memory, shape, dtype="uint8", strides=None, device=CUDA, read_only=False, offset=0):
        self.memory, self.shape, self.dtype, self.device, self.read_only = memory, tuple(shape), dtype, device, read_only
        self.strides = tuple(strides or c_strides(shape))
        self.offset = offset
        self.asked, self.deleted = [], 0

    def tensor(self):
        code, bits = CODES[self.dtype]
        size = max(len(self.shape), 1)
        self.c_shape, self.c_strides = (ctypes.c_int64 * size)(*self.shape), (ctypes.c_int64 * size)(*self.strides)
        return DLTensor(self.memory.address, self.device, self.memory.ordinal, len(self.shape), code, bits, 1,
                        self.c_shape, self.c_strides, self.offset)


class DLPack(Array):
    def __dlpack_device__(self):
        return self.device, self.memory.ordinal

    def __dlpack__(self, *, stream=None, max_version=None):
        self.asked.append(stream)
        self.made_ready_on(stream)
        managed = Versioned(1, 0, None, DELETER(self.delete), 1 if self.read_only else 0, self.tensor())
        LIVE[ctypes.addressof(managed)] = managed, self
        return new_capsule(ctypes.addressof(managed), b"dltensor_versioned", ctypes.cast(DESTRUCTOR, ctypes.c_void_p))

    def made_ready_on(self, stream):
        pass

    def delete(self, managed):
        del LIVE[ctypes.addressof(managed.contents)]
        self.deleted += 1


LIVE = {}  # what capsules keep


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def DESTRUCTOR(capsule):
    """Nobody consumed it, and that is how it is with us."""
    managed = ctypes.cast(GET_POINTER(capsule, b"dltensor_versioned"), ctypes.POINTER(Versioned))
    managed.contents.deleter(managed)


GET_POINTER = PYTHON.PyCapsule_GetPointer
GET_POINTER.restype = ctypes.c_void_p
GET_POINTER.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


class CudaInterface(Array):
    def __init__(self, *args, stream=None, **others):
        super().__init__(*args, **others)
        self.stream = stream

    @property
    def __cuda_array_interface__(self):
        self.asked.append("interface")
        size = CODES[self.dtype][1] // 8
        return {"shape": self.shape, "typestr": {"uint8": "|u1", "float32": "<f4"}[self.dtype], "version": 3,
                "data": (self.memory.address, self.read_only), "strides": tuple(each * size for each in self.strides),
                "stream": self.stream}


class Tensor(DLPack):
    """Without the exchange table."""
    negative = conjugate = False

    def __init__(self, *args, grad=False, **others):
        super().__init__(*args, **others)
        self.requires_grad, self.called = grad, []

    def __dlpack__(self, **keywords):
        if self.requires_grad:
            raise BufferError("it wants gradients: use detach()")
        return super().__dlpack__(**keywords)

    def like(self, what, **changes):
        self.called.append(what)
        made = type(self)(self.memory, self.shape, self.dtype, self.strides)
        made.__dict__.update(self.__dict__, **changes)
        return made

    def detach(self):
        return self.like("detach", requires_grad=False)

    def is_neg(self):
        return self.negative

    def is_conj(self):
        return self.conjugate

    def resolve_neg(self):
        return self.like("resolve_neg", negative=False)

    def resolve_conj(self):
        return self.like("resolve_conj", conjugate=False)

    def contiguous(self):
        return self.packed()

    def copy_(self, other):
        self.called.append((other.address, CURRENT_STREAMS.get(0, 0)))


class Taken(Tensor):
    def __init__(self, managed):
        self.managed, self.address = managed, managed.tensor.data + managed.tensor.byte_offset
        self.shape = tuple(managed.tensor.shape[:managed.tensor.ndim])
        self.on = CURRENT_STREAMS.get(0, 0)

    def __del__(self):
        self.managed.deleter(ctypes.byref(self.managed))


def from_dlpack(array):
    capsule = array.__dlpack__(max_version=(1, 0))
    managed = ctypes.cast(GET_POINTER(id(capsule), b"dltensor_versioned"), ctypes.POINTER(Versioned))
    SET_NAME(id(capsule), b"used_dltensor_versioned")
    return Taken(managed.contents)


SET_NAME = PYTHON.PyCapsule_SetName
SET_NAME.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
for each in (Tensor, Taken):
    each.__module__ = "torch"
CURRENT_STREAMS = {}


@BORROW
def borrow(tensor, out):
    out[0] = tensor.tensor()
    return 0


MAKE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Versioned), ctypes.POINTER(ctypes.c_void_p))


@MAKE
def make(managed, out):
    """What frames hand over becomes a tensor, which ends as such do."""
    made = Taken(managed.contents)
    PYTHON.Py_IncRef(ctypes.py_object(made))
    out[0] = id(made)
    return 0


@CURRENT
def tell(_, ordinal, out):
    out[0] = CURRENT_STREAMS.get(ordinal, 0) or None
    return 0


EXCHANGE = Exchange(1, 3, None, None, 1, ctypes.cast(make, ctypes.c_void_p).value, borrow, tell)


class Torch:
    """Passes for PyTorch, as far as Sluice asks it: the current stream, and tensors with or without the exchange
    table."""

    def __init__(self, monkeypatch, exchange=True):
        self.current, self.exchange = CURRENT_STREAMS, exchange
        self.current.clear()
        module, cuda, c = (types.ModuleType(name) for name in ("torch", "torch.cuda", "torch._C"))
        cuda.is_initialized = lambda: True
        c._cuda_getCurrentRawStream = lambda ordinal: CURRENT_STREAMS.get(ordinal, 0)
        module.Tensor, module.cuda, module._C, module.from_dlpack = Tensor, cuda, c, from_dlpack
        self.Tensor = type("Tensor", (Tensor,), {"__module__": "torch"})
        if exchange:
            module.Tensor = self.Tensor
            self.Tensor.__dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(EXCHANGE), b"dlpack_exchange_api", None)
        for each in (module, cuda, c):
            monkeypatch.setitem(sys.modules, each.__name__, each)
