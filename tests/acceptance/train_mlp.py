"""An MLP trained with Adam, in a program that knows nothing of tjit."""
import hashlib

import torch

torch.manual_seed(1)
torch.set_num_threads(1)
x, y = torch.randn(64, 16), torch.randn(64, 4)
model = torch.nn.Sequential(
    torch.nn.Linear(16, 32), torch.nn.ReLU(),
    torch.nn.Linear(32, 32), torch.nn.ReLU(),
    torch.nn.Linear(32, 4))
adam = torch.optim.Adam(model.parameters(), lr=1e-3)
losses = []
for step in range(1000):
    adam.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    adam.step()
    losses.append(loss.item())
digest = hashlib.sha256(repr(losses).encode())
for p in model.parameters():
    digest.update(bytes(p.detach().flatten().view(torch.uint8).tolist()))
print(losses[0].hex(), losses[-1].hex(), digest.hexdigest())
