//! One or two rows times a matrix that lies row by row: nothing is used twice, so what counts is to read the matrix in
//! long runs, several rows at a time, while the sums stay in L1.

use super::{Panels, Real};
use crate::isa::{Copies, Isa, Kernel, dispatch};

/// Rows of the left factor up to which this is faster than a tile.
pub(super) const THIN: usize = 2;

/// Rows of the matrix that are read together: each saves the sums a way to L1 and back.
const TOGETHER: usize = 4;

/// sums[j] = sum over t of left[t] * right[t, j], a chain of fma from 0
///
/// # Panics
/// If the matrix is too short.
pub(super) fn chain<T: Real>(isa: Isa, left: &[T], right: Panels<'_, T>, sums: &mut [T]) {
    sums.fill(T::ZERO);
    dispatch(isa, Thin { left, right, sums });
}

struct Thin<'a, T> {
    left: &'a [T],
    right: Panels<'a, T>,
    sums: &'a mut [T],
}

impl<T: Real> Kernel for Thin<'_, T> {
    type Out = ();
    const COPIES: Copies = Copies::Fma;
    #[inline(always)]
    fn run(self) {
        let Panels { data, step, .. } = self.right;
        let n = self.sums.len();
        let (left, rest) = self.left.as_chunks::<TOGETHER>();
        for (i, a) in left.iter().enumerate() {
            let b: [&[T]; TOGETHER] = std::array::from_fn(|u| &data[(i * TOGETHER + u) * step..][..n]);
            for (j, sum) in self.sums.iter_mut().enumerate() {
                let mut s = *sum;
                for u in 0..TOGETHER {
                    s = a[u].fma(b[u][j], s);
                }
                *sum = s;
            }
        }
        for (i, a) in rest.iter().enumerate() {
            let b = &data[(left.len() * TOGETHER + i) * step..][..n];
            for (sum, b) in self.sums.iter_mut().zip(b) {
                *sum = a.fma(*b, *sum);
            }
        }
    }
}
