// Runs the example `browser` in node and, if one is named, in a browser:
// `node example.mjs <folder of the built examples> [chromium]`.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { load } from '../../js/filch.js';
import { serve } from '../../examples/browser/serve.mjs';

const [built, browser] = process.argv.slice(2);
const LIMIT = 120_000;
const [WIDTH, HEIGHT] = [640, 400];
// One for each tile, one for each row of tiles, and the end.
const TASKS = (WIDTH / 16) * (HEIGHT / 16) + HEIGHT / 16 + 1;

// In node: a timer keeps running while the graph computes.
const shown = new Uint8Array(WIDTH * HEIGHT);
const app = await load(readFile(`${built}/browser.wasm`), {
  imports: {
    app: {
      show(x, y, width, height) {
        for (let row = y; row < y + height; row += 1) {
          shown.fill(1, row * WIDTH + x, row * WIDTH + x + width);
        }
      },
    },
  },
});
let ticks = 0;
const ticking = setInterval(() => (ticks += 1), 1);
const reply = await app.call('picture', WIDTH, HEIGHT, 500);
clearInterval(ticking);
const [tasks, steps] = new TextDecoder().decode(reply).split(' ').map(Number);
assert.equal(tasks, TASKS);
assert(shown.every((pixel) => pixel === 1));
assert(app.turns > 5 && ticks > 5, `${app.turns} turns, ${ticks} ticks`);
console.log(`passed: node: ${tasks} tasks in ${app.turns} turns, ${ticks} ticks of a timer`);

if (browser) {
  let server;
  const report = await new Promise(async (fulfil, reject) => {
    server = await serve(built, 0, fulfil);
    const profile = await mkdtemp(`${tmpdir()}/filch-web-`);
    const url = `http://127.0.0.1:${server.address().port}/?iterations=500`;
    const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'];
    const page = spawn(browser, [...flags, '--remote-debugging-port=0', `--user-data-dir=${profile}`, url], {
      stdio: 'ignore',
      detached: true,
    });
    const limit = setTimeout(() => reject(new Error('the page sent no report')), LIMIT);
    page.on('error', reject);
    server.on('close', () => {
      clearTimeout(limit);
      // The browser and its processes.
      process.kill(-page.pid, 'SIGKILL');
    });
    page.on('exit', () => rm(profile, { recursive: true, force: true, maxRetries: 5 }));
  }).finally(() => {
    server.close();
    server.closeAllConnections();
  });
  assert.deepEqual([report.tasks, report.steps], [TASKS, steps]);
  // How many frames there are a second depends on the machine; that there are some while the graph
  // computes does not.
  assert(report.frames > 3 && report.turns > 5, JSON.stringify(report));
  console.log(`passed: browser: ${JSON.stringify(report)}`);
}
