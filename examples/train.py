"""A training loop in Python that knows nothing of tjit.

    python train.py
    tjit run --stats=- -- python train.py

print the same; the second one adds what was done. Its torch must be the one
that tjit was built for.
Tested by: tests/acceptance/examples_test.py
"""
import torch

torch.manual_seed(1)
x, y = torch.randn(64, 16), torch.randn(64, 4)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(),
                            torch.nn.Linear(32, 4))
adam = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(1, 501):
    adam.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    adam.step()
    if step % 100 == 0:
        print(f"step {step}: loss {loss.item().hex()}")
