//! What calls by name promise.

#[path = "../../filch/tests/support/mod.rs"]
mod support;

use filch::{CancelToken, Pool, Priority, TaskOverflow};
use filch_calls::{Call, CallError, CallHandle, Registry, Value};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    collections::BTreeMap,
    error::Error,
    num::ParseIntError,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use support::{Flag, LIMIT, block_on, message, pool, quiet_panic, within};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Point {
    x: f64,
    y: f64,
}

fn registry() -> Registry {
    Registry::builder()
        .function("Square", |x: i64| x * x)
        .function("Add", |(a, b): (i64, i64)| a + b)
        .function("Append", |(a, b): (String, String)| a + &b)
        .function("Swap", |point: Point| Point {
            x: point.y,
            y: point.x,
        })
        .function("Nothing", |(): ()| ())
        .function("Panic", |what: String| -> i64 {
            quiet_panic(match &what[..] {
                "soft" => "soft",
                _ => "hard",
            })
        })
        .function("Unwritable", |(): ()| BTreeMap::from([((1, 2), 3)]))
        .try_function("Parse", |text: String| text.parse::<i64>())
        .try_function("Odd", |n: i64| match n % 2 {
            0 => Err(format!("{n} is even")),
            _ => Ok(n),
        })
        .build()
        .unwrap()
}

/// A registry whose function waits, and the flags that say that it runs and that it may go on.
fn waiting() -> (Registry, Flag, Flag) {
    let (begun, go) = (Flag::default(), Flag::default());
    let (set, wait) = (begun.clone(), go.clone());
    let registry = Registry::builder()
        .function("Wait", move |n: i64| {
            set.set();
            wait.wait("the test lets it go on");
            n
        })
        .build()
        .unwrap();
    (registry, begun, go)
}

fn error_of<R: serde::de::DeserializeOwned + std::fmt::Debug>(
    function: &str,
    args: &impl Serialize,
) -> CallError {
    let handle = registry().call::<R>(&pool(1), function, args);
    handle.and_then(CallHandle::join).unwrap_err()
}

#[test]
fn everything_can_cross_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    fn sent<T: Send + 'static>() {}
    shared::<Registry>();
    shared::<Call>();
    shared::<CallError>();
    sent::<CallHandle<std::rc::Rc<u8>>>();
}

#[test]
fn results_come_back_as_what_is_wanted() {
    within(LIMIT, || {
        let registry = registry();
        for workers in [0, 1, 2] {
            let pool = pool(workers);
            let square = registry.call::<i64>(&pool, "Square", &-7).unwrap();
            assert_eq!(square.function(), "Square");
            assert_eq!(square.join().unwrap(), 49);
            let point = Point { x: 1.0, y: 2.5 };
            let swapped = registry.call::<Point>(&pool, "Swap", &point).unwrap();
            assert_eq!(swapped.join().unwrap(), Point { x: 2.5, y: 1.0 });
            let untyped = registry.call::<Value>(&pool, "Swap", &point).unwrap();
            assert_eq!(untyped.join().unwrap(), json!({"x": 2.5, "y": 1.0}));
            let nothing = registry.call::<()>(&pool, "Nothing", &()).unwrap();
            assert_eq!(nothing.join().unwrap(), ());
            // Whatever reads the same JSON will do.
            let float = registry.call::<f64>(&pool, "Add", &[1, 2]).unwrap();
            assert_eq!(float.join().unwrap(), 3.0);
        }
    });
}

#[test]
fn a_call_can_be_sent_and_run_elsewhere() {
    let text = Call::new("Add", &(2, 3)).unwrap().to_json();
    let received = Call::from_json(&text).unwrap();
    assert_eq!(received.to_string(), "Add(2, 3)");
    assert_eq!(registry().run(received.clone()).unwrap(), 5);
    let result = registry().submit::<i64>(&pool(1), received);
    assert_eq!(result.unwrap().join().unwrap(), 5);
    // Without arguments: those of a function of nothing.
    let bare = Call::from_json(r#"{"function": "Nothing"}"#).unwrap();
    assert_eq!(bare, Call::new("Nothing", &()).unwrap());
    assert_eq!(bare.to_string(), "Nothing()");
    assert_eq!(Call::new("Parse", "1").unwrap().to_string(), "Parse(\"1\")");
}

#[test]
fn a_text_that_is_no_call_says_why() {
    for (text, why) in [
        ("", "EOF"),
        ("{", "EOF"),
        ("{}", "missing field `function`"),
        (r#"{"function": 3}"#, "expected a string"),
        (r#"{"function": "Add", "arg": 1}"#, "unknown field `arg`"),
    ] {
        let error = Call::from_json(text).unwrap_err();
        assert!(error.is_text() && error.source().is_some());
        let said = error.to_string();
        assert!(said.starts_with("this is no call: "), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn unknown_functions_are_reported_at_once() {
    for (name, said) in [
        (
            "square",
            "no function is called \"square\"; did you mean Square?",
        ),
        (
            "Apend",
            "no function is called \"Apend\"; did you mean Append?",
        ),
        (
            "Fourier transform",
            "no function is called \"Fourier transform\"; there are Add, Append, Nothing, Odd, Panic, Parse, \
             Square, Swap and 1 more",
        ),
    ] {
        let pool = pool(0);
        let error = registry().call::<i64>(&pool, name, &1).unwrap_err();
        assert!(error.is_unknown() && !error.is_arguments());
        assert_eq!((error.function(), error.to_string()), (name, said.into()));
        assert!(
            registry()
                .map::<i64>(&pool, name, [1])
                .unwrap_err()
                .is_unknown()
        );
        assert!(
            registry()
                .reduce::<i64>(&pool, name, [1])
                .unwrap_err()
                .is_unknown()
        );
    }
}

#[test]
fn arguments_that_do_not_fit_are_reported_and_the_function_is_not_called() {
    let called = Arc::new(AtomicUsize::new(0));
    let count = called.clone();
    let registry = Registry::builder()
        .function("Add", move |(a, b): (i64, i64)| {
            count.fetch_add(1, Ordering::SeqCst);
            a + b
        })
        .build()
        .unwrap();
    let pool = pool(1);
    for (args, said) in [
        (
            json!(1),
            "not 1: invalid type: integer `1`, expected a tuple of size 2",
        ),
        (
            json!([1]),
            "not [1]: invalid length 1, expected a tuple of size 2",
        ),
        (
            json!([1, 2, 3]),
            "not [1,2,3]: invalid length 3, expected fewer elements in array",
        ),
        (
            json!([1, 2.5]),
            "not [1,2.5]: invalid type: floating point `2.5`, expected i64",
        ),
        (
            json!([1, "2"]),
            "not [1,\"2\"]: invalid type: string \"2\", expected i64",
        ),
        (
            Value::Null,
            "not null: invalid type: null, expected a tuple of size 2",
        ),
    ] {
        let handle = registry.call::<i64>(&pool, "Add", &args).unwrap();
        let error = handle.join().unwrap_err();
        assert!(error.is_arguments() && error.source().is_some());
        assert_eq!(error.to_string(), format!("Add takes (i64, i64), {said}"));
    }
    assert_eq!(called.load(Ordering::SeqCst), 0);
    let missing = error_of::<Value>("Swap", &json!({"x": 1.0}));
    assert_eq!(
        missing.to_string(),
        "Swap takes Point, not {\"x\":1.0}: missing field `y`"
    );
}

#[test]
fn values_that_cannot_be_serialised_are_reported() {
    let keys = BTreeMap::from([((1, 2), 3)]);
    let error = Call::new("Square", &keys).unwrap_err();
    assert!(error.is_arguments() && error.source().is_some());
    assert!(
        error
            .to_string()
            .starts_with("the arguments for Square cannot be written as JSON: ")
    );
    let error = registry()
        .map::<i64>(&pool(0), "Square", [keys])
        .unwrap_err();
    assert_eq!(error.item(), Some(0));
    let error = error_of::<Value>("Unwritable", &());
    assert!(error.is_result() && error.source().is_some());
    assert!(
        error.to_string().starts_with(
            "the BTreeMap<(i32, i32), i32> that Unwritable gave cannot be written as JSON: "
        ),
        "{error}"
    );
}

#[test]
fn results_that_do_not_fit_are_reported() {
    let error = error_of::<String>("Square", &3);
    assert!(error.is_result() && !error.is_arguments() && error.source().is_some());
    assert_eq!(
        error.to_string(),
        "Square gave 9, where String was wanted: invalid type: integer `9`, expected a string"
    );
    assert!(
        error_of::<u8>("Square", &100)
            .to_string()
            .contains("where u8 was wanted")
    );
}

#[test]
fn a_function_s_own_error_is_the_source() {
    let error = error_of::<i64>("Parse", &"seven");
    assert!(error.is_failed() && !error.is_panic());
    assert_eq!(
        error.to_string(),
        "Parse failed: invalid digit found in string"
    );
    assert!(error.source().unwrap().is::<ParseIntError>());
    assert_eq!(
        error_of::<i64>("Odd", &2).to_string(),
        "Odd failed: 2 is even"
    );
}

#[test]
fn a_panic_costs_one_call() {
    within(LIMIT, || {
        let (registry, pool) = (registry(), pool(1));
        let panic = registry.call::<i64>(&pool, "Panic", "soft").unwrap();
        let error = panic.join().unwrap_err();
        assert!(error.is_panic() && !error.is_cancelled() && error.source().is_some());
        assert_eq!(error.to_string(), "task `Panic` panicked: soft");
        let error = error.into_call().unwrap_err();
        assert_eq!(message(&*error.into_panic().unwrap()), "soft");
        let square = registry.call::<i64>(&pool, "Square", &3).unwrap();
        assert_eq!(square.join().unwrap(), 9);
    });
}

#[test]
fn a_call_has_the_settings_of_a_task() {
    within(LIMIT, || {
        let registry = Registry::builder()
            .function("Who", |(): ()| {
                let task = filch::current_task().expect("a task");
                (
                    task.name().map(str::to_owned),
                    task.priority() == Priority::High,
                )
            })
            .build()
            .unwrap();
        let pool = pool(1);
        let call = Call::new("Who", &()).unwrap();
        let task = |name: Option<&str>| {
            let task = registry.task(&pool, call.clone()).unwrap();
            let task = task.priority(Priority::High);
            match name {
                Some(name) => task.name(name),
                None => task,
            }
        };
        let handle = task(None).submit::<(String, bool)>().unwrap();
        assert_eq!(
            (handle.name(), handle.priority()),
            (Some("Who"), Priority::High)
        );
        assert_eq!(handle.join().unwrap(), ("Who".into(), true));
        let named = task(Some("me"))
            .submit_timeout::<(String, bool)>(LIMIT)
            .unwrap();
        assert_eq!(named.join().unwrap(), ("me".into(), true));
    });
}

#[test]
fn calls_are_cancelled_by_handle_token_and_deadline() {
    within(LIMIT, || {
        let (registry, begun, go) = waiting();
        let pool = pool(1);
        let call = Call::new("Wait", &5).unwrap();
        let running = registry.submit::<i64>(&pool, call.clone()).unwrap();
        begun.wait("the first call runs");
        let token = CancelToken::new();
        let task = || registry.task(&pool, call.clone()).unwrap();
        let by_hand = task().submit::<i64>().unwrap();
        let by_token = task().token(&token).submit::<i64>().unwrap();
        let by_deadline = task().timeout(Duration::ZERO).submit::<i64>().unwrap();
        assert!(by_hand.cancel());
        token.cancel();
        for handle in [by_hand, by_token] {
            let error = handle.join().unwrap_err();
            assert!(error.is_cancelled() && !error.is_deadline() && !error.is_refused());
            assert!(error.task_error().is_some());
        }
        let late = block_on(by_deadline).unwrap_err();
        assert!(late.is_cancelled() && late.is_deadline());
        go.set();
        assert_eq!(running.join().unwrap(), 5);
    });
}

#[test]
fn a_refused_call_comes_back() {
    within(LIMIT, || {
        let registry = registry();
        let builder = Pool::builder().workers(0).task_capacity(1);
        let pool = builder.overflow(TaskOverflow::Refuse).build().unwrap();
        let queued = registry.call::<i64>(&pool, "Square", &2).unwrap();
        let call = Call::new("Square", &3).unwrap();
        let task = || registry.task(&pool, call.clone()).unwrap();
        for refused in [task().submit::<i64>(), task().try_submit::<i64>()] {
            let error = refused.unwrap_err();
            assert!(error.is_refused() && error.is_cancelled() && error.source().is_some());
            assert!(
                error
                    .to_string()
                    .starts_with("the pool has no room for a call of Square")
            );
            let error = error.into_panic().unwrap_err();
            assert_eq!(error.into_call().unwrap(), call);
        }
        // The chunks of a map are not returned.
        let error = registry.map::<i64>(&pool, "Square", [1, 2]).unwrap_err();
        assert!(error.is_refused());
        assert_eq!(queued.join().unwrap(), 4);
        let other = pool.clone();
        pool.shutdown();
        let error = registry.submit::<i64>(&other, call.clone()).unwrap_err();
        assert!(error.is_refused());
        assert!(error.to_string().contains("takes no more tasks"), "{error}");
        assert_eq!(error.into_call().unwrap(), call);
    });
}

#[test]
fn handles_can_be_polled_awaited_and_detached() {
    within(LIMIT, || {
        let (registry, begun, go) = waiting();
        let pool = pool(1);
        let handle = registry.call::<i64>(&pool, "Wait", &1).unwrap();
        begun.wait("it runs");
        let handle = handle.try_join().unwrap_err();
        let handle = handle.join_timeout(Duration::from_millis(1)).unwrap_err();
        assert!(!handle.is_finished());
        let detached = registry.call::<i64>(&pool, "Wait", &2).unwrap();
        detached.detach();
        go.set();
        assert_eq!(block_on(handle).unwrap(), 1);
        let last = registry.call::<i64>(&pool, "Wait", &3).unwrap();
        assert_eq!(last.join_timeout(LIMIT).unwrap().unwrap(), 3);
    });
}

#[test]
fn a_registry_is_checked_when_it_is_built() {
    let twice = Registry::builder()
        .function("F", |x: i64| x)
        .try_function("F", |x: i64| Ok::<_, String>(x))
        .build();
    let error = twice.unwrap_err();
    assert!(error.is_config());
    assert!(error.to_string().contains("two functions are called \"F\""));
    let nameless = Registry::builder().function("", |x: i64| x).build();
    assert!(nameless.unwrap_err().to_string().contains("empty name"));
    let registry = Registry::builder()
        .function("B", |text: String| text.len())
        .function("A", |(): ()| vec![1.5_f64])
        .build()
        .unwrap();
    assert_eq!(registry.clone().names().collect::<Vec<_>>(), ["A", "B"]);
    assert_eq!(
        format!("{registry:?}"),
        r#"{"A": "() -> Vec<f64>", "B": "String -> usize"}"#
    );
}

#[test]
fn map_keeps_the_order_whatever_the_numbers() {
    within(LIMIT, || {
        let registry = registry();
        for workers in [0, 1, 2, 3] {
            let pool = pool(workers);
            for length in (0..20).chain([100, 1000]) {
                let squares: Vec<i64> = registry.map(&pool, "Square", 0..length).unwrap();
                assert_eq!(squares, (0..length).map(|n| n * n).collect::<Vec<_>>());
            }
        }
    });
}

#[test]
fn reduce_keeps_the_order_whatever_the_numbers() {
    within(LIMIT, || {
        let registry = registry();
        for workers in [0, 1, 2, 3] {
            let pool = pool(workers);
            for length in (0..20).chain([100]) {
                let words: Vec<String> = (0..length).map(|n| format!("{n},")).collect();
                let text: Option<String> = registry.reduce(&pool, "Append", &words).unwrap();
                assert_eq!(text, (length > 0).then(|| words.concat()));
            }
        }
    });
}

#[test]
fn map_then_reduce_as_in_the_specification() {
    let (registry, pool) = (registry(), pool(2));
    let squared: Vec<i64> = registry.map(&pool, "Square", 1..=1000).unwrap();
    let sum: Option<i64> = registry.reduce(&pool, "Add", squared).unwrap();
    assert_eq!(sum, Some(333_833_500));
}

#[test]
fn the_first_value_that_fails_is_reported() {
    within(LIMIT, || {
        let (registry, pool) = (registry(), pool(2));
        let mut values: Vec<i64> = (0..100).map(|n| 2 * n + 1).collect();
        (values[40], values[90]) = (40, 90);
        let error = registry.map::<i64>(&pool, "Odd", &values).unwrap_err();
        assert!(error.is_failed());
        assert_eq!(error.item(), Some(40));
        assert_eq!(error.to_string(), "value 40: Odd failed: 40 is even");
        let mut values: Vec<Value> = (0..100).map(Value::from).collect();
        (values[40], values[90]) = (json!("40"), json!("90"));
        let error = registry.reduce::<i64>(&pool, "Add", &values).unwrap_err();
        assert!(error.is_arguments());
        assert!(matches!(error.item(), Some(40 | 41)), "{error}");
        let error = registry.map::<u8>(&pool, "Square", [15, 16]).unwrap_err();
        assert!(error.is_result());
        assert_eq!(error.item(), Some(1));
        let error = registry
            .map::<i64>(&pool, "Panic", ["soft", "soft"])
            .unwrap_err();
        assert!(error.is_panic());
        // A single value is the result itself, and must be one.
        let error = registry.reduce::<i64>(&pool, "Add", ["one"]).unwrap_err();
        assert!(error.is_result());
    });
}

#[test]
fn nothing_runs_when_a_failed_map_has_returned() {
    within(LIMIT, || {
        let (running, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (inside, count) = (running.clone(), calls.clone());
        let registry = Registry::builder()
            .try_function("Fail", move |n: usize| {
                inside.fetch_add(1, Ordering::SeqCst);
                count.fetch_add(1, Ordering::SeqCst);
                thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
                if n == 0 { Err("zero") } else { Ok(n) }
            })
            .build()
            .unwrap();
        let pool = pool(3);
        let error = registry.map::<usize>(&pool, "Fail", 0..3000).unwrap_err();
        assert_eq!(error.item(), Some(0));
        assert_eq!(running.load(Ordering::SeqCst), 0);
        let calls_made = calls.load(Ordering::SeqCst);
        pool.shutdown();
        assert_eq!(calls.load(Ordering::SeqCst), calls_made);
    });
}

#[test]
fn functions_may_call_functions_on_one_worker() {
    within(LIMIT, || {
        let inner = registry();
        let squares = inner.clone();
        let outer = Registry::builder()
            .try_function("Sum of squares", move |n: i64| {
                let pool = Pool::current().expect("called by a worker");
                let squares: Vec<i64> = squares.map(&pool, "Square", 0..n)?;
                let sum: Option<i64> = squares_sum(&inner, &pool, squares)?;
                Ok::<_, CallError>(sum)
            })
            .build()
            .unwrap();
        for workers in [0, 1, 2] {
            let pool = pool(workers);
            let sums: Vec<Option<i64>> = outer.map(&pool, "Sum of squares", 0..10).unwrap();
            let expected = |n: i64| (n > 0).then(|| (0..n).map(|n| n * n).sum::<i64>());
            assert_eq!(sums, (0..10).map(expected).collect::<Vec<_>>());
        }
    });
}

fn squares_sum(
    registry: &Registry,
    pool: &Pool,
    squares: Vec<i64>,
) -> Result<Option<i64>, CallError> {
    registry.reduce(pool, "Add", squares)
}

#[test]
fn many_threads_share_a_registry() {
    within(LIMIT, || {
        let (registry, pool) = (registry(), pool(2));
        thread::scope(|scope| {
            for thread in 0..4_i64 {
                let (registry, pool) = (registry.clone(), &pool);
                scope.spawn(move || {
                    let handles: Vec<_> = (0..200)
                        .map(|n| registry.call::<i64>(pool, "Add", &(thread, n)).unwrap())
                        .collect();
                    for (n, handle) in (0..).zip(handles) {
                        assert_eq!(handle.join().unwrap(), thread + n);
                    }
                });
            }
        });
    });
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..5).prop_map(Value::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_down_reads_back(function in any::<String>(), args in any_value()) {
        let call = Call { function, args };
        prop_assert_eq!(&Call::from_json(&call.to_json()).unwrap(), &call);
    }

    #[test]
    fn floats_arrive_to_the_last_bit(x in any::<f64>().prop_filter("JSON has no others", |x| x.is_finite())) {
        let call = Call::from_json(&Call::new("Same", &x).unwrap().to_json()).unwrap();
        let same = Registry::builder().function("Same", |x: f64| x).build().unwrap();
        prop_assert_eq!(same.run(call).unwrap().as_f64().unwrap().to_bits(), x.to_bits());
    }
}
