"""Debian's Chromium without a window, driven by selenium: for the pictures of pages, and for their tests."""

import shutil

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


def open_browser(height: int):
    """A browser 1280 pixels wide that keeps what pages log; its user calls quit()."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    # Containers have little of /dev/shm.
    for argument in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        f"window-size=1280,{height}",
    ):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
