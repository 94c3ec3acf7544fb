//! The traits whose methods start parallel loops: `use filch::prelude::*`.
//!
//! ```
//! use filch::prelude::*;
//!
//! let mut data = vec![3_u64, 1, 2];
//! data.par_mut().for_each(|n| *n += 1);
//! assert_eq!(data.par().sum::<u64>(), 9);
//! assert_eq!(data.into_par().map(|n| n * n).to_vec(), [16, 4, 9]);
//! ```

pub use crate::par::{IntoPar, Par, ParBridge, ParMut, ParStr};
