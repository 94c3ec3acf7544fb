//! Loops as methods of slices, vectors, arrays and ranges.

use super::{
    over::{Loop, over},
    producer::{IntoProducer, Producer},
};

/// `data.par()`: a loop over references to the items.
///
/// Implemented for every type whose reference is a source of loops: slices, vectors and arrays,
/// whose items are references, and ranges of integers, whose items are the integers. Implement
/// [`IntoProducer`] for `&YourType` to have it for your own.
///
/// Like [`ParMut`] and [`IntoPar`], it is in [`filch::prelude`](crate::prelude).
///
/// ```
/// use filch::prelude::*;
///
/// let data = vec![3, 1, 2];
/// assert_eq!(data.par().map(|n| n * 10).to_vec(), [30, 10, 20]);
/// assert_eq!(data[1..].par().max(), Some(&2));
/// assert_eq!((0..1_000_u64).par().sum::<u64>(), 499_500);
/// ```
pub trait Par<'d> {
    /// The pieces that the data is split into.
    type Producer: Producer;

    /// Creates a loop over references to the items: [`over(&self)`](over).
    ///
    /// ```
    /// use filch::prelude::*;
    ///
    /// let words = ["to", "steal"];
    /// assert_eq!(words.par().map(|word| word.len()).to_vec(), [2, 5]);
    /// ```
    #[doc(alias = "par_iter")]
    fn par<'a>(&'d self) -> Loop<'a, Self::Producer>;
}

impl<'d, D: ?Sized + 'd> Par<'d> for D
where
    &'d D: IntoProducer,
{
    type Producer = <&'d D as IntoProducer>::Producer;

    fn par<'a>(&'d self) -> Loop<'a, Self::Producer> {
        over(self)
    }
}

/// `data.par_mut()`: a loop over mutable references to the items of a slice, a vector or an array.
///
/// ```
/// use filch::prelude::*;
///
/// let mut data = vec![3, 1, 2];
/// data.par_mut().for_each(|n| *n *= 10);
/// data.par_mut().sort();
/// assert_eq!(data, [10, 20, 30]);
/// ```
pub trait ParMut<'d> {
    /// The pieces that the data is split into.
    type Producer: Producer;

    /// Creates a loop over mutable references to the items: [`over(&mut self)`](over).
    ///
    /// ```
    /// use filch::prelude::*;
    ///
    /// let mut rows = [0; 6];
    /// rows.par_mut().chunks(3).enumerate().for_each(|(y, row)| row.fill(y));
    /// assert_eq!(rows, [0, 0, 0, 1, 1, 1]);
    /// ```
    #[doc(alias = "par_iter_mut")]
    fn par_mut<'a>(&'d mut self) -> Loop<'a, Self::Producer>;
}

impl<'d, D: ?Sized + 'd> ParMut<'d> for D
where
    &'d mut D: IntoProducer,
{
    type Producer = <&'d mut D as IntoProducer>::Producer;

    fn par_mut<'a>(&'d mut self) -> Loop<'a, Self::Producer> {
        over(self)
    }
}

/// `data.into_par()`: a loop over the items of a vector, an array or a range, by value.
///
/// ```
/// use filch::prelude::*;
///
/// let words = vec!["to ".to_string(), "steal".to_string()];
/// assert_eq!(words.into_par().reduce(|a, b| a + &b).unwrap(), "to steal");
/// assert_eq!((1..=4).into_par().map(|n| n * n).to_vec(), [1, 4, 9, 16]);
/// ```
pub trait IntoPar: IntoProducer {
    /// Creates a loop over the items themselves: [`over(self)`](over).
    ///
    /// ```
    /// use filch::prelude::*;
    ///
    /// let lengths = vec![vec![1], vec![2, 3]].into_par().map(|items| items.len());
    /// assert_eq!(lengths.to_vec(), [1, 2]);
    /// ```
    #[doc(alias = "into_par_iter")]
    fn into_par<'a>(self) -> Loop<'a, Self::Producer>;
}

impl<S: IntoProducer> IntoPar for S {
    fn into_par<'a>(self) -> Loop<'a, S::Producer> {
        over(self)
    }
}
