//! Numbers in pieces: the sum of the pieces is the constant to several times the precision of a
//! lane.
//!
//! Every piece is what the pieces before it leave, rounded to the lane's width; a short first piece
//! has fewer bits, so that its product with a small whole number is exact. Computed in 3,000-bit
//! arithmetic.

use crate::lane::Lane;

/// One constant: its pieces for 32-bit and for 64-bit lanes.
pub struct Pieces {
    pub(super) single: [f64; 3],
    pub(super) double: [f64; 3],
}

impl Pieces {
    /// Piece number `i`; the first is the constant rounded.
    #[inline(always)]
    pub fn piece<L: Lane>(&self, i: usize) -> L {
        L::lit(if L::BITS == 32 { self.single[i] } else { self.double[i] })
    }
}

/// The natural logarithm of 2.
pub const LN_2: Pieces = Pieces {
    single: [0.6931471824645996, -1.9046542121259336e-9, -8.78318373858934e-17],
    double: [0.6931471805599453, 2.3190468138462996e-17, 5.707708438416212e-34],
};

/// The same with a first piece of 16 and 42 bits: exact times any exponent.
pub const LN_2_SHORT: Pieces = Pieces {
    single: [0.693145751953125, 1.428606765330187e-6, 5.497923148104107e-14],
    double: [0.6931471805598903, 5.497923018708371e-14, 1.94704509238075e-31],
};

/// The decimal logarithm of 2, with a first piece of 16 and 42 bits.
pub const LOG10_2_SHORT: Pieces = Pieces {
    single: [0.30103302001953125, -3.024355464731343e-6, -8.532344481556459e-14],
    double: [0.30102999566395283, 2.8363394551044964e-14, 2.8316642130894684e-31],
};

/// 1 / log(2)
pub const LOG2_E: Pieces = Pieces {
    single: [1.4426950216293335, 1.925963033500011e-8, -4.237339493363577e-16],
    double: [1.4426950408889634, 2.0355273740931033e-17, -1.0614659957117258e-33],
};

/// 1 / log(10)
pub const LOG10_E: Pieces = Pieces {
    single: [0.4342944920063019, -1.0103049952192578e-8, -1.0003910416815496e-16],
    double: [0.4342944819032518, 1.098319650216765e-17, 3.717181233110959e-34],
};

/// pi / 2
pub const HALF_PI: Pieces = Pieces {
    single: [1.5707963705062866, -4.371138828673793e-8, -1.7151245100058819e-15],
    double: [1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33],
};

/// 2 / 3
pub const TWO_THIRDS: Pieces = Pieces {
    single: [0.6666666865348816, -1.9868215517249155e-8, 5.921189641132699e-16],
    double: [0.6666666666666666, 3.700743415417188e-17, 2.0543252740130515e-33],
};

/// 2 / 5
pub const TWO_FIFTHS: Pieces = Pieces {
    single: [0.4000000059604645, -5.9604645663569045e-9, 8.88178432935015e-17],
    double: [0.4, -2.2204460492503132e-17, 1.232595164407831e-33],
};

/// 2 / 7
pub const TWO_SEVENTHS: Pieces = Pieces {
    single: [0.2857142984867096, -1.277242400732348e-8, 1.268826370578278e-16],
    double: [0.2857142857142857, 1.586032892321652e-17, 8.804251174341649e-34],
};
