//! The sequential fold, on the caller's thread.

use super::Fold;

/// Folds the tree below `root` sequentially. The open nodes are on the heap, so any depth is
/// supported.
pub(super) fn fold<F: Fold>(fold: &F, root: F::Node) -> F::Result {
    let mut heap = fold.init(&root);
    let mut children = fold.children(root);
    let mut open: Vec<(F::Heap, F::Children)> = Vec::new();
    let mut next = children.next();
    loop {
        let Some(child) = next else {
            let result = fold.finalize(heap);
            let Some((above, rest)) = open.pop() else {
                return result;
            };
            (heap, children) = (above, rest);
            fold.accumulate(&mut heap, result);
            next = children.next();
            continue;
        };
        let inner = fold.init(&child);
        let mut below = fold.children(child);
        match below.next() {
            // A leaf is not opened.
            None => {
                fold.accumulate(&mut heap, fold.finalize(inner));
                next = children.next();
            }
            grandchild => {
                open.push((heap, children));
                (heap, children) = (inner, below);
                next = grandchild;
            }
        }
    }
}
