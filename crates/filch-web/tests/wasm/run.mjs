// Runs the tests of `cases.rs` in node: `node run.mjs <folder of the built examples>`.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { load } from '../../js/filch.js';

const bytes = await readFile(`${process.argv[2]}/web_tests.wasm`);
const printed = [];

const imports = (app) => ({
  tests: {
    later: (address, length, milliseconds, token) => {
      const text = app.text(address, length);
      app.settle(token, new Promise((fulfil) => setTimeout(() => fulfil(text), milliseconds)));
    },
    rejected: (token) => app.settle(token, Promise.reject(new Error('on purpose'))),
    value: (kind, token) => {
      const values = [new Uint8Array([1, 2]), new Uint8Array([3]).buffer, undefined, { a: [1] }];
      app.settle(token, Promise.resolve(values[kind]));
    },
    turns: () => app.turns,
    passed: (address, length) => console.log(`passed: ${app.text(address, length)}`),
  },
});
const start = () => load(bytes, { imports, print: (text) => printed.push(text) });

// What is thrown in a turn, where no promise is rejected.
process.on('uncaughtException', (error) => {
  console.error(printed.join('\n'), error);
  process.exit(1);
});

const app = await start();
try {
  app.exports.run_blocking();
} catch (error) {
  console.error(printed.join('\n'));
  throw error;
}
const limit = setTimeout(() => {
  console.error('the futures did not end', printed);
  process.exit(1);
}, 60_000);
const decode = (bytes) => new TextDecoder().decode(bytes);
assert.equal(decode(await app.call('run_futures')), 'all passed');
await assert.rejects(app.call('fails'), new Error('as it should'));
assert.equal(decode(await app.call('echo', ...app.write('words'))), 'words');
console.log('passed: replies and arguments');
clearTimeout(limit);

// Nothing is left to do: no turn comes without work.
const before = app.turns;
await new Promise((done) => setTimeout(done, 50));
assert.equal(app.turns, before);
console.log('passed: no turns without work');

// A wait that cannot end is reported. The module cannot be used after it.
const other = await start();
assert.throws(() => other.exports.wait_for_ever(), WebAssembly.RuntimeError);
assert.match(printed.join('\n'), /can never end/);
console.log('passed: a wait that cannot end says so');
