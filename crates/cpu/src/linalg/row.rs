//! Rows of a matrix that is turned.

use crate::reduce::float::Float;
use elinvar_ops::lane::LaneInt;

/// Elements of a group: as many as the widest register has.
pub(super) const GROUP: usize = 16;

/// A row, and what is known of it.
pub(super) struct Row<'r, C> {
    /// What is made orthogonal, filled up with zeros, then the rest, too.
    pub(super) groups: &'r mut [[C; GROUP]],
    /// The sum of the squares of the first part, since the row last changed.
    pub(super) square: Option<C>,
    /// Is no element -0, infinite or NaN? Not known since the row last changed.
    plain: Option<bool>,
    /// Which row it was at first.
    number: usize,
    /// A bit for each row: is the tangent with it 0, unless that one has changed since?
    settled: &'r mut [u64],
}

impl<'r, C: Float> Row<'r, C> {
    /// Row `number` with these elements. `settled` has no bit set, and one for each row.
    pub(super) fn new(groups: &'r mut [[C; GROUP]], number: usize, settled: &'r mut [u64]) -> Self {
        Row { groups, square: None, plain: None, number, settled }
    }
    /// Both were found to be plain, with a tangent of 0, and have not changed since.
    #[inline(always)]
    pub(super) fn is_settled_with(&self, other: &Self) -> bool {
        let bit = |row: &Self, of: usize| row.settled[of / 64] >> (of % 64);
        bit(self, other.number) & bit(other, self.number) & 1 == 1
    }
    /// Notes that both are plain, with a tangent of 0.
    #[inline(always)]
    pub(super) fn settle_with(&mut self, other: &mut Self) {
        self.settled[other.number / 64] |= 1 << (other.number % 64);
        other.settled[self.number / 64] |= 1 << (self.number % 64);
    }
    /// Its elements, which are to be changed.
    #[inline(always)]
    pub(super) fn changed(&mut self) -> &mut [[C; GROUP]] {
        (self.square, self.plain) = (None, None);
        self.settled.fill(0);
        self.groups
    }
    /// Is no element -0, infinite or NaN? Two such rows are exchanged by a rotation by 0, and no
    /// bit is changed.
    #[inline(always)]
    pub(super) fn is_plain(&mut self) -> bool {
        if let Some(plain) = self.plain {
            return plain;
        }
        let (infinite, negative) = (C::lit(f64::INFINITY), (-C::POSITIVE_ZERO).to_bits());
        let mut all = true;
        for x in self.groups.as_flattened() {
            all &= x.abs().lt(infinite) & !x.to_bits().eq(negative);
        }
        self.plain = Some(all);
        all
    }
}
