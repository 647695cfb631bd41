//! Fill: `y[i] = value`.
//!
//! The value is a launch argument, as its bits, so there is one kernel for each type of memory.

use crate::launch::args::{self, LaunchArgs};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing;
use elinvar_core::{DType, Scalar as Value, Storage, bf16, f16, match_storage, rounding};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Constant, Elem, Kernel, Scalar};

/// Invocations of a workgroup.
const BLOCK_THREADS: u32 = 256;
/// Elements that an invocation stores.
const ELEMENTS_PER_THREAD: u8 = 4;

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FillConfig {
    /// What the result holds.
    pub elem: Elem,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// The work of filling the first `len` elements of a buffer: the result. `None` if there are none.
pub fn fill(value: Value, dtype: DType, len: usize) -> Option<Work<'static>> {
    if len == 0 {
        return None;
    }
    let config = FillConfig { elem: dtype.into(), wide: indexing::are_many(len) };
    let bits = nearest(value, config.elem).bits;
    let args = [len as i64, i64::from(bits as u32), (bits >> 32) as i64];
    let groups = grid((len as u64).div_ceil(u64::from(BLOCK_THREADS) * u64::from(ELEMENTS_PER_THREAD)));
    let key = Key::of("fill").with(&config);
    Some(args::work(key, move || build(&config), groups, indexing::scalar(config.wide), &args))
}

/// The element nearest to a value, as the number that is stored for it: floats round once to
/// nearest even; integers cut floats towards zero and saturate, and wrap integers; bool is `!= 0`.
pub fn nearest(value: Value, elem: Elem) -> Constant {
    fn stored<T: Storage>(v: f64) -> Constant {
        Constant::from(rounding::storage_from_f64::<T>(v).to_f32())
    }
    let s = elem.scalar();
    let float = |v: f64| match elem {
        Elem::F16 => stored::<f16>(v),
        Elem::BF16 => stored::<bf16>(v),
        Elem::F8(f) => match_storage!(DType f.dtype(); float8 T => stored::<T>(v);
            _ => unreachable!("a float of one byte"),
        ),
        Elem::U8 => Constant::from(u32::from(v as u8)),
        Elem::Bool | Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F32 | Elem::F64 => {
            Constant::float(s, v)
        }
    };
    match (value, elem) {
        (Value::Float(v), _) => float(v),
        (Value::Int(v), Elem::F16 | Elem::BF16 | Elem::F8(_)) => float(rounding::odd_f64(v)),
        (Value::Int(v), Elem::U8) => Constant::from(u32::from(v as u8)),
        (Value::Int(v), _) => Constant::int(s, v),
        (Value::Bool(v), _) => Constant::int(s, i64::from(v)),
    }
}

/// A number of a type from its bits, given as two words.
pub(crate) fn number<'k>(s: Scalar, [low, high]: [Val<'k>; 2]) -> Val<'k> {
    let low = low.to(Scalar::U32);
    let both = || word64(low, high.to(Scalar::U32));
    match s {
        Scalar::Bool => low.to(Scalar::Bool),
        Scalar::U32 => low,
        Scalar::I32 | Scalar::F32 => low.bitcast(s),
        Scalar::U64 => both(),
        Scalar::I64 | Scalar::F64 => both().bitcast(s),
    }
}

/// Two words as one number.
pub(crate) fn word64<'k>(low: Val<'k>, high: Val<'k>) -> Val<'k> {
    low.to(Scalar::U64) | (high.to(Scalar::U64) << 32)
}

/// The kernel of a form.
pub fn build(config: &FillConfig) -> Kernel {
    let wide = if config.wide { "_wide" } else { "" };
    let k = Builder::new(&format!("fill_{}{wide}", config.elem), [BLOCK_THREADS, 1, 1]);
    let y = k.buffer("y", config.elem, Access::Write);
    let s = indexing::scalar(config.wide);
    let args = LaunchArgs::new(&k, s, 3);
    let [len, low, high] = ["len", "low", "high"].map(|n| args.get(n));
    let value = number(config.elem.scalar(), [low, high]);
    // Neighbours store neighbours; an invocation's elements are a workgroup apart.
    let first = linear_group_id(&k, s) * i64::from(BLOCK_THREADS * u32::from(ELEMENTS_PER_THREAD))
        + k.local_id(0).to(s);
    for e in 0..ELEMENTS_PER_THREAD {
        let i = first + i64::from(BLOCK_THREADS * u32::from(e));
        k.if_(i.lt(len), || k.store(y, i, value));
    }
    k.finish()
}
