//! filch in the browser, in node and in other JavaScript programs.
//!
//! [`start`] makes the page the host of the program: the global pool has no threads, and the page
//! runs what is queued for a few milliseconds at a time, between two frames. Futures, submitted
//! tasks and [launched](filch::Pool::launch) graphs progress in these turns. Timers follow the
//! page's clock, and a future can await a JavaScript promise, as a [`Promise`].
//!
//! The JavaScript half is one file of this crate, `js/filch.js`, without dependencies. It loads the
//! module and provides the imports that this crate needs:
//!
//! ```js
//! import { load } from './filch.js';
//!
//! const app = await load(fetch('app.wasm'), {
//!   imports: (app) => ({
//!     app: {
//!       // Called by Rust; the promise is awaited there.
//!       get: (address, length, token) =>
//!         app.settle(token, fetch(app.text(address, length)).then((answer) => answer.text())),
//!     },
//!   }),
//! });
//! const answer = await app.call('words', 3); // an exported function of Rust that replies later
//! ```
//!
//! ```no_run
//! use filch_web::Promise;
//!
//! # #[cfg(any())]
//! #[link(wasm_import_module = "app")]
//! unsafe extern "C" {
//!     safe fn get(address: *const u8, length: usize, token: u32);
//! }
//! # fn get(address: *const u8, length: usize, token: u32) {}
//!
//! #[unsafe(no_mangle)]
//! extern "C" fn words(reply: u32, chapter: u32) {
//!     filch_web::reply(reply, async move {
//!         let url = format!("chapter-{chapter}.txt");
//!         let text = Promise::new(|token| get(url.as_ptr(), url.len(), token)).await?;
//!         let count = filch::submit(move || text.split(|byte| *byte == b' ').count());
//!         Ok::<_, filch_web::PromiseError>(count.await.unwrap().to_string())
//!     });
//! }
//! ```
//!
//! # One thread
//!
//! Everything runs on the thread of the page, so what blocks, blocks the page: a
//! [`join`](filch::join), a loop, a fold or [`Plan::run`](filch::Plan::run) returns when it is
//! done, as on a pool of one worker. Long work should be a launched graph, submitted tasks, or a
//! future that [yields](filch::future::yield_now). A wait that could never end panics.
//!
//! A panic ends the program, because this target does not unwind by default. [`start`] sets a hook
//! that prints the message to the console.
#![expect(
    unsafe_code,
    reason = "functions that JavaScript provides and calls, and memory that it has filled"
)]

mod bytes;
mod page;
mod promise;
mod reply;
mod turns;

pub use bytes::take_bytes;
pub use promise::{Promise, PromiseError, settle};
pub use reply::reply;
pub use turns::start;
