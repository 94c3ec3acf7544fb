//! Lists that a plan has for itself, or shares with the other instances of its template.

use std::{ops::Deref, sync::Arc};

/// A list of its owner's own, whose memory is used again when it is filled anew, or a share of one.
pub(super) enum SharedList<T> {
    Own(Vec<T>),
    /// The list of a template.
    Shared(Arc<Vec<T>>),
}

impl<T> SharedList<T> {
    /// Makes the list shared, and returns another share.
    pub(super) fn share(&mut self) -> Self {
        let shared = match std::mem::take(self) {
            Self::Own(list) => Arc::new(list),
            Self::Shared(shared) => shared,
        };
        *self = Self::Shared(shared.clone());
        Self::Shared(shared)
    }

    /// Returns another share of a list that is shared; the copy of one that is not.
    pub(super) fn copy(&self) -> Self
    where
        T: Clone,
    {
        match self {
            Self::Own(list) => Self::Own(list.clone()),
            Self::Shared(shared) => Self::Shared(shared.clone()),
        }
    }

    /// Returns the list, to be changed: a copy if it is shared.
    pub(super) fn own(&mut self) -> &mut Vec<T>
    where
        T: Clone,
    {
        if let Self::Shared(shared) = self {
            *self = Self::Own(Vec::clone(shared));
        }
        match self {
            Self::Own(list) => list,
            Self::Shared(_) => unreachable!("it has just been copied"),
        }
    }

    /// Returns the list, which is empty now and not shared, to be filled.
    #[inline(always)]
    pub(super) fn refill(&mut self) -> &mut Vec<T> {
        self.clear();
        match self {
            Self::Own(list) => list,
            Self::Shared(_) => unreachable!("it has just been cleared"),
        }
    }

    /// Frees the unused capacity of a list that is not shared.
    pub(super) fn shrink(&mut self) {
        if let Self::Own(list) = self {
            list.shrink_to_fit();
        }
    }

    /// Removes all entries, and keeps their memory if it is not shared.
    #[inline]
    pub(super) fn clear(&mut self) {
        match self {
            Self::Own(list) => list.clear(),
            Self::Shared(_) => *self = Self::default(),
        }
    }

    /// Returns an empty vector, with the memory of the list if that is not shared.
    pub(super) fn recycle(self) -> Vec<T> {
        match self {
            Self::Own(mut list) => {
                list.clear();
                list
            }
            Self::Shared(_) => Vec::new(),
        }
    }
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl<T> From<Vec<T>> for SharedList<T> {
    fn from(list: Vec<T>) -> Self {
        Self::Own(list)
    }
}

impl<T> Deref for SharedList<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::Own(list) => list,
            Self::Shared(shared) => shared,
        }
    }
}
