"""A transformer that makes words, for the server (`serve.py`) and the decoder in a graph (`graph.py`)."""
import torch
import torch.nn.functional as F

LAYERS, WIDTH, HEADS, WORDS, LONGEST = 12, 768, 12, 8192, 384


class Decoder:
    """Random weights, one cache of keys and values for `slots` requests."""

    def __init__(self, slots):
        torch.manual_seed(0)
        weight = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.float16) * 0.02
        self.embedding = weight(WORDS, WIDTH)
        self.places = weight(LONGEST, WIDTH)
        self.layers = [(weight(WIDTH, 3 * WIDTH), weight(WIDTH, WIDTH), weight(WIDTH, 4 * WIDTH),
                        weight(4 * WIDTH, WIDTH)) for _ in range(LAYERS)]
        shape = (LAYERS, slots, HEADS, LONGEST, WIDTH // HEADS)
        self.keys = torch.zeros(shape, device="cuda", dtype=torch.float16)
        self.values = torch.zeros(shape, device="cuda", dtype=torch.float16)
        self.columns = torch.arange(LONGEST, device="cuda")

    def prefill(self, slot, words):
        """Reads a prompt of one request. Returns the next word, on the device."""
        length = words.shape[0]
        x = self.embedding[words] + self.places[:length]
        for number, (qkv, out, up, down) in enumerate(self.layers):
            q, k, v = (F.layer_norm(x, (WIDTH,)) @ qkv).view(length, 3, HEADS, -1).permute(1, 2, 0, 3)
            self.keys[number, slot, :, :length] = k
            self.values[number, slot, :, :length] = v
            mixed = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
            x = x + mixed.transpose(0, 1).reshape(length, WIDTH) @ out
            x = x + F.gelu(F.layer_norm(x, (WIDTH,)) @ up) @ down
        return (x[-1:] @ self.embedding.T).argmax(-1)

    def step(self, slots, words, lengths):
        """One word more for the requests in `slots`, which have these lengths. All three are on the device."""
        count = slots.shape[0]
        x = self.embedding[words] + self.places[lengths]
        mask = (self.columns[None] <= lengths[:, None])[:, None, None]
        for number, (qkv, out, up, down) in enumerate(self.layers):
            q, k, v = (F.layer_norm(x, (WIDTH,)) @ qkv).view(count, 3, HEADS, -1).unbind(1)
            self.keys[number, slots, :, lengths] = k
            self.values[number, slots, :, lengths] = v
            keys, values = self.keys[number, slots], self.values[number, slots]
            mixed = F.scaled_dot_product_attention(q[:, :, None], keys, values, attn_mask=mask)
            x = x + mixed.reshape(count, WIDTH) @ out
            x = x + F.gelu(F.layer_norm(x, (WIDTH,)) @ up) @ down
        return (x @ self.embedding.T).argmax(-1)
