//! Every check is seen to fail on a bad example, and to accept a good one.

use super::{
    cycles::cycles,
    found,
    layers::{layers, pure_engine},
    length::{MOST_FUNCTION_LINES, MOST_LINES, MOST_TEST_LINES, short_files, short_functions},
    names::unique_types,
    orderings::ordering_reasons,
    safety::{fenced_unsafe, safety_names, safety_premises},
    source::Source,
    sync::{one_clock, one_door, one_way_to_wait},
};

/// `check` reports exactly the places in `expected`, each given as `path:line: ` and a word.
#[track_caller]
fn reports(
    check: impl Fn(&[Source<'_>]) -> Vec<String>,
    files: &[(&str, &str)],
    expected: &[(&str, &str)],
) {
    let broken = found(check, files);
    let as_expected = broken.len() == expected.len()
        && expected.iter().all(|(place, word)| {
            let here =
                |line: &String| line.starts_with(&format!("{place}: ")) && line.contains(word);
            broken.iter().any(here)
        });
    assert!(as_expected, "expected {expected:?}, found {broken:#?}");
}

#[test]
fn circles_of_files() {
    let files = [
        ("src/graph/mod.rs", "mod a; mod b; mod c; pub use a::A;"),
        // Through a re-export, an imported module, and a path in the code.
        ("src/graph/a.rs", "use super::b; pub struct A;"),
        ("src/graph/b.rs", "fn f() { crate::graph::c::g(); }"),
        (
            "src/graph/c.rs",
            "use crate::graph::A; use std::fmt; pub fn g() {}",
        ),
    ];
    let circle = [("src/graph/a.rs:1", "graph::a, graph::b, graph::c")];
    reports(|sources| cycles(sources, &[]), &files, &circle);
    reports(
        |sources| cycles(sources, &[("graph", 2, 1)]),
        &files,
        &circle,
    );
    reports(|sources| cycles(sources, &[("graph", 3, 1)]), &files, &[]);
    let second = [
        &files[..],
        &[
            ("src/graph/d.rs", "use super::e::E; pub struct D;"),
            ("src/graph/e.rs", "use super::d::D; pub struct E;"),
        ],
    ]
    .concat();
    let more = [("src/graph/d.rs:1", "more than 1 circles")];
    reports(
        |sources| cycles(sources, &[("graph", 3, 1)]),
        &second,
        &more,
    );
    reports(|sources| cycles(sources, &[("graph", 3, 2)]), &second, &[]);
    for larger in [("graph", 4, 1), ("graph", 3, 2)] {
        let lower = found(|sources| cycles(sources, &[larger]), &files);
        assert!(
            lower[0].contains("1 circles of up to 3 files; lower"),
            "{lower:?}"
        );
    }
    let straight = [
        ("src/graph/mod.rs", "mod a; mod b; pub use b::B;"),
        (
            "src/graph/a.rs",
            "use super::{B, b::C}; use crate::graph::b;",
        ),
        (
            "src/graph/b.rs",
            "pub struct B; pub struct C; mod tests { use super::super::a; }",
        ),
    ];
    reports(|sources| cycles(sources, &[]), &straight, &[]);
}

#[test]
fn an_upward_name_is_reported() {
    let nested = "use crate::{\n    base::rng::Rng,\n    threads::{self, ThreadGroup},\n};";
    reports(
        layers,
        &[("src/engine/a.rs", nested)],
        &[
            ("src/engine/a.rs:3", "below `threads`"),
            ("src/engine/a.rs:3", "below `threads`"),
        ],
    );
    let inline = "fn f() {\n    crate::observe::Counters::new(1);\n}";
    reports(
        layers,
        &[("src/base/a.rs", inline)],
        &[("src/base/a.rs:2", "`observe`")],
    );
    let climbing = "mod inner { use super::super::super::executor::Executor; }";
    reports(
        layers,
        &[("src/observe/a.rs", climbing)],
        &[("src/observe/a.rs:1", "`executor`")],
    );
    let renamed = "use crate as all;\nuse crate::*;";
    reports(
        layers,
        &[("src/threads/mod.rs", renamed)],
        &[
            ("src/threads/mod.rs:1", "whole root"),
            ("src/threads/mod.rs:2", "whole root"),
        ],
    );
}

#[test]
fn neighbours_and_strangers_are_reported() {
    let aid = (
        "src/semaphore/mod.rs",
        "pub(crate) use crate::cancel::CancelToken;",
    );
    reports(layers, &[aid], &[("src/semaphore/mod.rs:1", "one layer")]);
    let face = (
        "src/fork/join.rs",
        "use crate::{engine::Core, graph::Plan};",
    );
    reports(layers, &[face], &[("src/fork/join.rs:1", "one layer")]);
    let stranger = ("src/util/mod.rs", "");
    reports(
        layers,
        &[stranger],
        &[("src/util/mod.rs:1", "add it to the table LAYERS")],
    );
    let caller = ("src/threads/mod.rs", "use crate::util::helper;");
    reports(
        layers,
        &[caller],
        &[("src/threads/mod.rs:1", "add it to the table LAYERS")],
    );
}

#[test]
fn a_re_export_counts_as_its_module() {
    let root = (
        "src/lib.rs",
        "pub use executor::{Executor, Builder as Maker};",
    );
    let user = (
        "src/threads/mod.rs",
        "use crate::Executor;\nuse crate::Maker;",
    );
    reports(
        layers,
        &[root, user],
        &[
            ("src/threads/mod.rs:1", "`executor`"),
            ("src/threads/mod.rs:2", "`executor`"),
        ],
    );
    let above = (
        "src/executor/mod.rs",
        "use crate::{Executor, threads::ThreadGroup, executor::x};",
    );
    reports(layers, &[root, above], &[]);
}

#[test]
fn comments_strings_and_test_modules_are_no_names() {
    let text = r###"
        //! See [`Executor`](crate::Executor) and `crate::threads`.
        /* use crate::threads; /* nested */ use crate::executor; */
        const A: &str = "use crate::other; \" crate::other";
        const B: &str = r#"unsafe { " crate::thread_group }"#;
        const C: [char; 3] = ['"', '\'', '\u{7b}'];
        fn f<'a>(x: &'a u8) -> &'a u8 { x }
        #[cfg(all(not(filch_loom), test))]
        #[rustfmt::skip]
        mod tests { use crate::threads::ThreadGroup; use std::{thread, sync::atomic::AtomicU8}; }
    "###;
    let file = [("src/engine/a.rs", text)];
    reports(layers, &file, &[]);
    reports(pure_engine, &file, &[]);
    reports(one_door, &file, &[]);
    reports(|sources| fenced_unsafe(sources, &[]), &file, &[]);
    let not_a_test = "#[cfg(any(test, loom))]\nmod a { use crate::threads::ThreadGroup; }";
    reports(
        layers,
        &[("src/engine/a.rs", not_a_test)],
        &[("src/engine/a.rs:2", "`threads`")],
    );
}

#[test]
fn an_engine_with_a_clock_is_reported() {
    let bad = "use std::{\n    time::{Duration, Instant},\n    sync::Arc,\n};\nuse std::time;\n\
               fn f() {\n    std::thread::yield_now();\n    println!();\n}\nuse std::io::*;";
    reports(
        pure_engine,
        &[("src/engine/a.rs", bad), ("src/threads/a.rs", bad)],
        &[
            ("src/engine/a.rs:2", "Instant"),
            ("src/engine/a.rs:5", "std::time"),
            ("src/engine/a.rs:7", "std::thread"),
            ("src/engine/a.rs:8", "println!"),
            ("src/engine/a.rs:10", "std::io"),
        ],
    );
    for place in ["time::SystemTime", "env::var", "fs::File", "net", "time::*"] {
        let text = format!("use ::std::{place};");
        let file = [("src/engine/a.rs", &text[..])];
        reports(
            pure_engine,
            &file,
            &[("src/engine/a.rs:1", "the engine uses")],
        );
    }
}

#[test]
fn unfenced_unsafe_is_reported() {
    let check = |sources: &[Source<'_>]| fenced_unsafe(sources, &["src/a.rs", "src/b.rs"]);
    let bare = "fn f() {\n    unsafe { g() }\n}";
    let fenced = "#![expect(\n    unsafe_code,\n    reason = \"x\"\n)]\nunsafe fn f() {}";
    reports(
        check,
        &[("src/a.rs", fenced), ("src/b.rs", bare), ("src/c.rs", bare)],
        &[
            ("src/b.rs:2", "without `expect"),
            ("src/c.rs:2", "outside the files"),
        ],
    );
    reports(
        check,
        &[("src/a.rs", "// unsafe")],
        &[
            ("src/a.rs:1", "no `unsafe` any more"),
            ("src/b.rs:1", "gone"),
        ],
    );
}

#[test]
fn a_wait_around_the_door_is_reported() {
    let waits = "use std::{fmt, thread};\nuse std::thread::{Builder, park};";
    let files = [("src/pool/a.rs", waits), ("src/rehearse/mod.rs", waits)];
    let found = [("src/pool/a.rs:1", "thread"), ("src/pool/a.rs:2", "park")];
    reports(one_way_to_wait, &files, &found);
}

#[test]
fn a_second_clock_is_reported() {
    let times = "use std::time::{Duration, Instant};\nuse crate::base::Instant;";
    let files = [("src/pool/a.rs", times), ("src/base/instant.rs", times)];
    reports(
        one_clock,
        &files,
        &[("src/pool/a.rs:1", "std::time::Instant")],
    );
}

#[test]
fn a_second_door_is_reported() {
    let nested =
        "use std::{\n    fmt,\n    sync::{\n        Arc,\n        atomic::AtomicU8,\n    },\n};";
    let inline = "static A: core::sync::atomic::AtomicU8 = x;\nuse std::sync;";
    let loom = "use loom::sync::atomic::fence;\nuse atomic_maybe_uninit::AtomicMaybeUninit;";
    let files = [
        ("src/engine/a.rs", nested),
        ("src/threads/a.rs", inline),
        ("src/fork/a.rs", loom),
        ("src/base/sync.rs", nested),
        ("src/base/canary.rs", nested),
        ("src/engine/deque/tests.rs", nested),
    ];
    reports(
        one_door,
        &files,
        &[
            ("src/engine/a.rs:5", "AtomicU8"),
            ("src/threads/a.rs:1", "AtomicU8"),
            ("src/threads/a.rs:2", "std::sync"),
            ("src/fork/a.rs:1", "fence"),
            ("src/fork/a.rs:2", "AtomicMaybeUninit"),
        ],
    );
}

#[test]
fn a_stale_name_in_a_safety_comment_is_reported() {
    let text = "
        // `elsewhere` is not in a safety argument.
        fn f(&mut self) {
            // SAFETY: `slot` is at most `mask`, so `(mask + 1) * STRIDE` of `Owner::vanish`
            // is fine; `T: Send`, `&mut self`, `0x1f` and `gone` too. `only_in_a_comment`
            unsafe { slot(mask, STRIDE, Owner) }
        }
        // only_in_a_comment
        #[cfg(test)]
        mod tests {
            // SAFETY: `tested` exists here.
            fn tested() {}
        }
        // SAFETY: `tested` exists only in tests.
    ";
    let prose = ("src/engine/a.md", "gone vanish");
    let far = ("src/threads/b.rs", "fn gone() {}");
    let missing = [
        ("src/engine/a.rs:4", "`vanish`"),
        ("src/engine/a.rs:5", "`only_in_a_comment`"),
        ("src/engine/a.rs:14", "`tested`"),
        ("src/engine/a.rs:5", "`gone`"),
    ];
    reports(
        safety_names,
        &[("src/engine/a.rs", text), prose, far],
        &missing,
    );
    let near = ("src/engine/b.rs", "fn gone() {}");
    reports(
        safety_names,
        &[("src/engine/a.rs", text), near],
        &missing[..3],
    );
    let open = ("src/engine/a.rs", "// SAFETY: as\n// in `f\nfn f() {}");
    reports(
        safety_names,
        &[open],
        &[("src/engine/a.rs:1", "not closed")],
    );
}

#[test]
fn a_safety_comment_without_a_premise_is_reported() {
    let text = "// SAFETY: the caller's duty.\nf();\n\
                // SAFETY: as above, the ring is not freed before `r` is dropped.\nf();\n\
                // SAFETY: the job is pending,\n// so its waiter is alive.\nf();\n\
                // Not safe.\nlet a = \"// SAFETY: short.\";";
    let found = [
        ("src/pool/a.rs:1", "in a sentence"),
        ("src/pool/a.rs:3", "named before"),
    ];
    reports(safety_premises, &[("src/pool/a.rs", text)], &found);
}

#[test]
fn an_ordering_without_a_reason_is_reported() {
    let text = "
        /// Relaxed: documentation gives no reason.
        fn f() {
            a.load(Ordering::Relaxed);
            // Because it is so.
            a.load(Ordering::Acquire);
        }
        // Relaxed: of another function.
        fn g(x: [u8; 3]) {
            a.load(atomic::Ordering::Relaxed);
            // Relaxed: a hint, which is
            // no reason for the next line but one.
            a.load(Ordering::Relaxed);
            a.store(1, Ordering::SeqCst);
            // Release: pairs with the acquire in `h`. Filler follows.
            1;\n2;\n3;\n4;\n5;\n6;\n7;\n a.store(1, Ordering::Release);
            a.store(2, Ordering::Release);
        }
        use std::sync::atomic::Ordering::{Relaxed, Release};
        use std::cmp::Ordering::*;
    ";
    let at = |line: usize| format!("src/engine/a.rs:{line}");
    reports(
        ordering_reasons,
        &[("src/engine/a.rs", text)],
        &[
            (&at(4), "Relaxed"),
            (&at(6), "Acquire"),
            (&at(10), "Relaxed"),
            (&at(14), "SeqCst"),
            (&at(24), "Release"),
            (&at(26), "write `Ordering::`"),
            (&at(26), "write `Ordering::`"),
        ],
    );
}

#[test]
fn a_reason_is_accepted() {
    let text = "
        fn f() {
            // AcqRel: hands on what was seen.
            a.compare_exchange(
                b,
                c,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            a.load(Ordering::Acquire); // Acquire: pairs with the release in `g`.
            // As above.
            a.load(Ordering::SeqCst);
            a.cmp(b) == Ordering::Less;
        }
        impl fmt::Debug for A {
            fn fmt(&self) { self.a.load(Ordering::Relaxed) }
        }
        #[cfg(test)]
        mod tests { fn f() { a.load(Ordering::Relaxed); } }
    ";
    reports(ordering_reasons, &[("src/engine/a.rs", text)], &[]);
}

#[test]
fn a_second_type_of_a_name_is_reported() {
    let first =
        "pub struct Wait;\ntrait Sealed {}\nimpl Iterator for Wait {\n    type Item = u8;\n}";
    let second = "fn f() {\n    enum Wait {}\n}\ntype Alias = u8;\ntrait Sealed {}\n\
                  trait List {\n    type Item;\n}\n#[cfg(test)]\nmod tests {\n    struct List;\n}";
    let third = "struct Alias;";
    let files = [
        ("src/pool/a.rs", first),
        ("src/pool/b.rs", second),
        ("src/pool/c.rs", third),
        ("src/pool/tests.rs", "struct Wait;"),
    ];
    let found = [
        (
            "src/pool/b.rs:2",
            "`Wait` is also defined in src/pool/a.rs:1",
        ),
        ("src/pool/c.rs:1", "`Alias`"),
    ];
    reports(|sources| unique_types(sources, &["Sealed"]), &files, &found);
}

#[test]
fn a_long_file_is_reported() {
    let (long, longer) = (
        "\n".repeat(MOST_LINES + 1),
        "\n".repeat(MOST_TEST_LINES + 1),
    );
    let files = [
        ("src/engine/a.rs", &long[..]),
        ("src/engine/tests.rs", &long[..]),
        ("src/threads/tests.rs", &longer[..]),
        ("src/threads/page.md", &long[1..]),
    ];
    reports(
        short_files,
        &files,
        &[
            ("src/engine/a.rs:651", "split it"),
            ("src/threads/tests.rs:1201", "split it"),
        ],
    );
}

#[test]
fn a_long_function_is_reported() {
    let text = format!(
        "trait A {{ fn a(); }}\nfn long(x: [u8; 2]) -> u8 {{{}}}\nfn short() {{{}}}",
        "\n".repeat(MOST_FUNCTION_LINES),
        "\n".repeat(MOST_FUNCTION_LINES - 1)
    );
    let files = [("src/pool/a.rs", &text[..])];
    let long = [("src/pool/a.rs:2", "`long` has 71 lines")];
    reports(|sources| short_functions(sources, &[]), &files, &long);
    let exception = [("src/pool/a.rs", "long", 71)];
    reports(|sources| short_functions(sources, &exception), &files, &[]);
    let two = [
        ("src/pool/a.rs", "long", 71),
        ("src/pool/a.rs", "short", 71),
    ];
    let stale = [("src/pool/a.rs:1", "`short` is no exception any more")];
    reports(|sources| short_functions(sources, &two), &files, &stale);
}
