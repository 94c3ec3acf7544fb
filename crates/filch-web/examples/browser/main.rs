//! A picture that a graph computes while the page keeps drawing; `index.html` shows it, and
//! `serve.mjs` serves it. Empty on targets other than wasm32-unknown-unknown.
//!
//! The graph has a coarse task for each row of tiles, which precedes the fine tasks of that row,
//! and one task that sums up at the end.
#![cfg(all(target_family = "wasm", target_os = "unknown"))]
#![expect(unsafe_code, reason = "functions that JavaScript provides and calls")]
#![allow(missing_docs, reason = "an example")]

use filch::{Graph, Plan, Pool};
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Pixels of the side of a tile.
const TILE: u32 = 16;

/// Pixels of the side of a block of equal colour in the coarse picture.
const COARSE: u32 = 8;

#[link(wasm_import_module = "app")]
unsafe extern "C" {
    /// Draws a rectangle of pixels, four bytes each.
    safe fn show(x: u32, y: u32, width: u32, height: u32, pixels: *const u8);
}

#[derive(Clone, Copy)]
struct Picture {
    width: u32,
    height: u32,
    iterations: u32,
}

impl Picture {
    /// The number of steps until the point of a pixel leaves the circle of radius two.
    fn steps(self, x: u32, y: u32) -> u32 {
        let scale = 2.5 / f64::from(self.height);
        let cx = (f64::from(x) - f64::from(self.width) * 0.7) * scale;
        let cy = (f64::from(y) - f64::from(self.height) * 0.5) * scale;
        let (mut zx, mut zy) = (0.0, 0.0);
        for step in 0..self.iterations {
            (zx, zy) = (zx * zx - zy * zy + cx, 2.0 * zx * zy + cy);
            if zx * zx + zy * zy > 4.0 {
                return step;
            }
        }
        self.iterations
    }

    fn colour(self, steps: u32) -> [u8; 4] {
        if steps == self.iterations {
            return [16, 16, 24, 255];
        }
        let shade = |factor: u32| (steps * factor % 256) as u8;
        [shade(3), shade(7), 128 + shade(11) / 2, 255]
    }

    /// Computes and shows a rectangle of one tile's height, with one point for each block of `size`
    /// pixels. Returns the sum of the steps.
    fn draw(self, x: u32, y: u32, width: u32, size: u32) -> u64 {
        let (right, bottom) = ((x + width).min(self.width), (y + TILE).min(self.height));
        let mut sum = 0;
        let mut pixels = Vec::with_capacity(((right - x) * (bottom - y) * 4) as usize);
        for top in (y..bottom).step_by(size as usize) {
            let mut row = Vec::new();
            for left in (x..right).step_by(size as usize) {
                let steps = self.steps(left, top);
                sum += u64::from(steps);
                for _ in left..right.min(left + size) {
                    row.extend(self.colour(steps));
                }
            }
            (top..bottom.min(top + size)).for_each(|_| pixels.extend(&row));
        }
        show(x, y, right - x, bottom - y, pixels.as_ptr());
        sum
    }

    fn plan(self, sum: &Arc<AtomicU64>) -> Plan<'static> {
        let graph = Graph::new();
        let end = graph.task("end", || ());
        for y in (0..self.height).step_by(TILE as usize) {
            let coarse = graph.task("coarse", move || {
                self.draw(0, y, self.width, COARSE);
            });
            for x in (0..self.width).step_by(TILE as usize) {
                let sum = sum.clone();
                let fine = graph.task("fine", move || {
                    sum.fetch_add(self.draw(x, y, TILE, 1), Ordering::Relaxed);
                });
                coarse.precede([fine]);
                fine.precede([end]);
            }
        }
        graph.plan().expect("it has no cycle")
    }
}

#[unsafe(no_mangle)]
extern "C" fn start() {
    filch_web::start(Pool::builder()).expect("this is the first call");
}

/// Computes a picture. Replies with the number of tasks and the sum of all steps.
#[unsafe(no_mangle)]
extern "C" fn picture(token: u32, width: u32, height: u32, iterations: u32) {
    filch_web::reply(token, async move {
        let sum = Arc::new(AtomicU64::new(0));
        let picture = Picture {
            width,
            height,
            iterations,
        };
        let report = Pool::global().launch(picture.plan(&sum)).await;
        let ran = report.expect("no task fails").ran();
        Ok::<_, Infallible>(format!("{ran} {}", sum.load(Ordering::Relaxed)))
    });
}
