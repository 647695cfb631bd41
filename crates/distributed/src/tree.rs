//! The order in which shards are added: a balanced binary tree, neighbours first.
//!
//! A worker has a run of shards, which is whole subtrees of that tree. Their sums are all that it
//! ever sends, so which worker has which shards changes where sums are added, and not what is
//! added to what.
//!
//! How it can be wrong: two subtrees that are added without being siblings.

use elinvar_core::{Error, Result};
use std::ops::Range;

/// A subtree: the shards `index << level .. (index + 1) << level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The height: a single shard is 0.
    pub level: u32,
    /// How many subtrees of that height are before it.
    pub index: usize,
}

impl Node {
    fn is_left_sibling_of(self, right: Node) -> bool {
        self.level == right.level && self.index.is_multiple_of(2) && self.index + 1 == right.index
    }
    fn parent(self) -> Node {
        Node { level: self.level + 1, index: self.index / 2 }
    }
}

/// Sums of a run of shards, in ascending order: at most two for each level of the tree.
///
/// Shards are added one by one, so that no more than one value for each level is alive.
#[derive(Debug)]
pub struct TreeSum<T> {
    next: usize,
    nodes: Vec<(Node, T)>,
}

impl<T> TreeSum<T> {
    /// Of a run that begins with this shard.
    #[must_use]
    pub fn new(first: usize) -> Self {
        TreeSum { next: first, nodes: Vec::new() }
    }
    /// Adds the next shard.
    ///
    /// # Errors
    /// Those of `add`, which is given the left and the right term.
    pub fn push(&mut self, shard: T, add: impl FnMut(T, T) -> Result<T>) -> Result<()> {
        let node = Node { level: 0, index: self.next };
        self.next += 1;
        self.push_node(node, shard, add)
    }
    /// Adds the sum of a subtree, which must come next.
    ///
    /// # Errors
    /// Those of `add`.
    pub fn push_node(
        &mut self,
        mut node: Node,
        mut sum: T,
        mut add: impl FnMut(T, T) -> Result<T>,
    ) -> Result<()> {
        while let Some((left, _)) = self.nodes.last()
            && left.is_left_sibling_of(node)
        {
            let (left, value) = self.nodes.pop().expect("there is a last one");
            sum = add(value, sum)?;
            node = left.parent();
        }
        self.nodes.push((node, sum));
        Ok(())
    }
    /// The sums of the subtrees.
    #[must_use]
    pub fn into_nodes(self) -> Vec<(Node, T)> {
        self.nodes
    }
    /// The sum of everything; None of nothing. A subtree without a right neighbour stands for its
    /// parent, so any number of shards has a tree.
    ///
    /// # Errors
    /// Those of `add`.
    pub fn root(mut self, mut add: impl FnMut(T, T) -> Result<T>) -> Result<Option<T>> {
        let Some((_, mut sum)) = self.nodes.pop() else { return Ok(None) };
        while let Some((_, left)) = self.nodes.pop() {
            sum = add(left, sum)?;
        }
        Ok(Some(sum))
    }
}

/// How shards are dealt to workers: contiguous runs whose lengths differ by one at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    shards: usize,
    workers: usize,
}

impl Runs {
    /// `shards` for `workers`.
    ///
    /// # Errors
    /// `InvalidArgument` unless shards are a power of two and not fewer than the workers.
    pub fn new(shards: usize, workers: usize) -> Result<Runs> {
        if !shards.is_power_of_two() {
            return Err(Error::argument(format!(
                "distributed: {shards} gradient shards; their number must be a power of two"
            )));
        }
        if workers > shards {
            return Err(Error::argument(format!(
                "distributed: {workers} workers share {shards} gradient shards; there must be a shard for each"
            )));
        }
        Ok(Runs { shards, workers })
    }
    /// One shard for each worker, whatever their number.
    pub(crate) fn one_each(workers: usize) -> Runs {
        Runs { shards: workers, workers }
    }
    /// The number of shards.
    #[must_use]
    pub fn shards(self) -> usize {
        self.shards
    }
    /// The number of workers.
    #[must_use]
    pub fn workers(self) -> usize {
        self.workers
    }
    /// The shards of a worker.
    #[must_use]
    pub fn of(self, worker: usize) -> Range<usize> {
        part(self.shards, self.workers, worker)
    }
    /// The subtrees of a worker, as [`TreeSum::into_nodes`] gives them.
    #[must_use]
    pub fn nodes(self, worker: usize) -> Vec<Node> {
        let run = self.of(worker);
        let mut all = TreeSum::new(run.start);
        for _ in run {
            all.push((), |(), ()| Ok(())).expect("adding nothing does not fail");
        }
        all.into_nodes().into_iter().map(|(node, ())| node).collect()
    }
}

/// The k-th of `parts` nearly equal parts of 0..n.
#[must_use]
pub fn part(n: usize, parts: usize, k: usize) -> Range<usize> {
    let at = |k: usize| (n as u128 * k as u128 / parts as u128) as usize;
    at(k)..at(k + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums as text, so that their brackets can be seen.
    fn add(a: String, b: String) -> Result<String> {
        Ok(format!("({a}{b})"))
    }

    #[test]
    fn the_tree_is_the_same_for_any_number_of_workers() {
        for shards in [1, 2, 4, 8, 16, 64] {
            let mut all = TreeSum::new(0);
            (0..shards).for_each(|i| all.push(format!("{i} "), add).unwrap());
            assert_eq!(all.nodes.len(), 1);
            let want = all.root(add).unwrap().unwrap();
            for workers in 1..=shards {
                let runs = Runs::new(shards, workers).unwrap();
                let mut root = TreeSum::new(0);
                for w in 0..workers {
                    let mut mine = TreeSum::new(runs.of(w).start);
                    runs.of(w).for_each(|i| mine.push(format!("{i} "), add).unwrap());
                    let nodes = mine.into_nodes();
                    assert_eq!(nodes.iter().map(|n| n.0).collect::<Vec<_>>(), runs.nodes(w));
                    nodes.into_iter().for_each(|(node, sum)| root.push_node(node, sum, add).unwrap());
                }
                assert_eq!(root.root(add).unwrap().as_ref(), Some(&want), "{shards} of {workers}");
                // A power of two of workers: each sends one number for each of its own.
                if workers.is_power_of_two() {
                    assert!((0..workers).all(|w| runs.nodes(w).len() == 1));
                }
            }
        }
    }

    #[test]
    fn other_numbers_of_shards_have_a_tree_too() {
        let sum = |n: usize| {
            let mut all = TreeSum::new(0);
            (0..n).for_each(|i| all.push(i.to_string(), add).unwrap());
            all.root(add).unwrap()
        };
        assert_eq!(sum(0), None);
        assert_eq!(sum(1).unwrap(), "0");
        assert_eq!(sum(3).unwrap(), "((01)2)");
        assert_eq!(sum(6).unwrap(), "(((01)(23))(45))");
        assert_eq!(sum(7).unwrap(), "(((01)(23))((45)6))");
    }

    #[test]
    fn runs_are_checked() {
        let said = |shards, workers| Runs::new(shards, workers).unwrap_err().to_string();
        assert!(said(6, 2).contains("6 gradient shards; their number must be a power of two"));
        assert!(said(0, 1).contains("0 gradient shards"));
        assert!(said(4, 5).contains("5 workers share 4 gradient shards"));
    }
}
