// Opens one page as a reader would and says what was seen; or has charts drawn. One JSON object in, one out.
//
//   {"page": "file:///…", "browser": "/usr/bin/chromium", "width": 1280, "scheme": "light", "media": "screen", "picture": "…"}
//   {"charts": ["flowchart BT…"], "browser": "/usr/bin/chromium"}
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const asked = JSON.parse(readFileSync(0, "utf8"));
const required = createRequire(`${process.cwd()}/package.json`);
const { chromium } = required("playwright-core");
const browser = await chromium.launch({ executablePath: asked.browser, args: ["--no-sandbox", "--disable-gpu"] });
try {
  process.stdout.write(JSON.stringify(asked.charts ? await charts(asked) : await seen(asked)));
} finally {
  await browser.close();
}

async function seen({ page: url, width, scheme, media, picture, follow }) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
  const page = await context.newPage();
  const told = [];
  const requests = [];
  page.on("console", (message) => told.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => told.push(`error: ${error.message}`));
  page.on("request", (request) => request.url() === url || requests.push(request.url()));
  await page.emulateMedia({ media, colorScheme: scheme });
  await page.goto(url);
  await page.evaluate(readFileSync(required.resolve("axe-core/axe.min.js"), "utf8"));
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  const facts = await page.evaluate(() => ({
    // What of the page is wider than the window; the drawing has a scroll bar of its own.
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    scrolls: [...document.querySelectorAll(".chart")].map((one) => one.scrollWidth > one.clientWidth),
    background: getComputedStyle(document.body).backgroundColor,
    text: document.body.innerText,
  }));
  const focused = [];
  for (let count = 0; count < (follow ?? 0); count += 1) {
    await page.keyboard.press("Tab");
    focused.push(
      await page.evaluate(() => {
        const one = document.activeElement;
        const style = getComputedStyle(one);
        return { name: one.getAttribute("aria-label") ?? one.textContent, outline: style.outlineStyle, href: one.getAttribute("href") };
      }),
    );
  }
  if (focused.length) await page.keyboard.press("Enter");
  const target = await page.evaluate(() => document.querySelector(":target")?.id ?? null);
  if (picture) await page.screenshot({ path: picture, fullPage: true });
  const pages = media === "print" ? (await page.pdf({ format: "A4" })).length : 0;
  const violations = found.violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
  return { told, requests, violations, focused, target, pages, ...facts };
}

async function charts({ charts: them, picture }) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  const told = [];
  page.on("pageerror", (error) => told.push(error.message));
  await page.setContent("<!doctype html><title>charts</title><body></body>");
  await page.addScriptTag({ path: required.resolve("mermaid/dist/mermaid.min.js") });
  const drawn = await page.evaluate(async (texts) => {
    mermaid.initialize({ startOnLoad: false, securityLevel: "strict", suppressErrorRendering: true });
    const out = [];
    for (const [place, text] of texts.entries()) {
      try {
        const { svg, diagramType } = await mermaid.render(`chart${place}`, text);
        const box = document.createElement("div");
        box.innerHTML = svg;
        document.body.append(box);
        out.push({ kind: diagramType, text: box.textContent, error: null });
      } catch (error) {
        out.push({ kind: null, text: "", error: String(error.message ?? error) });
      }
    }
    return out;
  }, them);
  if (picture) await page.screenshot({ path: picture, fullPage: true });
  return { told, drawn };
}
