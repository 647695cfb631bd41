//! Seeded random choices: sizes around the edges of vectors, blocks and chunks, values that include
//! special ones, strided memory.

use elinvar_core::philox::Stream;
use elinvar_core::{DType, Element, HostData, Layout, Shape, each_dtype, storage};

/// Sizes at and around the edges of vectors, lanes, scan groups, chunks and blocks.
pub const EDGES: &[usize] = &[
    0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512,
    513, 1023, 1024, 1025, 2047, 2049, 4095, 4096, 4097, 8191, 8193, 12289,
];

/// The distribution of a tensor's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Between -2 and 2: sums and products stay finite.
    Tame,
    /// As `Tame`, with a rare special value.
    Sparse,
    /// All magnitudes, and every tenth a special value.
    Wild,
    /// A few values, so that there are ties.
    Few,
}

/// Zeros of both signs, infinities, NaN, ends of the ranges, subnormals of f32 and f16, halves
/// (rounding ties).
const SPECIAL: &[f64] = &[
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    f32::MAX as f64,
    f32::MIN as f64,
    f32::MIN_POSITIVE as f64,
    1.401298464324817e-45,
    -1e-40,
    65504.0,
    65520.0,
    6e-8,
    16777217.0,
    0.1,
];

/// A source of choices: element `at` of a random stream, counting up.
#[derive(Clone, Debug)]
pub struct Dice {
    stream: Stream,
    at: u64,
}

impl Dice {
    /// The choices of a seed and a number.
    pub fn new(seed: u64, number: u64) -> Self {
        Dice { stream: Stream { seed, stream: number }, at: 0 }
    }
    fn word(&mut self) -> u64 {
        self.at += 1;
        self.stream.word64(self.at - 1)
    }
    /// A number in `0..n`; 0 if there is none.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.word() % n as u64) as usize }
    }
    /// A number in `low..=high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }
    /// True with probability 1 / `n`.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    /// One of these elements.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
    /// A size from [`EDGES`], at most `largest`.
    pub fn size(&mut self, largest: usize) -> usize {
        let fit = EDGES.partition_point(|e| *e <= largest);
        EDGES[self.below(fit)]
    }
    /// A shape of this rank with at most `largest` elements, one axis of it at an edge.
    pub fn shape(&mut self, rank: usize, largest: usize) -> Vec<usize> {
        let mut shape = vec![1; rank];
        if rank == 0 {
            return shape;
        }
        let long = self.below(rank);
        shape[long] = self.size(largest);
        let mut left = largest / shape[long].max(1);
        for (i, s) in shape.iter_mut().enumerate() {
            if i != long {
                *s = self.between(1, left.clamp(1, 5));
                left /= *s;
            }
        }
        shape
    }
    /// A distribution.
    pub fn values(&mut self) -> Values {
        self.pick(&[Values::Tame, Values::Tame, Values::Sparse, Values::Wild, Values::Few])
    }
    fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// `reach`: the largest power of two, and its reciprocal the smallest, of wild values.
    fn float(&mut self, values: Values, reach: usize) -> f64 {
        match values {
            Values::Tame => self.unit() * 4.0 - 2.0,
            Values::Sparse if self.once_in(300) => self.pick(SPECIAL),
            Values::Sparse => self.unit() * 4.0 - 2.0,
            Values::Wild if self.once_in(10) => self.pick(SPECIAL),
            Values::Wild => {
                let exponent = self.between(0, 2 * reach) as i32 - reach as i32;
                (self.unit() * 2.0 - 1.0) * 2f64.powi(exponent)
            }
            Values::Few => self.pick(&[-1.0, -0.0, 0.0, 1.0, 2.0]),
        }
    }
    fn int(&mut self, values: Values) -> i64 {
        match values {
            Values::Tame | Values::Few => self.below(7) as i64 - 3,
            Values::Sparse | Values::Wild if self.once_in(10) => {
                self.pick(&[i64::MIN, i64::MAX, 0, -1, 1 << 31])
            }
            Values::Sparse | Values::Wild => self.word() as i64,
        }
    }
    /// `len` elements.
    pub fn data(&mut self, dtype: DType, len: usize, values: Values) -> HostData {
        if dtype.is_float() {
            // Some beyond the ends of a narrow format, most inside of it.
            let reach = dtype.format().map_or(40, |f| (f.bias + f.mantissa).min(40)) as usize;
            each_dtype!(dtype, T => {
                T::wrap((0..len).map(|_| T::from_f64(self.float(values, reach))).collect::<Vec<_>>())
            })
        } else {
            // Through i64, so that integers wrap instead of saturating.
            let v: Vec<i64> = (0..len).map(|_| self.int(values)).collect();
            match dtype {
                DType::I64 => HostData::I64(v.into()),
                DType::I32 => HostData::I32(v.iter().map(|x| *x as i32).collect()),
                DType::U8 => HostData::U8(v.iter().map(|x| *x as u8).collect()),
                DType::Bool => HostData::Bool(v.iter().map(|x| *x > 0).collect()),
                DType::F32 | DType::F64 | storage!(DType) => {
                    unreachable!("floats were taken care of")
                }
            }
        }
    }
    /// A layout of this shape in a buffer, and the buffer's length: contiguous, or with permuted
    /// axes, gaps, an offset, reversed or repeated axes.
    pub fn layout(&mut self, shape: &[usize]) -> (Layout, usize) {
        let new = |s: &[usize]| Shape::new(s).expect("sizes are small");
        if self.once_in(3) {
            return (Layout::contiguous(new(shape)), shape.iter().product());
        }
        let rank = shape.len();
        let mut order: Vec<usize> = (0..rank).collect();
        for i in (1..rank).rev() {
            order.swap(i, self.below(i + 1));
        }
        let mut stored = Vec::new();
        let mut cuts = Vec::new();
        for &axis in &order {
            let (start, step) = if self.once_in(3) { (self.below(3), self.between(1, 3)) } else { (0, 1) };
            let repeated = shape[axis] > 1 && self.once_in(8);
            let size = if repeated { 1 } else { start + shape[axis] * step };
            stored.push(size);
            cuts.push((start, step, repeated));
        }
        let len = stored.iter().product();
        let mut l = Layout::contiguous(new(&stored));
        for (at, (&axis, (start, step, repeated))) in order.iter().zip(cuts).enumerate() {
            if !repeated && (start, step) != (0, 1) && shape[axis] > 0 {
                l = l.slice(at, start, shape[axis], step as isize);
            } else if !repeated && shape[axis] == 0 {
                l = l.slice(at, 0, 0, 1);
            }
            if !repeated && self.once_in(6) {
                l = l.flip(at);
            }
        }
        let back: Vec<usize> =
            (0..rank).map(|a| order.iter().position(|o| *o == a).expect("an order")).collect();
        let l = l.permute(&back).broadcast_to(&new(shape), "draw").expect("repeated axes have size 1");
        (l, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_the_shape_and_stay_in_their_buffer() {
        let (mut strided, mut reversed, mut repeated) = (0, 0, 0);
        for number in 0..2000 {
            let mut dice = Dice::new(1, number);
            let rank = dice.below(5);
            let shape = dice.shape(rank, 200);
            let (l, len) = dice.layout(&shape);
            assert_eq!(l.shape().dims(), shape);
            assert!(l.positions().all(|p| p < len), "{l:?} in {len}");
            strided += usize::from(!l.is_contiguous());
            reversed += usize::from(l.strides().iter().any(|s| *s < 0));
            repeated += usize::from(l.is_broadcast());
        }
        assert!(strided > 500 && reversed > 100 && repeated > 50, "{strided} {reversed} {repeated}");
    }

    #[test]
    fn a_number_repeats_its_choices() {
        let draw = || Dice::new(7, 3).data(DType::F32, 50, Values::Wild).to_le_bytes();
        assert_eq!(draw(), draw());
    }
}
