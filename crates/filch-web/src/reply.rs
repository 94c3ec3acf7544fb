//! Futures of Rust as promises of JavaScript.

use crate::page;
use std::fmt::Display;

/// Spawns `future` on the global pool, and settles the promise that JavaScript has made for `token`
/// with its result: `app.call('name', ...)` calls the exported function `name` with a token and the
/// arguments, and returns the promise.
///
/// JavaScript gets the bytes as a `Uint8Array`, or an `Error` with the text.
///
/// ```no_run
/// use filch::time;
/// use std::{convert::Infallible, time::Duration};
///
/// /// `await app.call('later', 100)`
/// #[unsafe(no_mangle)]
/// extern "C" fn later(token: u32, milliseconds: u32) {
///     filch_web::reply(token, async move {
///         time::sleep(Duration::from_millis(milliseconds.into())).await;
///         Ok::<_, Infallible>("done")
///     });
/// }
/// ```
pub fn reply<F, B, E>(token: u32, future: F)
where
    F: Future<Output = Result<B, E>> + Send + 'static,
    B: AsRef<[u8]>,
    E: Display,
{
    let settled = async move {
        match future.await {
            Ok(bytes) => page::settle_promise(token, true, bytes.as_ref()),
            Err(error) => page::settle_promise(token, false, error.to_string().as_bytes()),
        }
    };
    filch::spawn_future(settled).detach();
}
