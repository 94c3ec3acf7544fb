//! The methods `par`, `par_mut` and `into_par`.

use filch::{Pool, par::IntoProducer, prelude::*};
use std::{ops::Range, sync::Arc};

#[test]
fn all_sources_have_the_methods() {
    let mut vector = vec![1, 2, 3];
    assert_eq!(vector.par().map(|n| n + 1).to_vec(), [2, 3, 4]);
    assert_eq!(vector[1..].par().map(|n| n + 1).to_vec(), [3, 4]);
    assert_eq!(vector.as_slice().into_par().cloned().max(), Some(3));
    vector.par_mut().for_each(|n| *n *= 2);
    vector[..1].par_mut().fill(0);
    assert_eq!(vector.into_par().map(|n| n).to_vec(), [0, 4, 6]);

    let mut array = [3, 1, 2];
    array.par_mut().sort();
    assert_eq!(
        array.par().zip(&[10, 20, 30]).map(|(a, b)| a * b).to_vec(),
        [10, 40, 90]
    );
    assert_eq!(array.into_par().map(|n| n).to_vec(), [1, 2, 3]);

    let range = 1..101_u32;
    assert_eq!(range.par().sum::<u32>(), 5050);
    assert_eq!(range.into_par().sum::<u32>(), 5050);
    assert_eq!((1..=100_u64).par().sum::<u64>(), 5050);
    assert_eq!((1..=4).into_par().map(|n| n * n).to_vec(), [1, 4, 9, 16]);
}

#[test]
fn pointers_to_sources_have_them_too() {
    let shared = Arc::new(vec![1, 2, 3]);
    assert_eq!(shared.par().sum::<i32>(), 6);
    let mut boxed: Box<[i32]> = vec![3, 2, 1].into();
    boxed.par_mut().sort_unstable();
    assert_eq!(boxed.par().map(|n| *n).to_vec(), [1, 2, 3]);
    let nested = [&[1, 2][..], &[3]];
    assert_eq!(
        nested.par().map(|part| part.par().sum::<i32>()).to_vec(),
        [3, 3]
    );
}

#[test]
fn settings_may_live_shorter_than_the_data() {
    let data: Vec<String> = vec!["a".into(), "bc".into()];
    let longest = {
        let pool = Pool::builder().workers(2).build().unwrap();
        data.par().on(&pool).max_by_key(|word| word.len())
    };
    assert_eq!(longest.map(String::as_str), Some("bc"));
}

#[test]
fn items_of_an_array_are_dropped_once() {
    let item = Arc::new(());
    let items = [(); 5].map(|()| item.clone());
    assert!(items.into_par().any(|item| Arc::strong_count(&item) > 0));
    assert_eq!(Arc::strong_count(&item), 1);
}

/// The rows of a table, for a type of a user.
struct Table {
    rows: usize,
}

impl IntoProducer for &Table {
    type Item = usize;
    type Producer = Range<usize>;

    fn into_producer(self) -> Range<usize> {
        0..self.rows
    }
}

#[test]
fn a_type_whose_reference_is_a_source_has_par() {
    assert_eq!(Table { rows: 4 }.par().sum::<usize>(), 6);
}
