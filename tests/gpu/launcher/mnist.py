"""PyTorch's MNIST example in small: a convolution net is trained on digits that are made here.

    python3 mnist.py [STEPS]

NVTX ranges name the phases. What the GPU does a step: copies of images and labels to it, the kernels of the forward
and backward pass and of the optimizer, and a copy of the loss back.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(x), dim=1)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    torch.manual_seed(1)
    with torch.cuda.nvtx.range("load"):
        images, labels = torch.rand(steps * 64, 1, 28, 28), torch.randint(0, 10, (steps * 64,))
        model = Net().cuda()
        optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    for step in range(steps):
        with torch.cuda.nvtx.range("step"):
            batch = slice(step * 64, (step + 1) * 64)
            with torch.cuda.nvtx.range("copy in"):
                data, target = images[batch].cuda(), labels[batch].cuda()
            optimizer.zero_grad()
            with torch.cuda.nvtx.range("forward"):
                loss = F.nll_loss(model(data), target)
            with torch.cuda.nvtx.range("backward"):
                loss.backward()
            with torch.cuda.nvtx.range("optimizer"):
                optimizer.step()
            with torch.cuda.nvtx.range("copy out"):
                value = loss.item()
    print(f"{steps} steps, loss {value:.3f}")


main()
