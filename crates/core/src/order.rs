//! The order of summation: the one place that fixes the bits of sums, products and scans.
//!
//! Floating-point addition is not associative, so "the sum of n numbers" is a value only once an
//! order is given. Every backend follows these definitions, whatever its vector width, thread count
//! or tile size. The order depends on the number of terms alone. It was chosen so that CPUs and
//! GPUs can both follow it at full speed:
//!
//! * **Folds** (sum, product) put term `i` of a block into lane `i % 128`. 128 lanes are eight
//!   AVX-512 registers of f32, enough to hide the latency of an addition; they are also one GPU
//!   warp that loads four consecutive floats per thread. Lanes are then halved (`j` takes `j + 64`,
//!   then `j + 32`, ...), by whole registers first, then by shuffles. A reduction over columns
//!   walks the tree depth first and keeps eight partial sums per column.
//! * Blocks of 4096 terms are independent of each other, so threads can share a long sum; their
//!   results are added pairwise (neighbours first), which needs only log2(blocks) partial sums when
//!   streamed and bounds the error by (32 + 7 + log2(blocks)) rounding errors.
//! * **Contractions** (matmul, convolution) are one chain of fma inside a chunk of 512 terms, as in
//!   the register tile of a microkernel; chunk results are added from first to last, so that the
//!   contraction can be split (split-K) over threads or thread blocks at the cost of one addition
//!   per 512 terms.
//! * **Scans** are log-step scans in groups of 16 terms (a vector register or half a warp); groups
//!   are chained inside a block of 1024, and blocks are chained.
//! * **Attention** walks over the keys in blocks of 64 with a running maximum and sum.
//!
//! Every sum starts from +0, so a sum of negative zeros is +0.

/// Lanes of a fold.
pub const LANES: usize = 128;
/// Terms in a block of a fold: 32 per lane.
pub const BLOCK: usize = 4096;
/// Terms in a chunk of a contraction: one chain of fma.
pub const CHUNK: usize = 512;
/// Terms in a group of a scan.
pub const SCAN_GROUP: usize = 16;
/// Terms in a block of a scan.
pub const SCAN_BLOCK: usize = 1024;
/// Keys in a block of attention: the running maximum and sum of a row are updated once per block.
/// 64 keys of 128 elements in f16 are 16 KiB, so that a tile of keys and one of values fit into a
/// GPU's shared memory twice, and a row of scores is four AVX-512 registers of f32.
pub const ATTENTION_BLOCK: usize = 64;

/// Folds `n` terms with `f` in the canonical order; `zero` is the initial value of every lane (0
/// for a sum, 1 for a product), and the result if there are no terms.
pub fn fold<T: Copy>(n: usize, zero: T, term: impl Fn(usize) -> T, f: impl Fn(T, T) -> T) -> T {
    // partial[k] holds the result of 2^k neighbouring blocks that is not yet combined with the next
    // 2^k.
    let mut partial: [Option<T>; usize::BITS as usize] = [None; usize::BITS as usize];
    // No terms count as one block: otherwise the block fold would be compiled twice for every
    // formula.
    for b in 0..n.div_ceil(BLOCK).max(1) {
        let start = b * BLOCK;
        let mut carry = fold_block(BLOCK.min(n - start), zero, |i| term(start + i), &f);
        let mut level = 0;
        while let Some(left) = partial[level].take() {
            carry = f(left, carry);
            level += 1;
        }
        partial[level] = Some(carry);
    }
    // The remaining groups of blocks: the later (smaller) ones are combined first.
    let mut left_over = partial.into_iter().flatten();
    let last = left_over.next().expect("there is at least one block");
    left_over.fold(last, |right, left| f(left, right))
}

/// Folds at most [`BLOCK`] terms: strided lanes, then a halving tree over the lanes that exist.
pub fn fold_block<T: Copy>(n: usize, zero: T, term: impl Fn(usize) -> T, f: impl Fn(T, T) -> T) -> T {
    debug_assert!(n <= BLOCK);
    let mut lanes = [zero; LANES];
    for i in 0..n {
        lanes[i % LANES] = f(lanes[i % LANES], term(i));
    }
    let mut half = LANES / 2;
    while half > 0 {
        // Lanes without a term are left out: adding their zero would change nothing.
        for j in 0..half.min(n.saturating_sub(half)) {
            lanes[j] = f(lanes[j], lanes[j + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// The contraction of `n` pairs of terms: `fma(a, b, acc)` is called in the canonical order.
pub fn contract<T: Copy>(
    n: usize,
    zero: T,
    pair: impl Fn(usize) -> (T, T),
    fma: impl Fn(T, T, T) -> T,
    add: impl Fn(T, T) -> T,
) -> T {
    let mut total = zero;
    for start in (0..n).step_by(CHUNK) {
        let mut acc = zero;
        for i in start..n.min(start + CHUNK) {
            let (a, b) = pair(i);
            acc = fma(a, b, acc);
        }
        total = if start == 0 { acc } else { add(total, acc) };
    }
    total
}

/// Replaces `x[i]` by the fold of `x[0..=i]` in the canonical order of scans.
///
/// In a group of [`SCAN_GROUP`]: for d in 1, 2, 4, 8, all i at once: `x[i] = f(x[i - d], x[i])`.
/// The carry of a block is the scanned last term of the groups so far; it is the left operand of
/// the group's terms, and the offset of earlier blocks is the left operand of the result.
pub fn scan<T: Copy>(x: &mut [T], f: impl Fn(T, T) -> T) {
    let mut offset: Option<T> = None;
    for block in x.chunks_mut(SCAN_BLOCK) {
        let mut carry: Option<T> = None;
        for group in block.chunks_mut(SCAN_GROUP) {
            let mut d = 1;
            while d < SCAN_GROUP {
                for i in (d..group.len()).rev() {
                    group[i] = f(group[i - d], group[i]);
                }
                d *= 2;
            }
            if let Some(c) = carry {
                group.iter_mut().for_each(|v| *v = f(c, *v));
            }
            carry = group.last().copied();
        }
        if let Some(o) = offset {
            block.iter_mut().for_each(|v| *v = f(o, *v));
        }
        offset = block.last().copied();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order as text: a fold over strings shows the tree of additions.
    fn tree(n: usize) -> String {
        let leaves: Vec<String> = (0..n).map(|i| i.to_string()).collect();
        let pool = std::cell::RefCell::new(leaves);
        let f = |a: usize, b: usize| {
            let mut p = pool.borrow_mut();
            if a == usize::MAX {
                return b;
            }
            let s = format!("({}+{})", p[a], p[b]);
            p.push(s);
            p.len() - 1
        };
        let root = fold(n, usize::MAX, |i| i, f);
        pool.into_inner()[root].clone()
    }

    #[test]
    fn short_sums_follow_the_halving_tree() {
        assert_eq!(tree(1), "0");
        assert_eq!(tree(2), "(0+1)");
        assert_eq!(tree(3), "((0+2)+1)");
        assert_eq!(tree(5), "(((0+4)+2)+(1+3))");
        assert_eq!(tree(8), "(((0+4)+(2+6))+((1+5)+(3+7)))");
    }

    #[test]
    fn every_term_is_taken_once_at_every_length() {
        for n in [0, 1, 2, 63, 64, 65, 127, 128, 129, 255, 4095, 4096, 4097, 8192, 12289, 20481] {
            let want = (n as i64) * (n as i64 - 1) / 2;
            assert_eq!(fold(n, 0i64, |i| i as i64, |a, b| a + b), want, "{n} terms");
        }
    }

    #[test]
    fn blocks_are_added_as_neighbours() {
        // Small terms that survive only if the large ones cancel first show which blocks were added
        // first.
        let big = |i: usize| match i / BLOCK {
            0 if i == 0 => 1e30f32,
            1 if i == BLOCK => -1e30,
            2 if i == 2 * BLOCK => 1.0,
            _ => 0.0,
        };
        assert_eq!(fold(3 * BLOCK, 0.0, big, |a, b| a + b), 1.0);
    }

    #[test]
    fn a_contraction_is_chained_in_chunks() {
        let terms = |i: usize| if i < CHUNK { (1e8f32, 1.0) } else { (1.0, 1.0) };
        let one = |n| contract(n, 0.0f32, terms, |a, b, c| a.mul_add(b, c), |a, b| a + b);
        // The second chunk sums its ones before they are added to the large total.
        assert_eq!(one(2 * CHUNK), (0..CHUNK).fold(0.0f32, |s, _| s + 1e8) + CHUNK as f32);
        assert_eq!(one(0), 0.0);
    }

    #[test]
    fn a_scan_is_the_prefix_at_every_length() {
        for n in [0, 1, 15, 16, 17, 1023, 1024, 1025, 3000] {
            let mut x: Vec<i64> = (0..n).collect();
            scan(&mut x, |a, b| a + b);
            assert!(x.iter().enumerate().all(|(i, &v)| v == (i * (i + 1) / 2) as i64), "{n} terms");
        }
    }

    #[test]
    fn a_sum_of_negative_zeros_is_positive() {
        for n in [1, 2, 200, 5000] {
            assert!(fold(n, 0.0f32, |_| -0.0, |a, b| a + b).is_sign_positive());
        }
    }
}
