"""clattn through its simple C face, and the limits of its device, for peers.py: ctypes and numpy arrays, no copy."""
import ctypes
import functools
import math
import pathlib
import time
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint, c_uint64
from ctypes import c_void_p

import numpy as np

DTYPES = {'f32': 0, 'f16': 1, 'bf16': 2}


class Failed(Exception):
    pass


def aligned(shape, dtype):
    """An array at a multiple of 64 bytes, which clattn uses in place."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(size + 64, np.uint8)
    at = -room.ctypes.data % 64
    return room[at:at + size].view(dtype).reshape(shape)


# ---- Structures, as in include/clattn -------------------------------------------------------------------------------


def structure(kind, /, **fields):
    return type(kind, (ctypes.Structure,), {'_fields_': list(fields.items())})


Tensor = structure('Tensor', buffer=c_void_p, host=c_void_p, offset_bytes=c_size_t, stride=c_int64 * 4)
Desc = structure(
    'clattn_attention_desc', batch=c_int64, heads_q=c_int64, heads_kv=c_int64, len_q=c_int64, len_kv=c_int64,
    d_qk=c_int64, d_v=c_int64, dtype=c_int, scale=c_float, softcap=c_float, causal=c_bool, alignment=c_int,
    window_left=c_int64, window_right=c_int64, keep=c_bool, bias=c_bool, bias_dtype=c_int, lengths_q=c_bool,
    lengths_kv=c_bool, packed=c_bool, sinks=c_bool, lse=c_bool, weights=c_int,
    workspace_bytes=c_size_t, kernel=c_void_p, device=c_void_p)
Call = structure(
    'clattn_attention_call', batch=c_int64, len_q=c_int64, len_kv=c_int64, total_q=c_int64, total_kv=c_int64, q=Tensor,
    k=Tensor, v=Tensor, keep=Tensor, bias=Tensor, sinks=Tensor, lengths_q=Tensor, lengths_kv=Tensor,
    cu_seqlens_q=Tensor, cu_seqlens_kv=Tensor, out=Tensor, lse=Tensor, weights=Tensor)
MhaDesc = structure(
    'clattn_mha_desc', batch=c_int64, len_q=c_int64, len_kv=c_int64, embed_dim=c_int64, kdim=c_int64, vdim=c_int64,
    heads=c_int64, head_sizes=c_void_p, dtype=c_int, causal=c_bool, alignment=c_int, key_padding=c_int, attn_mask=c_int,
    weights=c_int, workspace_bytes=c_size_t, kernel=c_void_p, gemm=c_void_p)
MhaCall = structure(
    'clattn_mha_call', batch=c_int64, len_q=c_int64, len_kv=c_int64, query=Tensor, key=Tensor, value=Tensor,
    key_padding=Tensor, attn_mask=Tensor, out=Tensor, attention=Tensor)
MhaWeights = structure(
    'clattn_mha_weights', dtype=c_int, in_proj_weight=c_void_p, q_proj_weight=c_void_p, k_proj_weight=c_void_p,
    v_proj_weight=c_void_p, in_proj_bias=c_void_p, q_proj_bias=c_void_p, k_proj_bias=c_void_p, v_proj_bias=c_void_p,
    out_proj_weight=c_void_p, out_proj_bias=c_void_p)
Info = structure('clattn_attention_info', kernel=c_char_p, why=c_char_p, gemm=c_char_p, workspace_bytes=c_size_t)
Options = structure('clattn_context_options', device=c_char_p, rest=c_char * 248)  # all zero is the default
Device = structure(
    'clattn_device_info', platform_id=c_void_p, device_id=c_void_p, type=c_uint64, compute_units=c_uint,
    memory_bytes=c_uint64, max_alloc_bytes=c_uint64, local_bytes=c_uint64, float_width=c_uint, has_compiler=c_bool,
    platform=c_char * 256, name=c_char * 256, version=c_char * 256, driver=c_char * 256)


def filled(kind, fill, expected):
    """A structure that the library fills: fields must come out as expected, and what lies behind it untouched."""
    room = (c_char * (ctypes.sizeof(kind) + 64)).from_buffer(bytearray(b'\xa5' * (ctypes.sizeof(kind) + 64)))
    made = kind.from_buffer(room)
    fill(made)
    seen = {field: getattr(made, field) for field in expected}
    if seen != expected or bytes(room[-64:]) != b'\xa5' * 64:
        raise Failed(f'{kind.__name__} of this library is another than the one known here: {seen}, not {expected}')
    return made


@functools.cache
class Library:
    """libclattn.so with a context on one device, which live as long as the process."""

    def __init__(self, path, device):
        self.c = ctypes.CDLL(path)
        for name in ('clattn_version', 'clattn_last_message'):
            getattr(self.c, name).restype = c_char_p
        for name in ('clattn_context_cl', 'clattn_context_queue'):
            getattr(self.c, name).restype = c_void_p
        for name in ('clattn_attention_plan_info', 'clattn_mha_info'):
            getattr(self.c, name).restype = Info
        self.c.clattn_context_device.restype = POINTER(Device)
        options = Options(device=device.encode() if device else None)
        self.context = self.make(self.c.clattn_context_create, byref(options))
        self.device = self.c.clattn_context_device(self.context).contents

    def check(self, status):
        if status != 0:
            raise Failed(self.c.clattn_last_message().decode())

    def make(self, create, *arguments):
        made = c_void_p()
        self.check(create(*arguments, byref(made)))
        return made

    def caller(self, run, plan, call):
        def attend():
            self.check(run(plan, byref(call)))
            return call.held[-1]
        return attend

    def facts(self, info):
        return dict(version=self.c.clattn_version().decode(), kernel=info.kernel.decode(),
                    gemm=(info.gemm or b'').decode(),
                    **{field: getattr(self.device, field).decode() for field in ('name', 'platform', 'driver')})


def attention(path, device, dtype, w, q, k, v):
    """A call that returns its answer, the same array each time, and what was picked."""
    lib = Library(path, device)
    sizes = dict(batch=w.batch, heads_q=w.heads_q, heads_kv=w.heads_kv, len_q=w.len_q, len_kv=w.len_kv, d_qk=w.size,
                 d_v=w.size)
    desc = filled(Desc, lambda d: lib.c.clattn_attention_desc_init(byref(d), *map(c_int64, sizes.values())),
                  dict(sizes, dtype=0, softcap=0, causal=False, alignment=0, window_left=-1, window_right=-1, lse=False,
                       weights=0, workspace_bytes=0, kernel=None, device=None))
    desc.causal, desc.dtype = w.causal, DTYPES[dtype]
    desc.weights = 1  # so that the last field of the call is filled
    call = filled(Call, lambda c: lib.c.clattn_attention_call_init(byref(desc), 0, byref(c)),
                  dict(batch=w.batch, len_q=w.len_q, len_kv=w.len_kv))
    if call.weights.stride[1] != w.len_q * w.len_kv:
        raise Failed('clattn_attention_call of this library is another than the one known here')
    desc.weights = 0
    out = aligned(q.shape, q.dtype)
    call.held = q, k, v, out
    call.q.host, call.k.host, call.v.host, call.out.host = (x.ctypes.data for x in call.held)
    plan = lib.make(lib.c.clattn_attention_plan_create, lib.context, byref(desc))
    return lib.caller(lib.c.clattn_attention_plan_run, plan, call), lib.facts(lib.c.clattn_attention_plan_info(plan))


def module(path, device, dtype, w, x, *weights):
    lib = Library(path, device)
    desc = filled(MhaDesc, lambda d: lib.c.clattn_mha_desc_init(
        byref(d), *map(c_int64, (w.batch, w.len, w.len, w.width, w.heads))),
        dict(batch=w.batch, len_q=w.len, embed_dim=w.width, vdim=w.width, heads=w.heads, weights=0, kernel=None,
             gemm=None))
    desc.dtype = DTYPES[dtype]
    call = filled(MhaCall, lambda c: lib.c.clattn_mha_call_init(byref(desc), byref(c)),
                  dict(batch=w.batch, len_q=w.len, len_kv=w.len))
    call.held = x, aligned(x.shape, x.dtype)
    call.query.host = call.key.host = call.value.host = x.ctypes.data
    call.out.host = call.held[-1].ctypes.data
    names = 'in_proj_weight', 'in_proj_bias', 'out_proj_weight', 'out_proj_bias'
    given = MhaWeights(dtype=desc.dtype, **{name: a.ctypes.data for name, a in zip(names, weights)})
    mha = lib.make(lib.c.clattn_mha_create, lib.context, byref(desc), byref(given))
    return lib.caller(lib.c.clattn_mha_run, mha, call), lib.facts(lib.c.clattn_mha_info(mha))


# ---- The device's limits --------------------------------------------------------------------------------------------

PEAK_GFLOP, READ_BYTES = 1, 256 << 20


def limit(path, device, name):
    """A call of the device's FMA peak ('fma') or of reading much memory ('read'), and GFLOP or GB of it: the kernels of
    clattn bench."""
    lib = Library(path, device)
    cl = ctypes.CDLL('libOpenCL.so.1')
    lanes = lib.device.float_width
    items = lib.device.compute_units * (8 if lanes > 1 else 2048)
    context, queue = c_void_p(lib.c.clattn_context_cl(lib.context)), c_void_p(lib.c.clattn_context_queue(lib.context))
    for function in ('clCreateProgramWithSource', 'clCreateKernel', 'clCreateBuffer'):
        getattr(cl, function).restype = c_void_p

    def check(error):
        if error != 0:
            raise Failed(f'{name}: OpenCL error {error}')

    def create(function, *arguments):
        error = c_int()
        made = c_void_p(function(*arguments, byref(error)))
        check(error.value)
        return made

    def buffer(size):
        return create(cl.clCreateBuffer, context, c_uint64(1), c_size_t(size), None)

    def caller(kernel_name, *arguments):
        kernel = create(cl.clCreateKernel, program, kernel_name)
        for i, argument in enumerate(arguments):
            check(cl.clSetKernelArg(kernel, c_uint(i), c_size_t(ctypes.sizeof(argument)), byref(argument)))
        sizes = byref(c_size_t(items)), byref(c_size_t(1)) if lanes > 1 else None

        def call():
            check(cl.clEnqueueNDRangeKernel(queue, kernel, c_uint(1), None, *sizes, c_uint(0), None, None))
            check(cl.clFinish(queue))
        return call

    def seconds(call):
        call()
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    text = c_char_p(pathlib.Path(__file__).with_name('bench_peak.cl').read_bytes())
    program = create(cl.clCreateProgramWithSource, context, c_uint(1), byref(text), None)
    options = f'-cl-std=CL1.2 -DSCALAR=float -DVEC=float{lanes if lanes > 1 else ""}'.encode()
    check(cl.clBuildProgram(program, c_uint(0), None, options, None, None))
    out = buffer(4 * lanes * items)
    if name == 'fma':
        rounds = max(4, int(PEAK_GFLOP * 1e9 / (24 * lanes * items)) // 4 * 4)
        both = [caller(kernel, out, c_int(rounds), c_float(0.999), c_float(1e-3)) for kernel in (b'by_fma', b'by_mad')]
        return min(both, key=seconds), 24e-9 * rounds * lanes * items
    count = READ_BYTES // (4 * lanes * items) // 4 * 4
    data = np.ones(count * lanes * items, np.float32)
    large = buffer(data.nbytes)
    check(cl.clEnqueueWriteBuffer(queue, large, c_uint(1), c_size_t(0), c_size_t(data.nbytes),
                                  c_void_p(data.ctypes.data), c_uint(0), None, None))
    steps = (count, 1) if lanes > 1 else (1, items)
    return caller(b'read_memory', out, large, *map(c_uint64, (count, *steps))), 1e-9 * data.nbytes
