"""The pages for people, in a real browser: what they show, that they refresh, and that they load nothing from elsewhere.

Starts the server twice, without and with access rules. Needs Chromium and its driver (Debian: chromium, chromium-driver)."""

import argparse
import contextlib
import hashlib
import json
import os
import re
import subprocess
import tempfile
import time

import pyarrow as pa
from common import Steps, catalog, equal, expect
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

parser = argparse.ArgumentParser(prog="scripts/clients/run page", description=__doc__)
parser.add_argument("program", help="glidepath, built with the feature serve")
parser.add_argument("--only", action="append", metavar="STEP", help="run this step only; may be repeated")
parser.add_argument("--pictures", metavar="FOLDER", help="keep a picture of each page, to be looked at")
options = parser.parse_args()

TOKEN = "token-of-reader-0123456789"
EVIL = "<script>document.title = 'mine'</script>"
SCHEMA = pa.schema([("id", pa.int64()), ("what", pa.string())])


def await_that(what, holds, seconds=60):
    for _ in range(seconds * 10):
        with contextlib.suppress(Exception):
            found = holds()
            if found:
                return found
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {seconds} s")


class Server:
    """The server on a folder of its own; it ends with the block."""

    def __init__(self, *flags):
        self.flags = flags

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        place = self.folder.name
        flags = [flag.replace("FOLDER", place) for flag in self.flags]
        with open(f"{place}/access.toml", "w") as access:
            digest = hashlib.sha256(TOKEN.encode()).hexdigest()
            access.write(f'[[token]]\nname = "reader"\nsha256 = "{digest}"\n[[grant]]\nto = "user:reader"\non = "*"\nright = "admin"\n')
        command = [options.program, "serve", f"file://{place}/lake", "--listen", "127.0.0.1:0", *flags]
        with open(f"{place}/out", "w") as out, open(f"{place}/log", "w") as log:
            self.process = subprocess.Popen(command, stdout=out, stderr=log)
        self.url = await_that("the server starts", lambda: re.search(r"on (http:\S+)", open(f"{place}/out").read())[1])
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.folder.cleanup()


@contextlib.contextmanager
def browser(scripts=True):
    settings = webdriver.ChromeOptions()
    with tempfile.TemporaryDirectory() as profile:
        for flag in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic",
                     "--window-size=1300,1000", f"--user-data-dir={profile}"]:
            settings.add_argument(flag)
        if not scripts:
            settings.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
        settings.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=settings, service=Service("/usr/bin/chromedriver"))
        try:
            yield driver
        finally:
            driver.quit()


def text(driver, selector="main"):
    return driver.find_element(By.CSS_SELECTOR, selector).text


def picture(driver, name):
    if options.pictures:
        os.makedirs(options.pictures, exist_ok=True)
        driver.save_screenshot(f"{options.pictures}/{name}.png")


def requested(driver):
    """The URLs that the page asked for since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]


def complaints(driver):
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def fill(lake):
    """A table with a branch and a tag, and a name that is markup."""
    lake.create_namespace("sales", {"owner": EVIL})
    table = lake.create_table("sales.orders", SCHEMA)
    for number in range(3):
        table.append(rows(10 + number))
    at = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_branch(at, "audit").create_tag(at, "v1").commit()
    table.append(rows(5), branch="audit")
    table.append(rows(6))
    lake.create_table(("sales", EVIL), SCHEMA)
    return table


def rows(count):
    return pa.table({"id": list(range(count)), "what": ["x"] * count}, schema=SCHEMA)


def shows_the_catalog():
    with Server() as server, browser() as driver:
        table = fill(catalog(server.url))
        driver.get(server.url)
        for words in ["sales", "orders", EVIL, "Commits", "What commits met", "Tables with waiting commits", "No commit waits for a table."]:
            expect(words in text(driver), f"{words!r} is not on the page:\n{text(driver)}")
        picture(driver, "catalog")
        before = int(text(driver, ".cards dd"))
        table.refresh().append(rows(1))
        await_that("the page refreshes itself", lambda: int(text(driver, ".cards dd")) == before + 1)
        driver.find_element(By.LINK_TEXT, "orders").click()
        await_that("the page of the table", lambda: "Snapshots" in text(driver))
        for words in ["audit", "main", "v1", "append", "Schema", "metadata file"]:
            expect(words in text(driver), f"{words!r} is not on the page of the table")
        strokes = driver.execute_script(
            "return [...document.querySelectorAll('.graph path')].map((path) => getComputedStyle(path).stroke)")
        expect(len(strokes) >= 8 and "none" not in strokes, f"lines of the graph: {strokes}")
        equal(len(set(strokes)), 2, "colours of the two branches")
        picture(driver, "table")
        driver.get(f"{server.url}/namespaces/sales")
        expect(EVIL in text(driver), "a property is not shown as it is")
        picture(driver, "namespace")
        driver.get(f"{server.url}/namespaces/nowhere")
        expect("There is nothing here" in text(driver), text(driver))
        equal(driver.title, "Error \N{EN DASH} Glidepath", "the title")
        # The browser's own first tab is built of files of the browser.
        foreign = [url for url in requested(driver) if not url.startswith((server.url, "data:", "chrome:"))]
        equal(foreign, [], "requests elsewhere")
        # The browser itself complains of the one page that is answered 404.
        equal([one for one in complaints(driver) if "404" not in one], [], "complaints of the browser")


def works_without_a_script():
    with Server() as server, browser(scripts=False) as driver:
        fill(catalog(server.url))
        driver.get(server.url)
        expect("orders" in text(driver), text(driver))
        driver.find_element(By.LINK_TEXT, "orders").click()
        await_that("the page of the table", lambda: "Snapshots" in text(driver))


def asks_for_a_token():
    with Server("--access", "FOLDER/access.toml") as server, browser() as driver:
        fill(catalog(server.url, token=TOKEN))
        driver.get(f"{server.url}/namespaces/sales/tables/orders")
        expect("This server needs a token" in text(driver) and "audit" not in driver.page_source, text(driver))
        picture(driver, "token")
        enter(driver, "wrong-token-0123456789")
        await_that("a wrong token is refused", lambda: "does not accept this token" in text(driver))
        enter(driver, "not ASCII: \u00e4")
        await_that("what is no token is refused", lambda: "cannot be used" in text(driver))
        enter(driver, TOKEN)
        await_that("the page of the table", lambda: "Snapshots" in text(driver))
        driver.find_element(By.LINK_TEXT, "sales").click()
        await_that("the token goes with the next page", lambda: "orders" in text(driver) and "Properties" in text(driver))
        expect(TOKEN not in driver.page_source and TOKEN not in driver.current_url, "the token is in the page or its address")
        equal(driver.get_cookies(), [], "cookies")
        driver.find_element(By.ID, "forget").click()
        await_that("the token is forgotten", lambda: "This server needs a token" in text(driver))
        expect("orders" not in driver.page_source, "the page is still there")


def enter(driver, token):
    field = driver.find_element(By.ID, "token")
    field.clear()
    field.send_keys(token)
    field.submit()


steps = Steps("page", __doc__, url="of its own", options=options)
steps.step("catalog", shows_the_catalog)
steps.step("no-script", works_without_a_script)
steps.step("token", asks_for_a_token)
steps.end()
