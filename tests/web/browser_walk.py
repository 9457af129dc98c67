"""Walks the pages of a running service in a real browser, under the Python of `.venv-browser`.

Standard input is a JSON object: `url`, `token`, `pages` (each a path, and a name for a screenshot
or null), `browser` (the program), `axe` (the file of axe-core), `shots` (a directory or null).
Standard output is one JSON object: for each page what was wrong.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright  # type: ignore[import-not-found]

SIZES = {"wide": {"width": 1280, "height": 800}, "narrow": {"width": 390, "height": 800}}
ARGUMENTS = ["--no-sandbox", "--headless=shell", "--disable-gpu"]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


def main() -> None:
    """Walk."""
    asked = json.load(sys.stdin)
    axe = Path(asked["axe"]).read_text()
    found: dict[str, Any] = {}
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=asked["browser"], args=ARGUMENTS)
        for look, size in (("light", "wide"), ("dark", "narrow")):
            context = browser.new_context(color_scheme=look, viewport=SIZES[size], locale="en-GB")
            page = context.new_page()
            wrong: list[str] = []
            page.on("console", lambda m, w=wrong: w.append(m.text) if m.type == "error" else None)
            page.on("pageerror", lambda error, w=wrong: w.append(str(error)))
            page.on(
                "request",
                lambda r, w=wrong: None if r.url.startswith(asked["url"]) else w.append(r.url),
            )
            _sign_in(page, asked)
            for path, name in asked["pages"]:
                began = time.perf_counter()
                answer = page.goto(asked["url"] + path, wait_until="load")
                spent = time.perf_counter() - began
                said = found.setdefault(f"{path} {look}", {})
                said["status"] = answer.status if answer else None
                said["seconds"] = round(spent, 3)
                said["axe"] = _violations(page, axe)
                said["wide"] = page.evaluate(
                    "document.documentElement.scrollWidth > window.innerWidth + 1"
                )
                if asked["shots"] and name:
                    place = Path(asked["shots"]) / f"{name}-{look}.png"
                    page.screenshot(path=place)
                said["console"] = list(wrong)
                wrong.clear()
            if look == "light":
                found["keyboard"] = _by_keyboard(page, asked["url"])
            context.close()
        browser.close()
    print(json.dumps(found))


def _sign_in(page: Page, asked: dict[str, Any]) -> None:
    page.goto(asked["url"] + "/login")
    page.fill("input[name=token]", asked["token"])
    page.click("main button")
    page.wait_for_url(asked["url"] + "/")


def _violations(page: Page, axe: str) -> list[str]:
    """What axe-core finds. The debugger runs it, so the page's policy stays as it is."""
    page.evaluate(f"() => {{ {axe} ; window.axe = axe || window.axe; }}")
    found = page.evaluate(
        "rules => window.axe.run(document, {runOnly: {type: 'tag', values: rules}})", RULES
    )
    return [
        f"{v['id']}: {v['nodes'][0]['html'][:200]} {v['nodes'][0]['failureSummary'][:300]}"
        for v in found["violations"]
    ]


def _by_keyboard(page: Page, url: str) -> dict[str, Any]:
    """What the first tab reaches, and where the slash goes."""
    page.goto(url + "/")
    page.keyboard.press("Tab")
    first = page.evaluate("document.activeElement.className")
    page.keyboard.press("/")
    search = page.evaluate("document.activeElement.id")
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    page.wait_for_url(url + "/search?q=orders")
    return {"first": first, "search": search, "found": page.locator(".found li").count()}


if __name__ == "__main__":
    main()
