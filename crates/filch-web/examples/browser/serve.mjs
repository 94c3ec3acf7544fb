// Serves the example: `node serve.mjs <folder of the built examples> [port]`.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const TYPES = { html: 'text/html', js: 'text/javascript', wasm: 'application/wasm' };

// Starts a server on `port` (0: any). `onReport` gets what the page has measured.
export function serve(built, port, onReport = () => {}) {
  const here = (name) => new URL(name, import.meta.url);
  const files = {
    '/': here('index.html'),
    '/page.js': here('page.js'),
    '/filch.js': here('../../js/filch.js'),
    '/browser.wasm': new URL('browser.wasm', pathToFileURL(`${built}/`)),
  };
  const server = createServer(async (request, answer) => {
    const path = new URL(request.url, 'http://localhost').pathname;
    if (request.method === 'POST' && path === '/report') {
      const parts = [];
      for await (const part of request) parts.push(part);
      answer.end();
      return onReport(JSON.parse(Buffer.concat(parts).toString()));
    }
    if (!files[path]) return answer.writeHead(404).end();
    const type = TYPES[files[path].pathname.split('.').at(-1)];
    answer.writeHead(200, { 'content-type': type }).end(await readFile(files[path]));
  });
  return new Promise((started) => server.listen(port, '127.0.0.1', () => started(server)));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const server = await serve(process.argv[2], Number(process.argv[3] ?? 8000), console.log);
  console.log(`http://127.0.0.1:${server.address().port}/`);
}
