//! N queens: joins over the columns that are open in a row.

use crate::{
    forks::Joins,
    suites::{board::Board, work::Work},
};
use filch::CurrentWorker;

/// The number of ways to place the queens. An operation is a queen placed.
#[derive(Debug)]
pub(super) struct Queens {
    board: Board,
    solutions: u64,
    placed: u64,
}

impl Queens {
    pub(super) fn new(size: u32) -> Self {
        let board = Board::new(size);
        let (solutions, placed) = board.count();
        Self {
            board,
            solutions,
            placed,
        }
    }
}

/// Counts the solutions with a queen in one of `columns` of the next row.
fn solve<J: Joins>(cx: &mut J::Cx<'_>, board: Board, columns: u32) -> u64 {
    if columns.count_ones() > 1 {
        let (left, right) = halves(columns);
        let (a, b) = J::join(
            cx,
            move |cx| solve::<J>(cx, board, left),
            move |cx| solve::<J>(cx, board, right),
        );
        return a + b;
    }
    if columns == 0 {
        return 0;
    }
    let next = board.place(columns);
    if next.is_full() {
        1
    } else {
        solve::<J>(cx, next, next.open())
    }
}

/// [`solve`] with joins that carry the worker.
fn solve_with(cx: &CurrentWorker, board: Board, columns: u32) -> u64 {
    if columns.count_ones() > 1 {
        let (left, right) = halves(columns);
        let (a, b) = cx.join(
            move |cx| solve_with(cx, board, left),
            move |cx| solve_with(cx, board, right),
        );
        return a + b;
    }
    if columns == 0 {
        return 0;
    }
    let next = board.place(columns);
    if next.is_full() {
        1
    } else {
        solve_with(cx, next, next.open())
    }
}

/// Splits the columns into halves.
fn halves(columns: u32) -> (u32, u32) {
    let mut rest = columns;
    for _ in 0..columns.count_ones() / 2 {
        rest &= rest - 1;
    }
    (columns ^ rest, rest)
}

impl Work for Queens {
    fn run<J: Joins>(&self, pool: &J::Pool) -> u64 {
        let board = self.board;
        J::enter(pool, move |cx| solve::<J>(cx, board, board.open()))
    }

    fn run_with(&self, pool: &filch::Pool) -> Option<u64> {
        let board = self.board;
        Some(pool.with(|cx| solve_with(cx, board, board.open())))
    }

    fn expected(&self) -> u64 {
        self.solutions
    }

    fn ops(&self) -> u64 {
        self.placed
    }
}

#[cfg(test)]
mod tests {
    use super::{Queens, halves};
    use crate::suites::work::check;

    #[test]
    fn all_systems_agree() {
        assert_eq!(halves(0b1011), (0b0001, 0b1010));
        check(Queens::new(8));
    }
}
