// The JavaScript half of the crate `filch-web`: loads a module, runs its pool in turns of a few
// milliseconds, and carries promises across. It has no dependencies, and runs in browsers, workers,
// node and deno.

// Milliseconds that one turn may take. A frame has 16.7 at 60 Hz, and a turn may begin right before
// the page wants to draw.
const BUDGET = 5;

// Returns a function that calls `f` in a task of its own, so that the page can draw and handle
// events before. `setTimeout` would wait for at least 4 ms when it is called again and again.
function inNextTask(f) {
  if (typeof setImmediate === 'function') return () => setImmediate(f);
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = f;
  return () => port2.postMessage(null);
}

// The bytes of a value that a promise is fulfilled with.
function toBytes(value) {
  if (value instanceof Uint8Array) return value;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (value === undefined) return new Uint8Array();
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return new TextEncoder().encode(text);
}

// Loads a module, calls its exported function `start`, if there is one, and returns:
// - `exports`: the module's functions and memory;
// - `call(name, ...numbers)`: calls an exported function with a token and the numbers, and returns
//   the promise that Rust settles by `filch_web::reply`;
// - `settle(token, promise)`: settles a `filch_web::Promise` as the promise is settled;
// - `text(address, length)` and `bytes(address, length)`: a copy of memory of the module;
// - `write(value)`: copies a value into the module. Returns `[address, length]`, for
//   `filch_web::take_bytes`;
// - `turns`: the number of turns so far.
//
// `source` is what `fetch` returns, or the bytes of the module. `imports` are the imports of the
// module beside those of filch, or a function that returns them and gets the object above.
export async function load(source, { imports = {}, budget = BUDGET, print = console.error } = {}) {
  const replies = new Map();
  let last = 0;
  let timer;
  const app = {
    exports: undefined,
    turns: 0,
    bytes: (address, length) => new Uint8Array(app.exports.memory.buffer, address, length).slice(),
    text: (address, length) => new TextDecoder().decode(app.bytes(address, length)),
    write(value) {
      const bytes = toBytes(value);
      const address = app.exports.filch_allocate(bytes.length);
      new Uint8Array(app.exports.memory.buffer, address, bytes.length).set(bytes);
      return [address, bytes.length];
    },
    settle(token, promise) {
      const end = (fulfilled) => (value) =>
        app.exports.filch_settle(token, fulfilled, ...app.write(fulfilled ? value : String(value)));
      Promise.resolve(promise).then(end(1), end(0));
    },
    call(name, ...numbers) {
      last = (last + 1) >>> 0;
      const token = last;
      return new Promise((fulfil, reject) => {
        replies.set(token, { fulfil, reject });
        app.exports[name](token, ...numbers);
      });
    },
  };
  const requestTurn = inNextTask(() => {
    app.turns += 1;
    app.exports.filch_turn(budget);
  });
  const filch = {
    now: () => performance.now(),
    request_turn: requestTurn,
    request_timers(milliseconds) {
      clearTimeout(timer);
      // Longer delays would count as none.
      timer = setTimeout(() => app.exports.filch_timers(), Math.min(milliseconds, 2 ** 31 - 1));
    },
    print: (address, length) => print(app.text(address, length)),
    settle_reply(token, fulfilled, address, length) {
      const reply = replies.get(token);
      replies.delete(token);
      if (fulfilled) reply?.fulfil(app.bytes(address, length));
      else reply?.reject(new Error(app.text(address, length)));
    },
  };
  const all = { ...(typeof imports === 'function' ? imports(app) : imports), filch };
  source = await source;
  const { instance } =
    typeof Response === 'function' && source instanceof Response
      ? await WebAssembly.instantiateStreaming(source, all)
      : await WebAssembly.instantiate(source, all);
  app.exports = instance.exports;
  app.exports.start?.();
  return app;
}
