//! What the rules of the source tree name one by one.

/// The files that may say `unsafe`.
pub(super) const UNSAFE_FILES: &[&str] = &[
    "src/loom_tests.rs",
    "src/base/once_call.rs",
    "src/base/sys/barrier.rs",
    "src/base/sys/cores.rs",
    "src/base/sys/memory.rs",
    "src/base/sys/process.rs",
    "src/base/sys/stack.rs",
    "src/base/word.rs",
    "src/engine/deque/ring.rs",
    "src/engine/deque/rings.rs",
    "src/engine/deque/mod.rs",
    "src/engine/deque/owner.rs",
    "src/clock/timeout.rs",
    "src/pool/blocks.rs",
    "src/pool/blocks/class.rs",
    "src/pool/blocks/list.rs",
    "src/pool/blocks/reserve.rs",
    "src/pool/blocks/tests.rs",
    "src/pool/shadowed.rs",
    "src/pool/inner.rs",
    "src/pool/job.rs",
    "src/pool/context.rs",
    "src/pool/pending/loom_tests.rs",
    "src/pool/slab.rs",
    "src/pool/stack.rs",
    "src/pool/stack/loom_tests.rs",
    "src/pool/heap.rs",
    "src/pool/pending_group.rs",
    "src/pool/scoped.rs",
    "src/fold/family.rs",
    "src/fold/family/loom_tests.rs",
    "src/fold/team.rs",
    "src/fork/broadcast.rs",
    "src/fork/join.rs",
    "src/fork/outside.rs",
    "src/fork/scope.rs",
    "src/fork/scope_limit.rs",
    "src/fork/scope_state.rs",
    "src/fork/spawn.rs",
    "src/fork/worker.rs",
    "src/graph/jobs.rs",
    "src/graph/nested.rs",
    "src/graph/node.rs",
    "src/graph/node/loom_tests.rs",
    "src/graph/plain.rs",
    "src/graph/run.rs",
    "src/graph/special.rs",
    "src/graph/heap_run.rs",
    "src/graph/control.rs",
    "src/graph/runtime.rs",
    "src/graph/walk.rs",
    "src/graph/running_task.rs",
    "src/graph/future.rs",
    "src/graph/pipeline/erased.rs",
    "src/graph/pipeline/run.rs",
    "src/graph/pipeline/task.rs",
    "src/par/owned.rs",
    "src/par/output.rs",
    "src/par/merge.rs",
    "src/par/nearly.rs",
    "src/submit/cell/task_join.rs",
    "src/submit/cell/ticket.rs",
    "src/pool/active_jobs.rs",
    "src/pool/current_pool.rs",
    "src/pool/residents.rs",
    "src/task/cell.rs",
    "src/task/header.rs",
    "src/task/join.rs",
    "src/task/loom_tests.rs",
    "src/task/schedule.rs",
    "src/future/cell/mod.rs",
    "src/future/cell/run.rs",
    "src/future/spawn.rs",
    "src/future/scope.rs",
];

/// How many files of a module may use one another in a circle, and how many such circles it may
/// have, at most. Other modules have no circles. Numbers only go down.
pub(super) const CYCLES: &[(&str, usize, usize)] = &[("graph", 4, 3)];

/// Names of types that may be defined more than once.
pub(super) const SHARED_NAMES: &[&str] = &[
    // The private trait that closes a public one; each is named with its module.
    "Sealed",
    // One definition for each way to read a word: with its padding, without, and under loom.
    "Word",
];

/// Functions of more than 70 lines: the path, the name and the most lines. Numbers only go down.
pub(super) const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[("src/par/drive.rs", "walk", 82)];
