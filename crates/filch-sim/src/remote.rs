//! The JSON of types of the engine, which itself knows nothing of serde.

use filch::engine;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(remote = "engine::Priority", rename_all = "snake_case")]
pub(crate) enum Priority {
    Low,
    Normal,
    High,
    Critical,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "engine::Ageing", deny_unknown_fields)]
pub(crate) struct Ageing {
    high: u32,
    normal: u32,
    low: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "engine::WakePolicy")]
pub(crate) enum WakePolicy {
    EveryPush,
    OncePerBatch,
    EveryKth(u32),
    OnHoard(u32),
}
