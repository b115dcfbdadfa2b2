"""Draws the pictures of docs/report.md: pages of braze.report as a browser shows them.

.venv/bin/python tools/report_pictures.py          # wants Debian's chromium and chromium-driver
"""

import tempfile
from pathlib import Path

import torch
from headless import open_browser
from torch import nn
from transformers import BertConfig, BertModel

import braze

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"


def breaks() -> object:
    layer = nn.Linear(64, 64)

    def scored(x: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.gelu(layer(x))
        if hidden.sum() > 0:
            hidden = hidden - hidden.mean()
        return torch.softmax(hidden, -1)

    compiled = braze.compile(scored)
    with torch.no_grad():
        for rows in (8, 8, 8, 12, 12):
            compiled(torch.randn(rows, 64))
    return compiled


def training() -> object:
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.LayerNorm(1024), nn.Linear(1024, 10))
    compiled = braze.compile(lambda x, y: nn.functional.cross_entropy(model(x), y))
    compiled.__qualname__ = "loss"
    for _ in range(6):
        compiled(torch.randn(64, 256), torch.randint(10, (64,))).backward()
    return compiled


def bert() -> object:
    compiled = braze.compile(BertModel(BertConfig()).eval())
    ids = torch.randint(1000, (1, 128))
    with torch.no_grad():
        for _ in range(6):
            compiled(ids)
    return compiled


#: Picture -> what it shows, and which parts are unfolded.
SHOWN = {
    "report-breaks": (breaks, ()),
    "report-training": (training, ("Steps", "Drawing")),
    "report-bert": (bert, ("Drawing", "Memory over time")),
}
UNFOLD = """
for (const each of document.querySelectorAll("#program-1 > details"))
  if (arguments[0].some((name) => each.querySelector("summary").textContent.startsWith(name))) each.open = true;
"""


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    browser = open_browser(height=1100)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name, (make, unfolded) in SHOWN.items():
                page = braze.report(make(), Path(folder) / f"{name}.html")
                browser.get(page.as_uri())
                browser.execute_script(UNFOLD, list(unfolded))
                browser.save_screenshot(str(PICTURES / f"{name}.png"))
                print(f"{name}: {page.stat().st_size / 1e6:.2f} MB")
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
