#!/usr/bin/env python3
"""Times clattn, PyTorch, ONNX Runtime and OpenVINO on the CPU, taking turns, on workloads that people run.

    pip install torch onnx onnxruntime openvino numpy      (numpy alone is enough with --peers '')
    tools/peers.py --workloads base-512,vit --rounds 10
    tools/peers.py --modules                               the multi-head attention module against PyTorch's
    tools/peers.py --dtype bf16                            clattn in bf16 against clattn in f32

clattn is build/libclattn.so, or --library, called over numpy arrays that it does not copy, one plan a workload. Every
answer is compared with one in double precision before it is timed, clattn's with PyTorch's too; a wrong one gets no
time.

f32, every core, useful work only: causal counts the pairs that are visible; a row with one query counts the bytes of K
and V instead. "limit" is P, the device's FMA peak, or its bandwidth from memory (keys that fit a cache can beat it),
measured in the same rounds. The ratio is clattn's median speed over that of the fastest peer. The device is the
library's pick, or --device; OCL_ICD_VENDORS chooses among OpenCL implementations.

Each contestant is a process of its own, stopped while it waits for its turn. In one process, or left running, medians
were the same within 5 %, but the others' threads, which spin on, made one call in ten far longer: on decode-4096 the
90th percentile of PyTorch rose from 3.5 to 8.0 ms and that of OpenVINO from 19 to 29 (two cores, Skylake).
"""
import argparse
import collections
import ctypes
import importlib.util
import json
import math
import multiprocessing
import os
import pathlib
import signal
import sys
import time

import numpy as np

import peers_clattn
from peers_clattn import DTYPES, Failed, aligned

ROOT = pathlib.Path(__file__).resolve().parents[1]
CORES = len(os.sched_getaffinity(0))
TOLERANCE = {'f32': 1e-5, 'f16': 2e-3, 'bf16': 2e-2}  # of numbers up to 1

# ---- Workloads ------------------------------------------------------------------------------------------------------


def stored(x, dtype):
    """f32 numbers as they are stored; bf16 as the upper half of f32, rounded to even."""
    if dtype == 'bf16':
        bits = x.view(np.uint32)
        x = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    out = aligned(x.shape, {'f32': np.float32, 'f16': np.float16, 'bf16': np.uint16}[dtype])
    out[:] = x
    return out


def numbers(x, dtype):
    return (x.astype(np.uint32) << 16).view(np.float32) if dtype == 'bf16' else x.astype(np.float32)


def softmax(s):
    s = np.exp(s - s.max(-1, keepdims=True))
    return s / s.sum(-1, keepdims=True)


SIZES = 'batch heads_q heads_kv len_q len_kv size causal'


class Attention(collections.namedtuple('Attention', SIZES, defaults=[False])):
    @property
    def shapes(self):
        kv = (self.batch, self.heads_kv, self.len_kv, self.size)
        return (self.batch, self.heads_q, self.len_q, self.size), kv, kv

    def work(self, dtype):
        """What counts: GFLOP, or for one query GB of K and V."""
        if self.len_q == 1:
            return (4e-9 if dtype != 'f32' else 8e-9) * self.batch * self.heads_kv * self.len_kv * self.size
        pairs = self.len_q * self.len_kv
        if self.causal:  # the last query is level with the last key, and no workload has more queries than keys
            pairs -= self.len_q * (self.len_q - 1) // 2
        return 4e-9 * self.batch * self.heads_q * self.size * pairs

    @property
    def limit(self):
        return 'read' if self.len_q == 1 else 'fma'

    def inputs(self):
        random = np.random.default_rng(0)
        return [random.uniform(-1, 1, shape).astype(np.float32) for shape in self.shapes]

    def truth(self, q, k, v):
        hidden = 0
        if self.causal:
            hidden = np.triu(np.full((self.len_q, self.len_kv), -np.inf), 1 + self.len_kv - self.len_q)
        out = np.empty(q.shape)
        for b, h in np.ndindex(self.batch, self.heads_q):
            g = h * self.heads_kv // self.heads_q
            scores = q[b, h].astype(float) @ k[b, g].T.astype(float) / math.sqrt(self.size)
            out[b, h] = softmax(scores + hidden) @ v[b, g].astype(float)
        return out


class Module(collections.namedtuple('Module', 'batch len width heads')):
    limit = 'fma'

    def work(self, _):
        return 1e-9 * self.batch * (8 * self.len * self.width ** 2 + 4 * self.len ** 2 * self.width)

    def inputs(self):
        """x, in_proj_weight, in_proj_bias, out_proj.weight, out_proj.bias."""
        random = np.random.default_rng(0)
        w = self.width
        shapes = (self.batch, self.len, w), (3 * w, w), (3 * w,), (w, w), (w,)
        return [random.uniform(-1, 1, shape).astype(np.float32) * scale
                for shape, scale in zip(shapes, [1] + [w ** -0.5] * 4)]

    def truth(self, *inputs):
        x, w_in, b_in, w_out, b_out = (a.astype(float) for a in inputs)
        size = self.width // self.heads
        q, k, v = (x @ w_in.T + b_in).reshape(self.batch, self.len, 3, self.heads, size).transpose(2, 0, 3, 1, 4)
        out = softmax(q @ k.swapaxes(-1, -2) / math.sqrt(size)) @ v
        return out.swapaxes(1, 2).reshape(x.shape) @ w_out.T + b_out


WORKLOADS = {
    'base-512': Attention(1, 12, 12, 512, 512, 64),
    'base-512c': Attention(1, 12, 12, 512, 512, 64, True),
    'base-2048': Attention(1, 12, 12, 2048, 2048, 64),
    'base-2048c': Attention(1, 12, 12, 2048, 2048, 64, True),
    'bert-batch': Attention(16, 12, 12, 128, 128, 64),
    'vit': Attention(8, 12, 12, 197, 197, 64),
    'whisper': Attention(1, 20, 20, 1500, 1500, 64),
    'diffusion': Attention(2, 8, 8, 1024, 1024, 40),
    'diffusion-x': Attention(2, 8, 8, 1024, 77, 40),
    'llama-prefill': Attention(1, 32, 8, 1024, 1024, 128, True),
    'llama-decode': Attention(1, 32, 8, 1, 8192, 128),
    'decode-4096': Attention(1, 12, 12, 1, 4096, 64),
    'decode-batch': Attention(8, 32, 8, 1, 1024, 128),
    'mha-base': Module(1, 512, 768, 12),
    'mha-long': Module(1, 2048, 768, 12),
    'tiny': Attention(2, 4, 2, 7, 7, 8, True),  # for tests
    'tiny-decode': Attention(2, 4, 2, 1, 7, 8),
    'tiny-mha': Module(2, 5, 8, 2),
}

# ---- Peers ----------------------------------------------------------------------------------------------------------


def torch_attention(options, dtype, w, *inputs):
    import torch
    torch.set_num_threads(CORES)
    q, k, v = map(torch.from_numpy, inputs)
    attend = torch.nn.functional.scaled_dot_product_attention

    def call():
        with torch.inference_mode():
            return attend(q, k, v, is_causal=w.causal, enable_gqa=w.heads_q != w.heads_kv)
    return call, lambda y: y.numpy(), {}


def torch_module(options, dtype, w, x, *weights):
    import torch
    torch.set_num_threads(CORES)
    module = torch.nn.MultiheadAttention(w.width, w.heads, batch_first=True).eval()
    names = 'in_proj_weight', 'in_proj_bias', 'out_proj.weight', 'out_proj.bias'
    module.load_state_dict({name: torch.from_numpy(a) for name, a in zip(names, weights)})
    x = torch.from_numpy(x)

    def call():
        with torch.inference_mode():
            return module(x, x, x, need_weights=False)[0]
    return call, lambda y: y.numpy(), {}


def ort_session(node, inputs, domains):
    import onnx
    import onnxruntime
    tensors = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, x.shape) for name, x in inputs.items()]
    out = onnx.helper.make_tensor_value_info('out', onnx.TensorProto.FLOAT, None)
    model = onnx.helper.make_model(onnx.helper.make_graph([node], 'attention', tensors, [out]), ir_version=10,
                                   opset_imports=[onnx.helper.make_opsetid(*domain) for domain in domains.items()])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = CORES
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=['CPUExecutionProvider'])
    return lambda: session.run(None, inputs)[0]


def ort_attention(options, dtype, w, *inputs):
    import onnx
    node = onnx.helper.make_node('Attention', ['q', 'k', 'v'], ['out'], is_causal=int(w.causal))
    return ort_session(node, dict(zip('qkv', inputs)), {'': 23}), np.asarray, {}


def ort_mha(options, dtype, w, *inputs):
    import onnx
    if w.heads_q != w.heads_kv:
        raise Failed('has no grouped heads')
    merged = [np.ascontiguousarray(x.swapaxes(1, 2)).reshape(w.batch, x.shape[2], -1) for x in inputs]
    node = onnx.helper.make_node('MultiHeadAttention', ['q', 'k', 'v'], ['out'], domain='com.microsoft',
                                 num_heads=w.heads_q, unidirectional=int(w.causal))
    call = ort_session(node, dict(zip('qkv', merged)), {'': 21, 'com.microsoft': 1})
    return call, lambda y: y.reshape(w.batch, w.len_q, w.heads_q, w.size).swapaxes(1, 2), {}


def openvino_attention(options, dtype, w, *inputs):
    import openvino
    from openvino import opset13
    if w.heads_q != w.heads_kv:
        raise Failed('has no grouped heads')
    parameters = [opset13.parameter(x.shape, np.float32) for x in inputs]
    model = openvino.Model([opset13.scaled_dot_product_attention(*parameters, causal=w.causal)], parameters)
    settings = {'INFERENCE_PRECISION_HINT': 'f32', 'INFERENCE_NUM_THREADS': CORES}
    request = openvino.Core().compile_model(model, 'CPU', settings).create_infer_request()
    inputs = list(inputs)
    return lambda: request.infer(inputs, share_inputs=True)[0], np.asarray, {}


def clattn(options, dtype, w, *inputs):
    create = peers_clattn.module if isinstance(w, Module) else peers_clattn.attention
    call, facts = create(options.library, options.device, dtype, w, *inputs)
    return call, np.copy, facts


ATTENTION = {'clattn': clattn, 'clattn-f32': clattn, 'torch': torch_attention, 'ort': ort_attention, 'ort-mha': ort_mha,
             'openvino': openvino_attention}
MODULES = {'clattn': clattn, 'clattn-f32': clattn, 'torch': torch_module}
PACKAGES = {'torch': ['torch'], 'ort': ['onnx', 'onnxruntime'], 'ort-mha': ['onnx', 'onnxruntime'],
            'openvino': ['openvino']}
LIMITS = {'fma': 'P', 'read': 'read'}

# ---- Taking turns ---------------------------------------------------------------------------------------------------


def prepare(options, name, workload):
    """The call, its answer in f32 and what is known of it; of a limit the call and its GFLOP or GB."""
    if name in LIMITS:
        call, work = peers_clattn.limit(options.library, options.device, name)
        return call, None, dict(work=work)
    w, dtype = WORKLOADS[workload], options.dtype if name == 'clattn' else 'f32'
    makers = MODULES if isinstance(w, Module) else ATTENTION
    if name not in makers:
        raise Failed('has no such module')
    call, answer, facts = makers[name](options, dtype, w, *(stored(x, dtype) for x in w.inputs()))
    return call, numbers(answer(call()), dtype), dict(facts, work=w.work(dtype))


def take_turns(pipe, options, name):
    """The child process: prepares a workload when told to, and calls it for some seconds as often as it is told to."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no child, which may be stopped, outlives its parent
    call = None
    while True:
        order, value = pipe.recv()
        try:
            if order == 'prepare':
                call = None  # frees the last one's tensors
                call, answer, facts = prepare(options, name, value)
                pipe.send((answer, facts))
                continue
            call()
            times, begin, end = [], 0, time.perf_counter() + value
            while begin < end:
                begin = time.perf_counter()
                call()
                times.append(time.perf_counter() - begin)
            pipe.send(times)
        except Exception as e:
            pipe.send(Failed(str(e).strip().partition('\n')[0][:200] or type(e).__name__))


class Contestant:
    """A child process that stands still, stopped, while it is not its turn."""

    def __init__(self, options, name):
        spawn = multiprocessing.get_context('spawn')
        self.pipe, far = spawn.Pipe()
        self.process = spawn.Process(target=take_turns, args=(far, options, name), daemon=True)
        self.process.start()
        far.close()

    def ask(self, order, value):
        os.kill(self.process.pid, signal.SIGCONT)
        self.pipe.send((order, value))
        try:
            answer = self.pipe.recv()
        except EOFError:
            self.process.join()
            sys.exit(f'peers.py: {order} {value}: a child process ended with {self.process.exitcode}')
        os.kill(self.process.pid, signal.SIGSTOP)
        if isinstance(answer, Failed):
            raise answer
        return answer


def measure(options, contestants, workload):
    """One row: for each contestant the seconds of a call (10th, 50th and 90th percentile), or why there are none."""
    w = WORKLOADS[workload]
    truth = w.truth(*(numbers(stored(x, options.dtype), options.dtype) for x in w.inputs()))
    row = dict(workload=workload, unit='GB/s' if w.limit == 'read' else 'GFLOP/s', limit=w.limit, seconds={}, facts={},
               difference={}, refused={})
    answers, times = {}, {}
    for name, one in contestants.items():
        try:
            answer, row['facts'][name] = one.ask('prepare', workload)
            if answer is not None:
                answers[name] = answer
                row['difference'][name] = float(np.abs(answer - truth).max())
                if not row['difference'][name] <= TOLERANCE[options.dtype]:
                    raise Failed(f'wrong: the largest difference is {row["difference"][name]:.3g}')
            times[name] = []
        except Failed as e:
            row['refused'][name] = str(e)
    if 'clattn' not in times:
        return row
    if 'torch' in answers:
        row['difference_from_torch'] = float(np.abs(answers['clattn'] - answers['torch']).max())
    for turn in range(options.rounds):
        for name in list(times)[::1 if turn % 2 else -1]:
            times[name] += contestants[name].ask('time', options.seconds / (4 if name in LIMITS else 1))
    row['seconds'] = {name: list(np.percentile(t, [10, 50, 90])) for name, t in times.items()}
    row['share'] = speeds(row, 'clattn')[1] / speeds(row, row['limit'])[1]
    there = [name for name in options.peers if name in times]
    row['best'] = min(there, key=lambda name: row['seconds'][name][1], default=None)
    if row['best']:
        row['ratio'] = row['seconds'][row['best']][1] / row['seconds']['clattn'][1]
    return row


def speeds(row, name):
    """GFLOP/s or GB/s, fast, median and slow."""
    return [row['facts'][name]['work'] / seconds for seconds in row['seconds'][name]]


def line(row, peers):
    if not row['seconds']:
        return f'{row["workload"]:13} no time: {row["refused"]["clattn"]}'
    fast, median, slow = speeds(row, 'clattn')
    cells = [f'{speeds(row, name)[1]:.4g}' if name in row['seconds'] else '-' for name in peers]
    cells.append(f'{row["ratio"]:.2f}' if 'ratio' in row else '-')
    cells.append(f'{row["difference_from_torch"]:.1e}' if 'difference_from_torch' in row else '-')
    return (f'{row["workload"]:13} {median:7.4g} {f"{slow:.4g}-{fast:.4g}":>13} {row["unit"]:7} {row["share"]:5.0%} of '
            f'{LIMITS[row["limit"]]:4} {row["difference"]["clattn"]:.1e}' + ''.join(f' {cell:>10}' for cell in cells))


# ---- The program ----------------------------------------------------------------------------------------------------


def read_options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--workloads', help='names with commas between; default those before mha-base of ' +
                   ', '.join(WORKLOADS))
    p.add_argument('--modules', action='store_true', help='the workloads mha-base and mha-long')
    p.add_argument('--peers', help='names with commas between, or empty; default ' + ','.join(PACKAGES))
    p.add_argument('--dtype', choices=list(DTYPES), default='f32', help='f16 or bf16: clattn alone, against its f32')
    p.add_argument('--rounds', type=int, default=7, help='turns of each contestant; default 7')
    p.add_argument('--seconds', type=float, default=0.4, help='length of a turn; default 0.4')
    p.add_argument('--library', metavar='PATH', default=str(ROOT / 'build/libclattn.so'), help='default %(default)s')
    p.add_argument('--device', metavar='SELECTOR', help='as for clattn run')
    p.add_argument('--json', metavar='FILE', help='also write everything that was seen to FILE')
    o = p.parse_args()
    kind = Module if o.modules else Attention
    default = [name for name, w in WORKLOADS.items() if isinstance(w, kind) and not name.startswith('tiny')]
    o.workloads = o.workloads.split(',') if o.workloads else default
    default = 'clattn-f32' if o.dtype != 'f32' else ','.join(PACKAGES)
    o.peers = [name for name in (default if o.peers is None else o.peers).split(',') if name]
    for name in o.workloads:
        if name not in WORKLOADS:
            p.error(f'--workloads {name}: not one of {", ".join(WORKLOADS)}')
    for name in o.peers:
        if name not in ATTENTION or name == 'clattn':
            p.error(f'--peers {name}: not one of {", ".join(n for n in ATTENTION if n != "clattn")}')
        for package in PACKAGES.get(name, ()):
            if importlib.util.find_spec(package) is None:
                p.error(f'--peers {name}: pip install {package}, or leave {name} out of --peers')
    if not os.path.exists(o.library):
        p.error(f'--library {o.library}: there is no such file; build it, or say where it is')
    if o.rounds < 1 or not 0 < o.seconds < 3600:
        p.error(f'--rounds {o.rounds} --seconds {o.seconds}: at least one round and some time are wanted')
    if o.json and not os.access(os.path.dirname(o.json) or '.', os.W_OK):
        p.error(f'--json {o.json}: its folder cannot be written')
    return o


def conclude(o, rows):
    """Prints what holds for all rows; everything together, for --json."""
    timed = [row for row in rows if row['seconds']]
    ratios = [row['ratio'] for row in timed if 'ratio' in row]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
    for name in LIMITS if timed else ():
        seen = [speeds(row, name) for row in timed]
        print(f'{LIMITS[name]:4} {np.median([s[1] for s in seen]):.4g} {"GB/s" if name == "read" else "GFLOP/s"}, '
              f'{min(s[2] for s in seen):.4g} to {max(s[0] for s in seen):.4g}')
    if timed:
        facts = timed[0]['facts']['clattn']
        print(f'on {facts["name"]} ({facts["platform"]} {facts["driver"]}), {CORES} cores, clattn {facts["version"]}')
    if ratios:
        print(f'geometric mean of {len(ratios)} ratios to the best peer: {mean:.3f}')
    return dict(schema=1, rounds=o.rounds, seconds=o.seconds, cores=CORES, dtype=o.dtype, peers=o.peers, rows=rows,
                geometric_mean=mean)


def main():
    o = read_options()
    contestants = {name: Contestant(o, name) for name in ['clattn', *o.peers, *LIMITS]}
    rows = []
    print(f'{"workload":13} {"clattn":>7} {"p10-p90":>13} {"":7} {"limit":>13} {"error":7}' +
          ''.join(f' {name:>10}' for name in [*o.peers, 'ratio', 'from torch']), flush=True)
    try:
        for workload in o.workloads:
            rows.append(measure(o, contestants, workload))
            print(line(rows[-1], o.peers), flush=True)
            for name, why in rows[-1]['refused'].items():
                if not why.startswith('has no'):
                    print(f'peers.py: {workload}: {name}: {why}', file=sys.stderr)
    finally:
        for one in contestants.values():
            one.process.kill()
    result = conclude(o, rows)
    if o.json:
        part = f'{o.json}.{os.getpid()}.tmp'
        with open(part, 'w') as file:
            json.dump(result, file, indent=1)
        os.replace(part, o.json)
    return any('clattn' in row['refused'] for row in rows)


if __name__ == '__main__':
    sys.exit(main())
