//! Detached tasks.

use crate::{
    here,
    registry::{global, guard},
};

/// Runs `func` asynchronously, on the current pool, or on the global one outside of any pool.
///
/// On a worker the newest task runs first, unless an idle thread steals the oldest.
///
/// If it panics, the pool's [panic handler](crate::ThreadPoolBuilder::panic_handler) is called;
/// without one the process aborts.
///
/// ```
/// let (send, receive) = std::sync::mpsc::channel();
/// rayon_core::spawn(move || send.send("done").unwrap());
/// assert_eq!(receive.recv(), Ok("done"));
/// ```
pub fn spawn<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    if here::is_inside() {
        filch::spawn(|| guard(func));
    } else {
        global().spawn(func);
    }
}

/// [`spawn`] in FIFO order: of the tasks that one thread spawned by this function, the oldest
/// starts first.
///
/// ```
/// let (send, receive) = std::sync::mpsc::channel();
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(1).build()?;
/// pool.install(|| {
///     for n in 0..3 {
///         let send = send.clone();
///         rayon_core::spawn_fifo(move || send.send(n).unwrap());
///     }
/// });
/// assert_eq!(receive.iter().take(3).collect::<Vec<_>>(), [0, 1, 2]);
/// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
/// ```
pub fn spawn_fifo<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    match (here::get(), here::registry()) {
        (Some(here), Some(registry)) => {
            let task = Box::new(|| guard(func));
            filch::spawn(registry.line_up(Some(here.index), task));
        }
        _ => global().spawn_fifo(func),
    }
}
