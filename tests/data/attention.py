#!/usr/bin/env python3
"""Makes attention.safetensors: small attention problems and what PyTorch answers.

    pip install numpy safetensors torch
    python attention.py

out comes from torch.nn.functional.scaled_dot_product_attention (math backend, f32) wherever that function can say
the problem; softcap, windows and sinks, which it cannot, are composed from torch operations, as are lse and weights.
README.md in this folder says what is in the file.
"""
from importlib.metadata import version
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

INF = float('inf')
BOTTOM_RIGHT, TOP_LEFT = 0, 1
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
torch.manual_seed(20)
tensors = {}


def randn(*shape):
    return torch.randn(*shape)


def composed(q, k, v, scale, softcap, bias, visible, sinks):
    """Softmax attention over the visible keys, in plain torch operations; a row that sees none gives 0."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-2, -1) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    scores = scores.masked_fill(~visible, -INF)
    logits = scores
    if sinks is not None:
        logits = torch.cat([scores, sinks[None, :, None, None].expand(*scores.shape[:3], 1)], -1)
    lse = torch.logsumexp(logits, -1)
    weights = torch.where(scores == -INF, 0.0, torch.exp(scores - torch.where(lse == -INF, 0.0, lse)[..., None]))
    return weights @ v, lse, weights


def add(name, batch=2, heads=(2, 2), lens=(9, 13), d=(8, 8), dtype=0, scale=None, softcap=0.0, causal=False,
        alignment=BOTTOM_RIGHT, window=(-1, -1), keep=None, bias=None, sinks=False, lengths=None, sdpa=None):
    """One problem. sdpa: arguments of scaled_dot_product_attention beside q, k, v and scale, if it can say it."""
    type_ = DTYPES[dtype]
    q = randn(batch, heads[0], lens[0], d[0]).to(type_)
    k = randn(batch, heads[1], lens[1], d[0]).to(type_)
    v = randn(batch, heads[1], lens[1], d[1]).to(type_)
    sink = randn(heads[0]) if sinks else None
    i = torch.arange(lens[0])[None, None, :, None]
    j = torch.arange(lens[1])[None, None, None, :]
    rows_q = torch.tensor(lengths[0] if lengths else [lens[0]] * batch)[:, None, None, None]
    rows_kv = torch.tensor(lengths[1] if lengths else [lens[1]] * batch)[:, None, None, None]
    level = i + (rows_kv - rows_q if alignment == BOTTOM_RIGHT else 0)
    visible = (j < rows_kv) & (i < rows_q)
    if causal:
        visible = visible & (j <= level)
    if window[0] >= 0:
        visible = visible & (j >= level - window[0])
    if window[1] >= 0:
        visible = visible & (j <= level + window[1])
    if keep is not None:
        visible = visible & keep
    visible = visible.expand(batch, heads[0], *lens)
    real_scale = d[0] ** -0.5 if scale is None else scale
    out, lse, weights = composed(q.float(), k.float(), v.float(), real_scale, softcap, bias, visible, sink)
    if sdpa is not None:
        with sdpa_kernel(SDPBackend.MATH):
            direct = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), scale=scale,
                                                    enable_gqa=heads[0] != heads[1], **sdpa)
        assert torch.allclose(direct, out, rtol=1e-5, atol=1e-6), name
        out = direct
    padding = (i >= rows_q).expand(batch, heads[0], lens[0], 1)[..., 0]
    problem = {'q': q, 'k': k, 'v': v, 'out': out.to(type_), 'lse': torch.where(padding, -INF, lse),
               'weights': weights,
               'sizes': torch.tensor([batch, *heads, *lens, *d, dtype, causal, alignment, *window],
                                     dtype=torch.int32),
               'scale': torch.tensor([real_scale, softcap])}
    if keep is not None:
        problem['keep'] = keep.to(torch.uint8)
    if bias is not None:
        problem['bias'] = bias
    if sinks:
        problem['sinks'] = sink
    if lengths:
        problem['lengths'] = torch.tensor(lengths, dtype=torch.int32)
    tensors.update({f'{name}.{part}': t.contiguous() for part, t in problem.items()})


def bits(*shape, share=0.7):
    return torch.rand(*shape) < share


def main():
    add('plain', sdpa={})
    add('one_query', lens=(1, 40), sdpa={})
    add('one_key', lens=(7, 1), sdpa={})
    add('scale', scale=0.3, sdpa={})
    add('scale_negative', scale=-0.5, sdpa={})
    add('head_64', batch=1, lens=(20, 33), d=(64, 64), sdpa={})
    add('head_80', batch=1, heads=(1, 1), lens=(17, 21), d=(80, 80), sdpa={})
    add('head_3', d=(3, 3), sdpa={})
    add('wider_values', d=(8, 24), sdpa={})
    add('narrower_values', d=(24, 5), sdpa={})
    add('grouped', heads=(4, 2), sdpa={})
    add('one_kv_head', heads=(6, 1), sdpa={})
    add('causal_square', lens=(17, 17), causal=True, alignment=TOP_LEFT, sdpa={'is_causal': True})
    add('causal_top_left_wide', lens=(9, 20), causal=True, alignment=TOP_LEFT, sdpa={'is_causal': True})
    add('causal_top_left_tall', lens=(20, 9), causal=True, alignment=TOP_LEFT, sdpa={'is_causal': True})
    add('causal_bottom_right', lens=(9, 20), causal=True, sdpa={'attn_mask': causal_lower_right(9, 20)})
    add('causal_bottom_right_tall', lens=(20, 9), causal=True)
    for name, shape in [('full', (2, 2, 9, 13)), ('heads', (1, 2, 9, 13)), ('rows', (1, 1, 9, 13)),
                        ('padding', (2, 1, 1, 13))]:
        mask = bits(*shape)
        add('keep_' + name, keep=mask, sdpa={'attn_mask': mask})
    mask = bits(2, 1, 9, 13)
    mask[:, :, 3:5] = False
    add('keep_rows_empty', keep=mask, sdpa={'attn_mask': mask})
    mask = randn(2, 2, 9, 13)
    add('bias_full', bias=mask, sdpa={'attn_mask': mask})
    mask = randn(1, 2, 9, 13)
    mask[bits(1, 2, 9, 13, share=0.3)] = -INF
    mask[:, :, 6] = -INF
    add('bias_hides', bias=mask, sdpa={'attn_mask': mask})
    add('keep_and_bias', keep=bits(2, 1, 1, 13), bias=randn(1, 2, 9, 13))
    add('softcap', softcap=1.5)
    add('softcap_bias_causal', softcap=0.7, bias=randn(1, 2, 9, 13), causal=True)
    add('window', lens=(21, 21), window=(3, 2))
    add('window_causal', lens=(9, 21), window=(4, -1), causal=True, heads=(4, 1))
    add('window_rows_empty', lens=(21, 5), window=(0, 0), alignment=TOP_LEFT)
    add('sinks', sinks=True)
    add('sinks_window_causal', lens=(15, 15), sinks=True, window=(4, 0), causal=True, heads=(4, 2))
    mask = bits(2, 1, 9, 13)
    mask[:, :, 2] = False
    add('sinks_rows_empty', sinks=True, keep=mask)
    add('lengths', batch=4, lengths=([9, 4, 0, 1], [13, 5, 7, 0]))
    add('lengths_causal', batch=3, lengths=([9, 4, 6], [13, 9, 2]), causal=True)
    add('f16', dtype=1, sdpa={})
    add('f16_causal_grouped', dtype=1, heads=(4, 2), lens=(16, 16), causal=True, alignment=TOP_LEFT,
        sdpa={'is_causal': True})
    add('bf16', dtype=2, sdpa={})
    mask = bits(2, 1, 1, 13)
    add('bf16_keep', dtype=2, keep=mask, sdpa={'attn_mask': mask})
    here = Path(__file__).resolve().parent
    save_file(tensors, str(here / 'attention.safetensors'), {'made_by': 'attention.py with PyTorch ' + version('torch')})


if __name__ == '__main__':
    main()
