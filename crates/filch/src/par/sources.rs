//! Collections of the standard library, and texts, as sources of loops.

use super::{
    over::{Loop, over},
    owned::OwnedItems,
    producer::{ExactProducer, IntoProducer, Producer},
};
use std::{
    collections::{
        BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque, vec_deque,
    },
    ops::Range,
    str,
};

/// Collections whose items, or references to them, are put into a vector first: they cannot be
/// split, and this costs less than most loops.
macro_rules! by_vector {
    ($($collection:ty, $item:ty, [$($generics:tt)*];)*) => {$(
        impl<$($generics)*> IntoProducer for $collection {
            type Item = $item;
            type Producer = OwnedItems<$item>;

            fn into_producer(self) -> OwnedItems<$item> {
                OwnedItems::new(self.into_iter().collect())
            }
        }
    )*};
}

by_vector! {
    HashMap<K, V, H>, (K, V), [K: Send, V: Send, H];
    &'t HashMap<K, V, H>, (&'t K, &'t V), ['t, K: Sync, V: Sync, H];
    &'t mut HashMap<K, V, H>, (&'t K, &'t mut V), ['t, K: Sync, V: Send, H];
    HashSet<T, H>, T, [T: Send, H];
    &'t HashSet<T, H>, &'t T, ['t, T: Sync, H];
    BTreeMap<K, V>, (K, V), [K: Send, V: Send];
    &'t BTreeMap<K, V>, (&'t K, &'t V), ['t, K: Sync, V: Sync];
    &'t mut BTreeMap<K, V>, (&'t K, &'t mut V), ['t, K: Sync, V: Send];
    BTreeSet<T>, T, [T: Send];
    &'t BTreeSet<T>, &'t T, ['t, T: Sync];
    BinaryHeap<T>, T, [T: Send];
    &'t BinaryHeap<T>, &'t T, ['t, T: Sync];
    LinkedList<T>, T, [T: Send];
    &'t LinkedList<T>, &'t T, ['t, T: Sync];
    VecDeque<T>, T, [T: Send];
    &'t mut VecDeque<T>, &'t mut T, ['t, T: Send];
    Option<T>, T, [T: Send];
}

impl<'t, T: Sync> IntoProducer for &'t VecDeque<T> {
    type Item = &'t T;
    type Producer = DequeRange<'t, T>;

    fn into_producer(self) -> DequeRange<'t, T> {
        DequeRange {
            deque: self,
            range: 0..self.len(),
        }
    }
}

/// Items of a [`VecDeque`].
#[derive(Clone, Debug)]
pub struct DequeRange<'t, T> {
    deque: &'t VecDeque<T>,
    range: Range<usize>,
}

impl<'t, T: Sync> Producer for DequeRange<'t, T> {
    type Item = &'t T;
    type Iter = vec_deque::Iter<'t, T>;

    fn size(&self) -> usize {
        self.range.len()
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let deque = self.deque;
        let (near, far) = self.range.split_at(index);
        (Self { deque, range: near }, Self { deque, range: far })
    }

    fn items(self) -> Self::Iter {
        self.deque.range(self.range)
    }
}

impl<T: Sync> ExactProducer for DequeRange<'_, T> {}

/// `text.par_lines()`, `text.par_chars()`, `text.par_bytes()`: loops over the parts of a text.
///
/// ```
/// use filch::prelude::*;
///
/// let text = "to steal\nsmall\nthings";
/// assert_eq!(text.par_lines().map(|line| line.len()).to_vec(), [8, 5, 6]);
/// assert_eq!(text.par_chars().filter(|c| c.is_whitespace()).count(), 3);
/// assert_eq!(text.par_bytes().copied().max(), Some(b't'));
/// ```
pub trait ParStr {
    /// Creates a loop over the lines, without their ends, as of [`str::lines`].
    ///
    /// ```
    /// use filch::prelude::*;
    ///
    /// let words = "2 3\n4".par_lines().flat_map(|line| line.split(' '));
    /// assert_eq!(words.map(|word| word.parse::<u32>().unwrap()).sum::<u32>(), 9);
    /// ```
    fn par_lines<'a>(&self) -> Loop<'a, Lines<'_>>;

    /// Creates a loop over the characters.
    ///
    /// ```
    /// use filch::prelude::*;
    ///
    /// let upper: String = "größer".par_chars().flat_map(char::to_uppercase).collect();
    /// assert_eq!(upper, "GRÖSSER");
    /// ```
    fn par_chars<'a>(&self) -> Loop<'a, Chars<'_>>;

    /// Creates a loop over references to the bytes.
    ///
    /// ```
    /// use filch::prelude::*;
    ///
    /// assert_eq!("a\nb\n".par_bytes().filter(|byte| **byte == b'\n').count(), 2);
    /// ```
    fn par_bytes<'a>(&self) -> Loop<'a, &[u8]>;
}

impl ParStr for str {
    fn par_lines<'a>(&self) -> Loop<'a, Lines<'_>> {
        over(Lines(TextRange::all(self)))
    }

    fn par_chars<'a>(&self) -> Loop<'a, Chars<'_>> {
        over(Chars(TextRange::all(self)))
    }

    fn par_bytes<'a>(&self) -> Loop<'a, &[u8]> {
        over(self.as_bytes())
    }
}

/// A range of bytes of a text, which may begin and end within a character. What begins in the range
/// belongs to it, and may end after it. So a text can be split anywhere, without a search.
#[derive(Clone, Copy, Debug)]
struct TextRange<'t> {
    text: &'t str,
    start: usize,
    end: usize,
}

impl<'t> TextRange<'t> {
    fn all(text: &'t str) -> Self {
        Self {
            text,
            start: 0,
            end: text.len(),
        }
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let middle = self.start.saturating_add(index).min(self.end);
        (
            Self {
                end: middle,
                ..self
            },
            Self {
                start: middle,
                ..self
            },
        )
    }

    /// The characters that begin in the range.
    fn chars(self) -> &'t str {
        let from = |at| self.text.ceil_char_boundary(at);
        &self.text[from(self.start)..from(self.end)]
    }

    /// The lines that begin in the range, with their ends.
    fn lines(self) -> &'t str {
        let bytes = self.text.as_bytes();
        let line_at_or_after = |at: usize| match at {
            0 => Some(0),
            // A line begins after the end of another.
            at => {
                let before = &bytes[at - 1..self.end.max(at)];
                let end = before.iter().position(|byte| *byte == b'\n')?;
                Some(at + end)
            }
        };
        let first = line_at_or_after(self.start).filter(|first| *first < self.end);
        let Some(first) = first else {
            return "";
        };
        // The last line that begins in the range ends with the first line end from the last byte
        // of the range on.
        let rest = &bytes[self.end - 1..];
        let end = match rest.iter().position(|byte| *byte == b'\n') {
            Some(more) => self.end + more,
            None => bytes.len(),
        };
        &self.text[first..end]
    }
}

/// Ranges of a text as pieces: the type, its item, its iterator, and how to get that of a range.
macro_rules! text_pieces {
    ($($(#[$doc:meta])* $name:ident, $item:ty, $iter:ty, $items:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'t>(TextRange<'t>);

        impl<'t> Producer for $name<'t> {
            type Item = $item;
            type Iter = $iter;
            const EXACT: bool = false;

            fn size(&self) -> usize {
                self.0.end - self.0.start
            }

            fn split_at(self, index: usize) -> (Self, Self) {
                let (near, far) = self.0.split_at(index);
                (Self(near), Self(far))
            }

            fn items(self) -> $iter {
                let items: fn(TextRange<'t>) -> $iter = $items;
                items(self.0)
            }
        }
    )*};
}

text_pieces! {
    /// The lines of a text; from [`ParStr::par_lines`].
    Lines, &'t str, str::Lines<'t>, |range| range.lines().lines();
    /// The characters of a text; from [`ParStr::par_chars`].
    Chars, char, str::Chars<'t>, |range| range.chars().chars();
}
