"""The pages of braze.report in a real browser: they render, fold, search and filter, light and dark, at size."""

import pathlib
import sys
import time

import pytest
import torch
from torch import nn

import braze
from braze._load import C

sys.path.append(str(pathlib.Path(__file__).parents[3] / "tools"))

from headless import BROWSER, DRIVER, open_browser

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.skipif(not (DRIVER and BROWSER), reason="Debian's chromium and chromium-driver are not installed"),
]
SCREENSHOTS = pathlib.Path(__file__).parents[3] / "out" / "report"


@pytest.fixture(scope="module")
def browser():
    driver = open_browser(height=1000)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page of a function with a break and a second shape, one of BERT-base, and a comparison."""
    folder = tmp_path_factory.mktemp("pages")
    layer = nn.Linear(32, 64)

    def scored(x):
        hidden = nn.functional.gelu(layer(x))
        print(end="")
        return torch.softmax(hidden.mean(-1), -1)

    compiled = braze.compile(scored, dynamic=False)
    with torch.no_grad():
        for rows in (8, 8, 8, 12, 12):
            compiled(torch.randn(rows, 32))
    paths = {"small": braze.report(compiled, folder / "small.html")}
    unfused = braze.compile(scored, options={"fusion": False})
    with torch.no_grad():
        unfused(torch.randn(8, 32)), unfused(torch.randn(8, 32))
    before = braze.report(unfused, folder / "before.html")
    paths["comparison"] = braze.compare_reports(before, paths["small"], folder / "comparison.html")
    paths["bert"] = braze.report(bert(), folder / "bert.html")
    return paths


def bert():
    from transformers import BertConfig, BertModel

    with torch.device("meta"):
        model = BertModel(BertConfig(attn_implementation="sdpa"))
    model = model.to_empty(device="cpu").eval()
    for parameter in (*model.parameters(), *model.buffers()):
        if parameter.is_floating_point():
            parameter.data.fill_(0.01)
    model.embeddings.position_ids = torch.arange(512)[None]
    model.embeddings.token_type_ids = torch.zeros(1, 512, dtype=torch.long)
    compiled = braze.compile(model)
    ids = torch.arange(8)[None]
    with torch.no_grad():
        compiled(ids), compiled(ids)
    return compiled


def opened(browser, path):
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.get(path.as_uri())
    errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert not errors
    return browser


def visible(browser, selector):
    return [each for each in browser.find_elements("css selector", selector) if each.is_displayed()]


def paper(browser):
    """How light the page is, from 0 to 255."""
    color = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in color[color.index("(") + 1 : -1].split(",")[:3]) / 3


def test_it_renders(browser, pages):
    page = opened(browser, pages["small"])
    assert page.title == "test_browser.pages.<locals>.scored - braze" or "scored" in page.title
    assert "graph break" in page.find_element("css selector", ".tiles").text
    assert len(visible(page, "#programs ~ details")) > 3
    width = page.execute_script(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert width == 0, "the page scrolls sideways"
    assert page.save_screenshot(str(SCREENSHOTS / "small.png"))


def test_it_folds(browser, pages):
    page = opened(browser, pages["small"])
    is_open = "return [...document.querySelectorAll('details')].filter(each => each.open).length"
    page.find_element("id", "unfold").click()
    assert page.execute_script(is_open) == len(page.find_elements("css selector", "details"))
    assert any("kernel @" in each.text for each in visible(page, "pre"))
    assert visible(page, "svg .step rect") and page.find_elements("css selector", "svg .wire")
    page.save_screenshot(str(SCREENSHOTS / "unfolded.png"))
    page.find_element("id", "fold").click()
    assert page.execute_script(is_open) == 0
    page.find_element("css selector", "summary").click()
    assert page.execute_script(is_open) == 1


def test_it_searches(browser, pages):
    page = opened(browser, pages["small"])
    page.find_element("id", "search").send_keys("softmax nothing-like-this")
    assert not visible(page, "[data-text]") and "0 of" in page.find_element("id", "found").text
    page.find_element("id", "search").clear()
    page.find_element("id", "search").send_keys("ADDMM")
    found = visible(page, "tr[data-text]")
    assert found and all("addmm" in each.get_attribute("data-text").lower() for each in found)


def test_it_filters(browser, pages):
    page = opened(browser, pages["small"])
    page.find_element("id", "unfold").click()
    assert visible(page, "tr[data-kind=call]") and visible(page, "li[data-kind=guard]")
    page.find_element("css selector", "button[data-kind=guard]").click()
    assert visible(page, "tr[data-kind=call]") and not visible(page, "li[data-kind=guard]")
    page.find_element("css selector", "button[data-kind=guard]").click()
    assert visible(page, "li[data-kind=guard]")


def test_links_lead_to_what_they_name(browser, pages):
    page = opened(browser, pages["small"])
    page.find_element("id", "unfold").click()
    link = visible(page, "a[href^='#kernel-']")[0]
    target = link.get_attribute("href").split("#")[1]
    page.find_element("id", "fold").click()
    page.execute_script("location.hash = arguments[0]", target)
    time.sleep(0.2)
    assert page.find_element("id", target).get_attribute("open") is not None


def test_light_and_dark(browser, pages):
    page = opened(browser, pages["small"])
    for scheme, is_light in (("light", True), ("dark", False)):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        assert (paper(page) > 128) == is_light
        page.save_screenshot(str(SCREENSHOTS / f"{scheme}.png"))
    page.find_element("id", "theme").click()
    assert paper(page) > 128
    page.find_element("id", "theme").click()
    assert paper(page) < 128


def test_it_is_readable_without_scripts(browser, pages):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page = opened(browser, pages["small"])
        assert not visible(page, ".bar-of-tools")
        assert "graph break" in page.find_element("tag name", "body").text
        page.find_element("css selector", "summary").click()
        assert visible(page, "details[open]")
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_a_large_model_stays_usable(browser, pages):
    assert pages["bert"].stat().st_size < 3_000_000
    page = opened(browser, pages["bert"])
    took = page.execute_script(
        "const [entry] = performance.getEntriesByType('navigation'); return entry.domContentLoadedEventEnd"
    )
    assert took < 10_000, took  # Less than a second where nothing else runs, in milliseconds.
    start = time.perf_counter()
    page.find_element("id", "search").send_keys("layer_norm")
    assert time.perf_counter() - start < 10
    page.save_screenshot(str(SCREENSHOTS / "bert.png"))


def test_a_comparison(browser, pages):
    page = opened(browser, pages["comparison"])
    assert "before and after" in page.find_element("tag name", "h1").text
    rows = len(visible(page, "tr[data-text]"))
    page.find_element("id", "search").send_keys("gone")
    assert 0 < len(visible(page, "tr[data-text]")) < rows
    page.save_screenshot(str(SCREENSHOTS / "comparison.png"))
