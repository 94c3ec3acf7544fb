//! Submitted tasks in random trees.
