//! A chess board that is filled row by row with queens that do not attack each other.

/// The columns and diagonals that are attacked in the next row, one bit per column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Board {
    all: u32,
    columns: u32,
    rising: u32,
    falling: u32,
}

impl Board {
    /// An empty board of `size` rows and columns.
    pub(super) fn new(size: u32) -> Self {
        Self {
            all: (1 << size) - 1,
            columns: 0,
            rising: 0,
            falling: 0,
        }
    }

    /// The columns in which the next queen may be placed.
    #[inline(always)]
    pub(super) fn open(self) -> u32 {
        self.all & !(self.columns | self.rising | self.falling)
    }

    /// Returns the board with a queen in `column` of the next row.
    #[inline(always)]
    pub(super) fn place(self, column: u32) -> Self {
        Self {
            all: self.all,
            columns: self.columns | column,
            rising: (self.rising | column) << 1,
            falling: (self.falling | column) >> 1,
        }
    }

    #[inline(always)]
    pub(super) fn is_full(self) -> bool {
        self.columns == self.all
    }

    /// Returns the boards with one more queen.
    #[inline(always)]
    pub(super) fn next(self) -> impl Iterator<Item = Self> {
        let mut open = self.open();
        std::iter::from_fn(move || {
            let column = open & open.wrapping_neg();
            open ^= column;
            (column != 0).then(|| self.place(column))
        })
    }

    /// The number of solutions from this board, and of queens that are placed on the way.
    pub(super) fn count(self) -> (u64, u64) {
        let below = self.next().map(Self::count);
        let (solutions, placed) = below.fold((0, 0), |(s, p), (solutions, placed)| {
            (s + solutions, p + placed + 1)
        });
        (solutions + u64::from(self.is_full()), placed)
    }
}

#[cfg(test)]
mod tests {
    use super::Board;

    #[test]
    fn solutions_are_those_of_the_books() {
        assert_eq!(Board::new(1).count(), (1, 1));
        assert_eq!(Board::new(3).count().0, 0);
        assert_eq!(Board::new(4).count().0, 2);
        assert_eq!(Board::new(8).count().0, 92);
    }
}
