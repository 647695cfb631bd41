//! Random operands with awkward layouts, and comparison with the reference by bits.

use crate::data::{Data, Numbers};
use elinvar_core::philox::Stream;
use elinvar_core::{DType, Element, HostData, Layout, Result, Scalar, Shape, each_data, each_dtype};
use elinvar_cpu::{Cpu, CpuBuffer, CpuDevice, Isa};
use elinvar_ops::View;
use elinvar_ops::backend::Memory;
use elinvar_ops::backend::Placed;
use elinvar_reference::Reference;
use std::fmt::Debug;
use std::sync::LazyLock;

/// All instruction sets, with one thread and with several. Without optimisation, where a call takes
/// a hundred times as long, each instruction set has one number of threads.
///
/// They are made once: each check asks for them, and qemu keeps memory of every thread that ever
/// was.
pub fn devices() -> Vec<CpuDevice> {
    static ALL: LazyLock<Vec<CpuDevice>> = LazyLock::new(|| {
        let mut all = Vec::new();
        for (i, isa) in Isa::all().into_iter().enumerate() {
            let threads: &[usize] = if cfg!(debug_assertions) { &[1 + i % 3] } else { &[1, 2, 3, 8] };
            all.extend(threads.iter().map(|&n| CpuDevice::new(isa, n).unwrap()));
        }
        all
    });
    ALL.clone()
}

/// How often something random is tried: less without optimisation.
pub fn rounds(n: usize) -> usize {
    if cfg!(debug_assertions) { n / 8 } else { n }
}

/// How many elements are worth the time.
pub fn affordable(n: usize) -> bool {
    n <= if cfg!(debug_assertions) { 13_000 } else { 45_000 }
}

/// Calls with layouts whose rows are the channels of several images, so that blocks are in up to as
/// many parts, which begin in any lane; and whether their numbers should be wild.
pub fn channels_of_images(seed: u64, mut each: impl FnMut(&mut Dice, Layout, bool)) {
    let mut dice = Dice::new(seed);
    for (images, n) in [
        (2, 3136),
        (3, 1999),
        (7, 784),
        (8, 601),
        (9, 576),
        (9, 586),
        (16, 256),
        (17, 255),
        (40, 130),
        (2, 5000),
    ] {
        for channels in [1, 2, 9] {
            if affordable(images * channels * n) {
                let l = Layout::contiguous(Shape::new(&[images, channels, n]).unwrap()).transpose(0, 1);
                each(&mut dice, l, n % 2 == 0 && n < 800);
            }
        }
    }
}

/// Random choices, counted up from a seed.
pub struct Dice(Stream, u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(Stream { seed, stream: 11 }, 0)
    }
    pub fn below(&mut self, n: usize) -> usize {
        self.1 += 1;
        (self.0.word64(self.1) % n.max(1) as u64) as usize
    }
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
    /// Numbers of this type; `wild`: of all magnitudes, with special ones among them.
    pub fn data(&mut self, dtype: DType, len: usize, wild: bool) -> Data {
        const SPECIAL: [f64; 9] = [
            0.0,
            -0.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            1e-40,
            f32::MAX as f64,
            65504.0,
            1.401298464324817e-45,
        ];
        fn draw<T: Element>(dice: &mut Dice, len: usize, wild: bool) -> HostData {
            let number = |dice: &mut Dice| {
                let u = dice.below(1 << 24) as f64 / (1 << 23) as f64 - 1.0;
                if !T::DTYPE.is_float() {
                    return (u * 1000.0).round();
                }
                match wild && dice.below(20) == 0 {
                    true => dice.pick(&SPECIAL),
                    false if wild => u * (2f64).powi(dice.below(40) as i32 - 20),
                    false => u * 2.0,
                }
            };
            T::wrap((0..len).map(|_| T::from_f64(number(dice))).collect::<Vec<_>>())
        }
        each_dtype!(dtype, T => draw::<T>(self, len, wild)).into()
    }
    /// A tensor of this shape, somewhere in a buffer: as it is, permuted, flipped, with gaps, or
    /// broadcast.
    pub fn operand(&mut self, dtype: DType, dims: &[usize], wild: bool) -> (Data, Layout) {
        let rank = dims.len();
        let mut order: Vec<usize> = (0..rank).collect();
        if rank > 1 && self.below(2) == 0 {
            for i in (1..rank).rev() {
                order.swap(i, self.below(i + 1));
            }
        }
        let mut strides = vec![0isize; rank];
        let gap = self.pick(&[1, 1, 1, 2, 3]);
        let (mut step, mut first) = (gap, self.below(4));
        for &a in order.iter().rev() {
            match self.below(8) {
                0 => strides[a] = 0,
                1 => {
                    strides[a] = -step;
                    first += (dims[a].max(1) - 1) * step as usize;
                    step *= dims[a].max(1) as isize;
                }
                _ => {
                    strides[a] = step;
                    step *= dims[a].max(1) as isize;
                }
            }
        }
        let shape = Shape::new(dims).unwrap();
        let len = first + step as usize + self.below(3);
        let layout = Layout::strided(shape, &strides, first, len).unwrap();
        (self.data(dtype, len, wild), layout)
    }
}

pub fn cpu<'a>(x: &'a (Data, Layout)) -> View<'a, Cpu> {
    View { buffer: x.0.cpu(), layout: &x.1, dtype: x.0.dtype() }
}

pub fn reference<'a>(x: &'a (Data, Layout)) -> View<'a, Reference> {
    View { buffer: &x.0, layout: &x.1, dtype: x.0.dtype() }
}

/// A result in the order of its elements.
pub fn row_by_row(d: &CpuDevice, y: Placed<CpuBuffer>, dtype: DType) -> Result<HostData> {
    match &y.layout {
        Some(layout) => Cpu::download(d, View { buffer: &y.buffer, layout, dtype }),
        None => Ok(y.buffer.data()?.clone()),
    }
}

/// The same bits? NaN is like any other NaN.
pub fn same(what: &str, got: Result<impl Numbers + Debug>, want: Result<impl Numbers + Debug>) {
    let (got, want) = match (&got, &want) {
        (Ok(got), Ok(want)) => (got.numbers(), want.numbers()),
        (Err(a), Err(b)) => return assert_eq!(a.kind(), b.kind(), "{what}"),
        (got, want) => panic!("{what}: {got:?} where the reference gives {want:?}"),
    };
    assert_eq!((got.dtype(), got.len()), (want.dtype(), want.len()), "{what}");
    fn compare<T: Element>(what: &str, got: &[T], want: &HostData) {
        let want = T::slice(want).expect("the same type");
        for (i, (a, b)) in got.iter().zip(want).enumerate() {
            let (wide_a, wide_b) = (a.to_f64(), b.to_f64());
            let same = (wide_a.is_nan() && wide_b.is_nan())
                || (a == b && wide_a.is_sign_negative() == wide_b.is_sign_negative());
            assert!(same, "{what}: element {i} is {a:?}, and should be {b:?}");
        }
    }
    each_data!(got, v => compare(what, v, want));
}

/// What a fold of this type gives.
pub fn folded(x: DType, adds: bool) -> DType {
    if adds && !x.is_float() { DType::I64 } else { x }
}

/// A number for [`Scalar`], so that unused helpers are seen.
pub fn full(dtype: DType, len: usize, value: f64) -> HostData {
    HostData::full(dtype, len, Scalar::Float(value)).unwrap()
}
