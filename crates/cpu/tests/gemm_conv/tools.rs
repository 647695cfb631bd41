//! Random operands, views and comparison by bits.

use crate::data::{Data, Numbers};
use elinvar_core::{DType, Element, HostData, Layout, Shape, match_storage};
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::backend::View;
use elinvar_reference::Reference;

/// Numbers that look random and are the same every time.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    /// About one of `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
    /// Mostly of size 1; now and then what arithmetic treats specially, if `wild`.
    fn number(&mut self, wild: bool) -> f64 {
        if wild && self.once_in(40) {
            return self.pick(&[0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-40, 3e38, -6e-8]);
        }
        self.below(2001) as f64 / 1000.0 - 1.0
    }
    pub fn data(&mut self, dtype: DType, len: usize, wild: bool) -> HostData {
        let v: Vec<f64> = (0..len).map(|_| self.number(wild)).collect();
        match_storage!(DType dtype; storage T => T::wrap(v.iter().map(|x| T::from_f64(*x)).collect::<Vec<T>>());
            DType::F32 => HostData::F32(v.iter().map(|x| *x as f32).collect()),
            DType::F64 => HostData::F64(v.into()),
            DType::I64 => HostData::I64(v.iter().map(|x| (x * 100.0) as i64).collect()),
            DType::I32 => HostData::I32(v.iter().map(|x| (x * 100.0) as i32).collect()),
            DType::U8 => HostData::U8(v.iter().map(|x| (x * 100.0) as u8).collect()),
            DType::Bool => HostData::Bool(v.iter().map(|x| *x > 0.0).collect()),
        )
    }
    /// An operand whose elements are in memory in some order, with gaps, backwards, or repeated.
    pub fn operand(&mut self, dtype: DType, shape: &[usize], wild: bool) -> Operand {
        let rank = shape.len();
        let mut order: Vec<usize> = (0..rank).collect();
        for i in (1..rank).rev() {
            if self.once_in(2) {
                order.swap(i, self.below(i + 1));
            }
        }
        let plain = self.once_in(3);
        let (mut stored, mut cuts) = (vec![], vec![]);
        for &axis in &order {
            let repeated = !plain && self.once_in(8);
            let (start, step) =
                if plain || !self.once_in(4) { (0, 1) } else { (self.below(3), 1 + self.below(2)) };
            stored.push(if repeated { 1 } else { start + shape[axis] * step });
            cuts.push((start, step, repeated));
        }
        let len = stored.iter().product();
        let mut l = Layout::contiguous(Shape::new(&stored).unwrap());
        for (at, (&axis, (start, step, repeated))) in order.iter().zip(cuts).enumerate() {
            if repeated {
                continue;
            }
            l = l.slice(at, if shape[axis] == 0 { 0 } else { start }, shape[axis], step as isize);
            if !plain && self.once_in(6) {
                l = l.flip(at);
            }
        }
        let back: Vec<usize> = (0..rank).map(|a| order.iter().position(|o| *o == a).unwrap()).collect();
        let layout = l.permute(&back).broadcast_to(&Shape::new(shape).unwrap(), "draw").unwrap();
        Operand { data: self.data(dtype, len, wild).into(), layout }
    }
}

/// Memory and a look at it.
pub struct Operand {
    pub data: Data,
    pub layout: Layout,
}

impl Operand {
    pub fn contiguous(data: impl Into<Data>, shape: &[usize]) -> Operand {
        Operand { data: data.into(), layout: Layout::contiguous(Shape::new(shape).unwrap()) }
    }
    pub fn cpu(&self) -> View<'_, Cpu> {
        View { buffer: self.data.cpu(), layout: &self.layout, dtype: self.data.dtype() }
    }
    pub fn reference(&self) -> View<'_, Reference> {
        View { buffer: &self.data, layout: &self.layout, dtype: self.data.dtype() }
    }
}

/// Numbers of threads.
const THREADS: [usize; 4] = [1, 2, 3, 8];

/// Every instruction set with every number of threads.
pub fn devices() -> Vec<CpuDevice> {
    let all = Isa::with_kernels();
    all.iter().flat_map(|isa| THREADS.map(|n| CpuDevice::new(*isa, n).unwrap())).collect()
}

/// How often large random problems are tried: half as often without optimisation, where each takes
/// seconds.
pub fn rounds(n: usize) -> usize {
    if cfg!(debug_assertions) { n.div_ceil(2) } else { n }
}

/// Of [`devices`] every instruction set once, with numbers of threads that take turns: in four
/// rounds each has had all of them.
pub fn in_turn(on: &[CpuDevice], round: usize) -> Vec<CpuDevice> {
    let of_isa = on.chunks(THREADS.len()).enumerate();
    of_isa.map(|(i, devices)| devices[(round + i) % devices.len()].clone()).collect()
}

/// Every bit, but for the payload of NaN.
pub fn same(got: &impl Numbers, want: &impl Numbers, what: &str) {
    let (got, want) = (got.numbers(), want.numbers());
    assert_eq!((got.dtype(), got.len()), (want.dtype(), want.len()), "{what}");
    let bits = |d: &HostData| -> Vec<u64> {
        const NAN: u64 = u64::MAX;
        match_storage!(HostData d;
            storage v: T => v.iter().map(|x: &T| if x.is_nan() { NAN } else { x.to_bits().into() }).collect();
            HostData::F32(v) => v.iter().map(|x| if x.is_nan() { NAN } else { x.to_bits().into() }).collect(),
            HostData::F64(v) => v.iter().map(|x| if x.is_nan() { NAN } else { x.to_bits() }).collect(),
            HostData::I64(v) => v.iter().map(|x| *x as u64).collect(),
            HostData::I32(v) => v.iter().map(|x| *x as u64).collect(),
            HostData::U8(v) => v.iter().map(|x| u64::from(*x)).collect(),
            HostData::Bool(v) => v.iter().map(|x| u64::from(*x)).collect(),
        )
    };
    let (got, want) = (bits(got), bits(want));
    if let Some(i) = (0..got.len()).find(|&i| got[i] != want[i]) {
        panic!("{what}: element {i} of {} is {:x}, the reference has {:x}", got.len(), got[i], want[i]);
    }
}
