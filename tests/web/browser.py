#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page of sluice web in headless Chromium. usage: browser.py SLUICE CLOCK [PICTURES]

PICTURES is a folder for the screenshots of docs/web.md: they are made by this test.
"""
import pathlib
import sys

import chromium
from chromium import Chromium
from kit import Lint, Place, get, until

AGE = (pathlib.Path(__file__).parent / "age.js").read_text()
SHOWN = "document.querySelector('#stage img')?.naturalWidth"

# The colour of the shown picture at a place, 0 to 1.
COLOUR = """((x, y) => {
  const picture = document.querySelector('#stage img, #stage canvas'), canvas = document.createElement('canvas');
  const width = canvas.width = picture.naturalWidth || picture.width, height = canvas.height = picture.naturalHeight || picture.height;
  const pen = canvas.getContext('2d');
  pen.drawImage(picture, 0, 0);
  return [...pen.getImageData(Math.floor(x * width), Math.floor(y * height), 1, 1).data].slice(0, 3);
})"""


class Page:
    def __init__(self, lint, place, browser, pictures):
        self.lint, self.place, self.browser, self.pictures = lint, place, browser, pictures

    def check(self, name, **values):
        """Each value is true, or says what is wrong."""
        self.lint.check(name, [f"{key}: {value!r}" for key, value in values.items() if value is not True])

    def picture(self, name):
        if self.pictures:
            self.browser.picture(self.pictures / f"web-{name}.png")


def grid(page, server):
    browser = page.browser
    browser.go(server.url)
    browser.until("document.querySelectorAll('#grid .tile img[src]').length === 3")
    names = browser.run("[...document.querySelectorAll('#grid .name')].map(one => one.textContent)")
    page.check("the grid has a tile and a picture for each channel", names=names == ["camera", "clock", "still"] or names)
    browser.until("/\\d+\\.\\d fps/.test(document.querySelector('[data-name=clock] .rate').textContent)")
    page.picture("grid")
    late = page.place.write("late", "320x180")
    browser.until("document.querySelector('[data-name=late] img[src]') !== null")
    late.terminate()
    late.wait()
    browser.until("!document.querySelector('[data-name=late]')")
    page.check("tiles come and go with their channels, without a reload")
    browser.press("/")
    browser.until("document.activeElement.id === 'filter'")
    browser.call("Input.insertText", text="clo")
    browser.until("document.querySelectorAll('#grid .tile').length === 1")
    browser.run("filter.value = ''; filter.oninput(); filter.blur()")
    browser.until("document.querySelectorAll('#grid .tile').length === 3")
    page.check("the filter")


def large(page):
    browser = page.browser
    browser.run("document.activeElement.blur()")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    browser.until("document.activeElement.dataset.name === 'clock'")
    browser.press("Enter")
    browser.until(f"location.hash === '#/clock' && {SHOWN} === 1280")
    page.check("arrows and Enter open a channel, large")
    browser.until("Number(fpsNow.textContent) > 0 && /[mµ]?s$/.test(latencyNow.textContent)")
    reader = browser.until("[...document.querySelectorAll('#readers tr')].map(row => row.textContent).find(text => text.startsWith('sluice'))")
    drawn = browser.until("(c => c.width && c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(x => x))(fps)")
    facts = browser.run("facts.textContent")
    page.check("statistics: rates, latency, its history, readers", reader="newest" in reader or reader, drawn=drawn,
               facts="1280x720 rgba" in facts and "frames" in facts or facts)
    ages = browser.run(f"{AGE}(40)")
    page.check("the shown picture tells when it was made", ages=all(0 <= age < 60000 for age in ages) or ages)
    page.picture("large")


def video(page):
    browser, name = page.browser, "H.264: the shown picture tells when it was made"
    if browser.run("codec.disabled"):
        page.lint.check(name, [], skip="no encoder here, or no WebCodecs")
        return
    browser.run("codec.value = 'h264'; codec.onchange()")
    browser.until("document.querySelector('#stage canvas')?.width === 1280")
    ages = browser.run(f"{AGE}(40)")
    page.check(name, ages=all(0 <= age < 60000 for age in ages) or ages)
    browser.run("codec.value = 'mjpeg'; codec.onchange()")
    browser.until(f"{SHOWN} === 1280")


def restarts(page, server):
    browser = page.browser
    browser.run("window.mark = 'the same page'")
    page.clock.kill()
    page.clock.wait()
    browser.until("state.textContent === 'dead'")
    page.clock = page.place.write("clock", "640x480")
    browser.until(f"{SHOWN} === 640 && state.textContent === 'live' && facts.textContent.includes('640x480')")
    page.check("the picture returns with a writer that was killed, without a reload", mark=browser.run("window.mark === 'the same page'"))
    server.kill()
    server.wait()
    browser.until("summary.textContent.includes('does not answer')")
    server = page.place.serve(listen=f"127.0.0.1:{server.port}")
    browser.until(f"summary.textContent.includes('live') && {SHOWN} === 640")
    ages = browser.run(f"{AGE}(5)")
    page.check("it returns with the server, too", mark=browser.run("window.mark === 'the same page'"), ages=len(ages) == 5 or ages)


def hidden(page):
    """A tab that is hidden views nothing."""
    browser = page.browser
    hide = "Object.defineProperty(document, 'hidden', {{ value: {}, configurable: true }}); document.dispatchEvent(new Event('visibilitychange'))"
    browser.run(hide.format("true"))
    until(lambda: not page.place.readers("clock"), "the reader stays")
    browser.run(hide.format("false"))
    until(lambda: page.place.readers("clock"), "no reader comes")
    page.check("a hidden tab views nothing, until it is shown", ages=len(browser.run(f"{AGE}(5)")) == 5)


def choose(page, name, size):
    page.browser.run(f"array.value = '{name}'; array.onchange()")
    page.browser.until(f"{SHOWN} === {size}")


def numbers(page):
    browser = page.browser
    browser.press("Escape")
    browser.until("!grid.hidden")
    browser.run("location.hash = '#/still'")
    browser.until(f"{SHOWN} === 640 && document.querySelector('#array').options.length === 3")
    page.check("Esc goes back to the grid", plain=browser.run("numbers.hidden"))
    choose(page, "depth", 64)
    before = browser.run(f"{COLOUR}(0.5, 0.5)")
    browser.run("high.value = 200; high.oninput()")
    browser.until(f"{COLOUR}(0.5, 0.5)[0] > 245")
    page.check("an image of floats has a range, which sliders change", before=100 < before[0] < 160 or before,
               text=browser.run("highText.textContent") == "614.2" or browser.run("highText.textContent"))
    choose(page, "tensor", 24)
    browser.until(f"{COLOUR}(0.99, 0.99)[0] > 200")
    first, last = browser.run(f"{COLOUR}(0.01, 0.01)"), browser.run(f"{COLOUR}(0.99, 0.99)")
    page.check("a tensor is in false colours", first=first[2] > first[0] or first, last=last[0] > last[2] or last)
    box = browser.run("(box => [box.left, box.top, box.width, box.height])(document.querySelector('#stage img').getBoundingClientRect())")
    browser.point(box[0] + box[2] * 3.5 / 24, box[1] + box[3] * 2.5 / 16)
    browser.until("pixel.textContent === '3, 2: 51'")
    browser.run("index.value = 1; index.onchange()")
    browser.point(box[0] + box[2] * 4.5 / 24, box[1] + box[3] * 2.5 / 16)
    browser.until("pixel.textContent === '4, 2: 436'")
    page.check("the pixel under the pointer says what it holds, on each plane")
    page.picture("tensor")
    for _ in range(3):
        browser.press("+")
    zoomed = browser.run("document.querySelector('#stage img').getBoundingClientRect().width") / box[2]
    sharp = browser.run("getComputedStyle(document.querySelector('#stage img')).imageRendering")
    browser.press("0")
    fitted = browser.run("document.querySelector('#stage img').getBoundingClientRect().width") / box[2]
    page.check("keys zoom, and pixels stay sharp", zoomed=1.2 < zoomed < 4 or zoomed, sharp=sharp == "pixelated" or sharp,
               fitted=abs(fitted - 1) < 0.01 or fitted)


def parts(page, server):
    """A picture larger than what is streamed comes as the part that is visible."""
    browser = page.browser
    page.place.write("wide", "2560x1440", 0)
    browser.run("location.hash = '#/wide'")
    browser.until(f"{SHOWN} === 1280")
    browser.press("1")
    browser.until(f"{SHOWN} !== 1280")
    box = browser.run("(box => [box.width, box.height])(document.querySelector('#stage img').getBoundingClientRect())")
    size = browser.run("(img => [img.naturalWidth, img.naturalHeight])(document.querySelector('#stage img'))")
    page.check("a zoomed picture has its own pixels", size=all(abs(a - b) < 2 for a, b in zip(box, size)) or (box, size))
    browser.press("0")
    browser.until(f"{SHOWN} === 1280")


def snapshots(page, server):
    browser, folder = page.browser, page.place.folder / "downloads"
    folder.mkdir()
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    browser.run("location.hash = '#/still'")
    browser.until(f"{SHOWN} === 640")
    browser.press("s")
    browser.press("n")
    files = until(lambda: len(found := {path.suffix: path for path in folder.iterdir() if path.suffix in (".png", ".npy")}) == 2 and found,
                  "no snapshots")
    until(lambda: files[".npy"].read_bytes() == get(server, "/snap/still.npy").body, "the file is not whole")
    until(lambda: files[".png"].read_bytes() == get(server, "/snap/still.png").body, "the file is not whole")
    page.check("keys save a PNG and a NumPy file")


def token(page):
    """The address that is printed works, also as a link on another site."""
    browser, server = page.browser, page.place.serve("--token", "auto")
    tiles = "location.search === '' && document.querySelectorAll('#grid .tile').length"
    browser.go("data:text/html,<a>")
    browser.until("document.querySelector('a') !== null")
    browser.run(f"document.querySelector('a').href = '{server.url}'; document.querySelector('a').click()")
    page.check("a token becomes a cookie, and leaves the address", tiles=browser.until(tiles) >= 3)
    server.terminate()


def looks(page):
    browser, colour = page.browser, "getComputedStyle(document.body).backgroundColor"
    browser.theme("light")
    light = browser.run(colour)
    browser.theme("dark")
    dark = browser.until(f"{colour} !== '{light}' && {colour}")
    browser.run("theme.click()")
    page.check("light and dark, by the system and by a button", button=browser.run(colour) == light or [light, dark])
    browser.run("theme.click(); theme.click()")
    browser.resize(390, 844, phone=True)
    over = browser.until("document.querySelector('#stage').clientWidth <= 390 && document.documentElement.scrollWidth")
    names = "[...document.querySelectorAll('button, a.button, select, input')].filter(one => one.offsetParent && " \
            "!one.ariaLabel && !one.textContent.trim() && !one.closest('label')).map(one => one.id)"
    page.check("a phone shows all without moving sideways", width=over <= 390 or over)
    page.check("every control has a name", unnamed=browser.run(names) == [] or browser.run(names))
    page.picture("phone")
    browser.run("location.hash = ''")
    browser.until("!grid.hidden && document.documentElement.scrollWidth <= 390")


def main():
    sluice, clock = sys.argv[1:3]
    pictures = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
    lint = Lint()
    with Place(sluice, clock) as place:
        why = place.lacks_web() or (None if chromium.find() else "chromium is not installed")
    if why:
        lint.check("the page in a browser", [], skip=why)
        lint.finish()
    with Place(sluice, clock) as place, Chromium() as browser:
        page = Page(lint, place, browser, pictures)
        page.clock = place.write("clock")
        place.write("still", "640x360", 0)
        place.play("camera", "--pattern", "--size", "1280x720")
        server = place.serve()
        browser.theme("light")
        grid(page, server)
        large(page)
        video(page)
        hidden(page)
        restarts(page, server)
        numbers(page)
        parts(page, server)
        snapshots(page, server)
        looks(page)
        others = [url for url in browser.asked() if not url.startswith((server.url, f"blob:{server.url}", "data:"))]
        page.check("no request to another host", others=others == [] or others)
        token(page)
        page.check("no error of a script, nothing against the policy", complaints=browser.complaints() == [] or browser.complaints())
    lint.finish()


main()
