// A session in VS Code, which a browser shows: see test_editors.py. Run where playwright-core is.
//
//   node vscode.mjs URL FILE PICTURE
import { createRequire } from "node:module";

const { chromium } = createRequire(`${process.cwd()}/`)("playwright-core");
const [url, file, picture] = process.argv.slice(2);
const LONG = { timeout: 90000 };

const browser = await chromium.launch({ executablePath: process.env.PTXSW_BROWSER, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 840, height: 440 } });

async function press(...keys) {
  for (const key of keys) await page.keyboard.press(key);
}

async function session() {
  await page.goto(url);
  await page.getByRole("treeitem", { name: file }).dblclick(LONG);
  await page.waitForSelector(".squiggly-warning", LONG);
  await press("Control+B", "Control+G"); // the line of the finding
  await page.keyboard.type("7:40");
  await press("Enter");
  await press("Control+K", "Control+I"); // the hover
  const hover = await page.waitForSelector(".monaco-hover:has-text('a warp takes')", LONG);
  console.log(await hover.innerText());
  await page.screenshot({ path: picture.replace(".png", "-hover.png") });
  await press("Escape", "Control+Shift+M"); // what is wrong, in a list
  await page.waitForSelector(".markers-panel :text('32-way')", LONG);
  await press("Control+1", "Control+.");
  await page.waitForSelector(".action-widget :text('tile[32][33]')", LONG);
  await page.screenshot({ path: picture });
  await press("Enter");
  await page.waitForSelector(".view-line:has-text('[33]')", LONG);
  await press("Control+S");
  await page.waitForSelector(".squiggly-warning", { state: "detached", ...LONG });
  await page.waitForSelector(".markers-panel :text('No problems')", LONG);
  console.log("mended");
}

try {
  await session();
} catch (error) {
  await page.screenshot({ path: picture });
  console.log(error.message);
  process.exitCode = 1;
}
await browser.close();
