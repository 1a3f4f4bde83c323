# SPDX-License-Identifier: MIT
"""A consumer of DLPack by ctypes, and a stand-in for PyTorch that has as much of it as Sluice asks for."""
import ctypes
import sys
import types


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


PYTHON = ctypes.PyDLL("python", handle=sys.dllhandle) if sys.platform == "win32" else ctypes.PyDLL(None)  # our own: ctypes.pythonapi is shared, and the last user sets its argument types


def api(name, result, *arguments):
    function = getattr(PYTHON, name)
    function.restype, function.argtypes = result, arguments
    return function


is_valid = api("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
pointer_of = api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
rename = api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
new_capsule = api("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}


class Taken:
    """An array that was taken over; its end calls the deleter, without the GIL."""

    def __init__(self, capsule=None, address=None):
        name = b"dltensor_versioned"
        if capsule is not None:
            name = name if is_valid(capsule, name) else b"dltensor"
            address = pointer_of(capsule, name)
            rename(capsule, USED[name])
        self.address = address
        self.managed = (Versioned if name == b"dltensor_versioned" else Managed).from_address(address)
        tensor = self.managed.tensor
        self.data = tensor.data + tensor.offset
        self.device = tensor.device_type, tensor.device_id
        self.shape = tuple(tensor.shape[:tensor.ndim])
        self.strides = tuple(tensor.strides[:tensor.ndim])
        self.dtype = tensor.code, tensor.bits, tensor.lanes
        self.nbytes = tensor.bits // 8
        for extent in self.shape:
            self.nbytes *= extent
        self.read_only = name == b"dltensor_versioned" and bool(self.managed.flags & 1)

    def drop(self):
        if self.address:
            address, self.address = self.address, None
            self.managed.deleter(address)

    __del__ = drop


def take(array, stream=None, version=(1, 0)):
    return Taken(array.__dlpack__(stream=stream, max_version=version))


class DoubleTensor(Taken):
    def clone(self):
        return "a copy of", self.data


class Exchange(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)] + [
        (name, ctypes.c_void_p) for name in ("previous", "allocate", "from_object", "to_object", "borrow", "stream")]


def make_exchange(torch):
    """DLPack's exchange table, as PyTorch has it since 2.10."""

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
    def to_object(tensor, out):
        torch.exchanged += 1
        made = DoubleTensor(address=tensor)
        PYTHON.Py_IncRef(ctypes.py_object(made))
        out[0] = id(made)
        return 0

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    def stream(_kind, _ordinal, out):
        out[0] = torch.stream or None
        return 0

    never = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: -1)
    table = Exchange(1, 3, None, *[ctypes.cast(each, ctypes.c_void_p).value
                                   for each in (never, never, to_object, never, stream)])
    torch.keep = never, to_object, stream, table
    DoubleTensor.__dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(table), b"dlpack_exchange_api", None)


def install_torch(exchange=True, up=True):
    """Before Sluice meets a real one: in a process of its own. `stream` is what it works on."""
    torch = types.ModuleType("torch")
    torch.Tensor, torch.stream, torch.exchanged = DoubleTensor, 0, 0
    DoubleTensor.__module__ = "torch"
    torch.cuda, torch._C = types.ModuleType("torch.cuda"), types.ModuleType("torch._C")
    torch.cuda.is_initialized = lambda: up
    torch._C._cuda_getCurrentRawStream = lambda _ordinal: torch.stream
    torch.from_dlpack = lambda what: DoubleTensor(what if type(what).__name__ == "PyCapsule" else
                                                  what.__dlpack__(stream=torch.stream or 1))
    DoubleTensor.__dlpack__ = None
    if exchange:
        make_exchange(torch)
    for module in (torch, torch.cuda, torch._C):
        sys.modules[module.__name__] = module
    return torch
