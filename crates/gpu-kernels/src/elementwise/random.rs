//! Random numbers: Philox4x32-10 with a counter (block, stream) under a seed, see
//! `elinvar_core::philox`.
//!
//! An invocation takes one call of Philox, four words: four elements of one word each, or two of
//! two words. Seed, stream and the bounds of a distribution are launch arguments; or seed and
//! stream are in memory, for launches that are recorded and replayed with other streams.

use super::fill::{number, word64};
use crate::launch::args::{self, LaunchArgs};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::copy::Cast;
use crate::layout::indexing;
use elinvar_core::DType;
use elinvar_core::philox::Stream;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Binary, Constant, Elem, Kernel, Scalar};
use elinvar_kernel::lane::{Float, Term, W32, W64};
use elinvar_ops::backend::Random;
use elinvar_ops::lane::Lane;
use elinvar_ops::random::{Interval, uniform};

/// Invocations of a workgroup.
const BLOCK_THREADS: u32 = 256;

/// Which distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// [`Random::Uniform`]
    Uniform,
    /// [`Random::Normal`]
    Normal,
    /// [`Random::Bernoulli`]
    Bernoulli,
    /// [`Random::Int`]
    Int,
}

/// Where a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamSource {
    /// Given with the launch.
    Given(Stream),
    /// In memory, at this element of an operand of i32, as [`Stream::to_words`] has it.
    Memory(usize),
}

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RandomConfig {
    /// Which distribution.
    pub kind: Distribution,
    /// The dtype of the result.
    pub dtype: DType,
    /// Are there positions beyond 2^30?
    pub wide: bool,
    /// Is the stream in memory?
    pub in_memory: bool,
}

/// The work of drawing: the stream, if it is in memory, and the result. `None` if there are no
/// elements. Uniform and normal numbers are floats.
pub fn random(r: Random, s: StreamSource, dtype: DType, len: usize) -> Option<Work<'static>> {
    if len == 0 {
        return None;
    }
    let (in_memory, source) = match s {
        StreamSource::Given(s) => (false, [s.seed, s.stream]),
        StreamSource::Memory(offset) => (true, [offset as u64, 0]),
    };
    let config = |kind| RandomConfig { kind, dtype, wide: indexing::are_many(len), in_memory };
    let float = |v: f64| Constant::float(Elem::from(dtype).scalar(), v).bits;
    let (config, bounds) = match r {
        Random::Uniform { low, high } => {
            (config(Distribution::Uniform), Interval::of(low, high, dtype).numbers().map(float))
        }
        Random::Normal { mean, std } => (config(Distribution::Normal), [float(std), float(mean), 0, 0]),
        Random::Bernoulli { p } => {
            // u < p, for u = k / 2^bits: k < ceil(p 2^bits). A cast takes NaN to 0.
            let scale = if dtype == DType::F64 { 2f64.powi(53) } else { 2f64.powi(24) };
            (config(Distribution::Bernoulli), [(p * scale).ceil().clamp(0.0, scale) as u64, 0, 0, 0])
        }
        Random::Int { low, high } => {
            (config(Distribution::Int), [high.wrapping_sub(low) as u64, low as u64, 0, 0])
        }
    };
    let mut all = vec![len as i64];
    all.extend(source.iter().chain(&bounds).flat_map(|&w| [i64::from(w as u32), (w >> 32) as i64]));
    let groups = grid((len as u64).div_ceil(u64::from(BLOCK_THREADS) * config.each() as u64));
    let key = Key::of("random").with(&config);
    Some(args::work(key, move || build(&config), groups, indexing::scalar(config.wide), &all))
}

impl RandomConfig {
    /// Elements of an invocation.
    fn each(&self) -> i64 {
        match self.kind {
            Distribution::Int => 2,
            Distribution::Uniform | Distribution::Normal | Distribution::Bernoulli
                if self.dtype == DType::F64 =>
            {
                2
            }
            Distribution::Uniform | Distribution::Normal | Distribution::Bernoulli => 4,
        }
    }
    fn name(&self) -> String {
        let kind = match self.kind {
            Distribution::Uniform => "uniform",
            Distribution::Normal => "normal",
            Distribution::Bernoulli => "bernoulli",
            Distribution::Int => "int",
        };
        let wide = if self.wide { "_wide" } else { "" };
        format!("random_{kind}_{}{wide}{}", self.dtype, if self.in_memory { "_in_memory" } else { "" })
    }
}

/// Four random words.
fn philox<'k>(counter: [Val<'k>; 4], key: [Val<'k>; 2]) -> [Val<'k>; 4] {
    const PHILOX_MULTIPLIERS: [i64; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const WEYL_KEYS: [i64; 2] = [0x9E37_79B9, 0xBB67_AE85];
    let (mut c, mut key) = (counter, key);
    let high = |m: i64, x: Val<'k>| x.binary(Binary::MulHigh, x.like(m));
    for _ in 0..10 {
        c = [
            high(PHILOX_MULTIPLIERS[1], c[2]) ^ c[1] ^ key[0],
            c[2] * PHILOX_MULTIPLIERS[1],
            high(PHILOX_MULTIPLIERS[0], c[0]) ^ c[3] ^ key[1],
            c[0] * PHILOX_MULTIPLIERS[0],
        ];
        key = [key[0] + WEYL_KEYS[0], key[1] + WEYL_KEYS[1]];
    }
    c
}

/// The upper half of the product of two u64, from products of 32 bits: wider ones are not to be had
/// everywhere.
fn high64<'k>(a: Val<'k>, b: Val<'k>) -> Val<'k> {
    let low = |x: Val<'k>| x & 0xffff_ffff;
    let (a0, a1, b0, b1) = (low(a), a >> 32, low(b), b >> 32);
    let (p, q) = (a0 * b1, a1 * b0);
    let carry = ((a0 * b0) >> 32) + low(p) + low(q);
    a1 * b1 + (p >> 32) + (q >> 32) + (carry >> 32)
}

/// Two normal numbers from two uniform ones.
fn normal<L: Lane>(first: L, second: L, std: L, mean: L) -> [L; 2] {
    let radius = (L::lit(-2.0) * (L::lit(1.0) - first).log()).sqrt();
    let angle = L::lit(std::f64::consts::TAU) * second;
    [angle.cos(), angle.sin()].map(|rotated| (radius * rotated).fma(std, mean))
}

/// The kernel of a form.
pub fn build(config: &RandomConfig) -> Kernel {
    let k = Builder::new(&config.name(), [BLOCK_THREADS, 1, 1]);
    let memory = config.in_memory.then(|| k.buffer("stream", Elem::I32, Access::Read));
    let y = k.buffer("y", config.dtype.into(), Access::Write);
    let s = indexing::scalar(config.wide);
    let args = LaunchArgs::new(&k, s, 13);
    let len = args.get("len");
    let [seed, stream, a, b, c, d] = ["seed", "stream", "a", "b", "c", "d"]
        .map(|name| ["low", "high"].map(|half| args.get(&format!("{name}_{half}"))));
    let block = linear_group_id(&k, s) * i64::from(BLOCK_THREADS) + k.local_id(0).to(s);
    let first = block * config.each();
    k.if_(first.lt(len), || {
        let upper = if config.wide { (block >> 32).to(Scalar::U32) } else { k.u32(0) };
        let source = match memory {
            // The first argument is where it begins there.
            Some(p) => [0, 1, 2, 3].map(|i| k.load(p, seed[0] + i, 1)),
            None => [seed[0], seed[1], stream[0], stream[1]],
        };
        let [seed_low, seed_high, low, high] = source.map(|word| word.to(Scalar::U32));
        let words = philox([block.to(Scalar::U32), upper, low, high], [seed_low, seed_high]);
        for (e, v) in config.draw(&k, words, [a, b, c, d]).into_iter().enumerate() {
            let i = first + e as i64;
            if e == 0 {
                k.store(y, i, v);
            } else {
                k.if_(i.lt(len), || k.store(y, i, v));
            }
        }
    });
    k.finish()
}

impl RandomConfig {
    /// The elements that four words give.
    fn draw<'k>(&self, k: &'k Builder, words: [Val<'k>; 4], bounds: [[Val<'k>; 2]; 4]) -> Vec<Val<'k>> {
        let elem = Elem::from(self.dtype);
        let s = elem.scalar();
        let pairs = || [word64(words[0], words[1]), word64(words[2], words[3])];
        let uniforms = || match s {
            Scalar::F64 => {
                let scale = k.float(s, 1.0 / 2f64.powi(53));
                pairs().map(|w| (w >> 11).to(s) * scale).to_vec()
            }
            _ => {
                let scale = k.float(s, 1.0 / 2f64.powi(24));
                words.map(|w| (w >> 8).to(s) * scale).to_vec()
            }
        };
        match self.kind {
            Distribution::Uniform => {
                let interval = bounds.map(|b| Term::Value(number(s, b)));
                let one = |u: Val<'k>| match s {
                    Scalar::F64 => {
                        uniform(Float::<W64>::new(Term::Value(u)), interval.map(Float::new)).0.value(k)
                    }
                    _ => uniform(Float::<W32>::new(Term::Value(u)), interval.map(Float::new)).0.value(k),
                };
                uniforms().into_iter().map(one).collect()
            }
            Distribution::Normal => {
                let [std, mean, ..] = bounds;
                let given = [std, mean].map(|b| Term::Value(number(s, b)));
                let pair = |u: &[Val<'k>]| match s {
                    Scalar::F64 => {
                        let [u, v] = [u[0], u[1]].map(|u| Float::<W64>::new(Term::Value(u)));
                        let [std, mean] = given.map(Float::new);
                        normal(u, v, std, mean).map(|x| x.0.value(k))
                    }
                    _ => {
                        let [u, v] = [u[0], u[1]].map(|u| Float::<W32>::new(Term::Value(u)));
                        let [std, mean] = given.map(Float::new);
                        normal(u, v, std, mean).map(|x| x.0.value(k))
                    }
                };
                uniforms().chunks(2).flat_map(pair).collect()
            }
            Distribution::Bernoulli => {
                let below = |u: Val<'k>, bound: Scalar| u.lt(number(bound, bounds[0])).to(s);
                match s {
                    Scalar::F64 => pairs().map(|w| below(w >> 11, Scalar::U64)).to_vec(),
                    _ => words.map(|w| below(w >> 8, Scalar::U32)).to_vec(),
                }
            }
            Distribution::Int => {
                let [span, low, ..] = bounds.map(|b| number(Scalar::U64, b));
                let cast = Cast { from: DType::I64, to: self.dtype };
                let draw = |w| cast.cast((high64(w, span) + low).bitcast(Scalar::I64));
                pairs().map(draw).to_vec()
            }
        }
    }
}
